"""The demo's services can be killed at any moment and go on where they were; their configuration is a right one."""

from __future__ import annotations

import json
import os
import re
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from offsetguard.config.file import load_config
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo, GetMaxOffset
from offsetguard_peers.demo.services import main, own_address
from offsetguard_peers.rocketmq.requests import ask
from offsetguard_peers.waiting import wait_until

TOKEN = "xoxb-of-this-test"


@contextmanager
def service(sign: str, *arguments: str) -> Iterator[re.Match[str]]:
    """Run a service until the context ends with SIGKILL; yields once it has printed `sign`, a regular expression."""
    command = [sys.executable, "-m", "offsetguard_peers.demo.services", *arguments, "--free-ports"]
    environment = {**os.environ, "DEMO_SLACK_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            while (found := re.search(sign, printed := process.stdout.readline())) is None:
                assert printed, f"it ended before it said {sign!r}"
            yield found
        finally:
            process.kill()


@contextmanager
def receivers(folder: Path) -> Iterator[tuple[int, str, WebClient]]:
    """Run SMTP, inbox and Slack; yields SMTP's port, the inbox's address and a client."""
    sign = r"SMTP port (\d+), inbox (\S+), Slack (\S+)"
    with service(sign, "receivers", "--bind", "127.0.0.1", "--folder", str(folder)) as found:
        yield int(found[1]), found[2], WebClient(token=TOKEN, base_url=f"{found[3]}api/", retry_handlers=[])


def told(url: str) -> Any:
    with urlopen(url) as answer:
        return json.loads(answer.read())


@pytest.mark.slow
def test_what_was_accepted_survives_a_kill(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"], mail["Message-ID"] = "Lag", "o@ops.test", "a@ops.test", "<1@ops.test>"
    mail.set_content("words")
    with receivers(tmp_path) as (smtp_port, inbox, slack):
        with smtplib.SMTP("127.0.0.1", smtp_port) as session:
            session.send_message(mail, to_addrs=["a@ops.test", "hidden@ops.test"])
        parent = slack.chat_postMessage(channel="#alerts", text="firing")["ts"]
        reply = slack.chat_postMessage(channel="C0ALERTS", text="still firing", thread_ts=parent)["ts"]
        slack.chat_update(channel="C0ALERTS", ts=parent, text="resolved")
        mails, messages = told(f"{inbox}mails.json"), told(slack.base_url.replace("api/", "messages.json"))
    assert [(each["message_id"], each["recipients"]) for each in mails] == [
        ("<1@ops.test>", ["a@ops.test", "hidden@ops.test"])
    ]
    with receivers(tmp_path) as (smtp_port, inbox, slack):
        assert told(f"{inbox}mails.json") == mails
        assert told(slack.base_url.replace("api/", "messages.json")) == messages
        with smtplib.SMTP("127.0.0.1", smtp_port) as session:
            session.send_message(mail)
        assert [each["number"] for each in told(f"{inbox}mails.json")] == [1, 2]
        later = slack.chat_postMessage(channel="C0ALERTS", text="again", thread_ts=parent)["ts"]
        thread = slack.conversations_replies(channel="C0ALERTS", ts=parent)["messages"]
        assert [(each["ts"], each["text"]) for each in thread] == [
            (parent, "resolved"),
            (reply, "still firing"),
            (later, "again"),
        ]
        slack.token = "xoxb-another"
        with pytest.raises(SlackApiError, match="invalid_auth"):
            slack.auth_test()


def test_the_configuration_has_both_clusters_and_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"
    assert main(["config", "--out", str(file), "--page-url", "http://airflow.test"]) == 0
    config = load_config(file)
    assert {name: (cluster.name_servers, cluster.proxies) for name, cluster in config.clusters.items()} == {
        "rocketmq-4": (["rocketmq-4:9876"], []),
        "rocketmq-5": (["rocketmq-5:9876"], ["rocketmq-5:8080"]),
    }
    assert config.delivery.page_url == "http://airflow.test"


def test_only_an_address_of_this_machine_is_advertised() -> None:
    assert own_address("localhost") == "127.0.0.1"
    for host, reason in (("192.0.2.77", "no address of this machine"), ("nowhere.invalid", "nowhere.invalid: ")):
        with pytest.raises(OSError, match=reason):
            own_address(host)


def test_a_folder_with_other_things_in_it_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thesis = tmp_path / "rocketmq" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    options = ["--version", "4.9.7", "--host", "127.0.0.1", "--folder", str(tmp_path), "--free-ports"]
    assert main(["rocketmq", *options]) == 1
    assert "choose another with --folder" in capsys.readouterr().err
    assert thesis.read_text() == "years of work"


@pytest.mark.live
@pytest.mark.slow
def test_a_killed_cluster_leaves_nothing_and_goes_on_with_its_store(tmp_path: Path) -> None:
    """Staging takes half a minute and has tests of its own: it is said to be done."""
    (tmp_path / "rocketmq").mkdir()
    (tmp_path / "rocketmq" / "staged").touch()
    written = 0
    for _ in range(2):
        options = ["--version", "4.9.7", "--host", "127.0.0.1", "--folder", str(tmp_path)]
        with service(r"name server 127.0.0.1:(\d+)", "rocketmq", *options) as found:
            health = ["rocketmq-healthy", "--host", "127.0.0.1", "--port", found[1]]
            wait_until(lambda health=health: main(health) == 0, "a healthy cluster")
            (broker,) = ask(f"127.0.0.1:{found[1]}", GetBrokerClusterInfo()).brokers
            address, before = broker.addresses[0], written
            wait_until(lambda address=address, before=before: _end_of_orders(address) > before, "messages")
            written = _end_of_orders(address)
        wait_until(lambda: not _working_in(tmp_path), lambda: f"the end of {_working_in(tmp_path)}")


def _end_of_orders(address: str) -> int:
    return sum(ask(address, GetMaxOffset("orders", queue_id)) for queue_id in range(4))


def _working_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in command:
                found.append(command)
    return found
