"""`offsetguard diagnose`: the truth about recorded clusters, and nothing beside it.

The bundles' ground truth stands in tests/data/bundles/README.md.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.configs import one_team_text

BUNDLES = Path(__file__).parents[2] / "data" / "bundles"


def diagnose(*arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    result = run("diagnose", *arguments)
    return result.exit_code, json_lines(result), result.stderr


@cache
def diagnosed(bundle: str) -> tuple[int, list[dict[str, Any]], str]:
    """Diagnose one of our bundles as it is, once for all tests: they only read what was found."""
    return diagnose(BUNDLES / bundle)


def warnings(findings: list[dict[str, Any]]) -> dict[tuple[str, str | None, str | None], dict[str, Any]]:
    return {(one["rule"], one["consumer_group"], one["topic"]): one for one in findings if one["severity"] != "info"}


@pytest.mark.parametrize("bundle", ["4.9.8-healthy", "5.3.3-healthy", "5.5.1-healthy"])
def test_nothing_is_warned_of_when_nothing_is_wrong(bundle: str) -> None:
    code, findings, err = diagnosed(bundle)
    assert warnings(findings) == {}
    assert code == (1 if findings else 0)
    assert "recorded answers" in err


def test_queues_locked_by_a_dead_client_are_found_with_holder_waiter_and_time() -> None:
    code, findings, _ = diagnosed("4.9.8-orderly-lock")
    found = warnings(findings)
    assert (code, list(found)) == (1, [("lock_not_released", "G_ORDER_PAY", "OrderPay")])
    (finding,) = found.values()
    assert [(one["broker_name"], one["queue_id"]) for one in finding["queues"]] == [
        ("broker-b", queue_id) for queue_id in range(4)
    ]
    assert {one["holder_client_id"] for one in finding["queues"]} == {"192.0.2.2@15264#1069349064536"}
    assert {one["waiter_client_id"] for one in finding["queues"]} == {"192.0.2.2@15232#1067945367482"}
    assert {one["stood_still_ms"] for one in finding["queues"]} == {60_000}
    assert list(finding)[:11] == [  # that others script against
        *("cluster", "consumer_group", "topic", "rule", "severity", "state", "summary", "cause", "do_next"),
        *("evidence", "queues"),
    ]


def test_clients_that_disagreed_while_it_was_recorded_are_told_although_it_is_over() -> None:
    code, findings, _ = diagnosed("4.9.8-subscription-mismatch")
    found = warnings(findings)
    assert (code, list(found)) == (1, [("subscription_mismatch", "G_ORDER_TAGS", "OrderTags")])
    (finding,) = found.values()
    assert finding["over"] is True
    assert finding["first_found_at"] < "2026-11-21T07:58:58" < finding["last_found_at"] < "2026-11-21T07:59:30"
    assert "tagA" in finding["cause"]
    assert "tagB || tagC" in finding["cause"]
    assert "192.0.2.2@16650#1262705359209" in finding["cause"], "the client that loses messages"


def test_what_retention_deleted_and_what_nobody_can_read_is_counted() -> None:
    _, findings, _ = diagnosed("4.9.8-retention-and-queues")
    counts = {
        ("messages_lost", "G_NEVER_ONLINE2", "Archive2"): ("504 messages", "4,057 more"),  # a client caches 0 to 1,013
        ("messages_lost", "G_PAST2", "Archive2"): ("4,161 messages",),
        ("read_write_queues_differ", None, "NarrowTopic"): ("400 messages",),
    }
    found = warnings(findings)
    assert found.keys() == counts.keys()
    assert all(count in found[about]["cause"] for about, texts in counts.items() for count in texts)
    assert not any(one["over"] for one in found.values())


def test_a_group_narrows_and_what_could_not_be_told_is_said() -> None:
    code, findings, err = diagnose(BUNDLES / "4.9.8-orderly-lock", "--group", "^CID_")
    assert (code, findings) == (0, [])
    assert "Cannot tell: traffic_drop" in err


def test_a_group_that_the_bundle_does_not_have_gets_a_suggestion() -> None:
    code, findings, err = diagnose(BUNDLES / "4.9.8-orderly-lock", "--group", "G_ORDER_PYA")
    assert (code, findings) == (2, [])
    assert "--group: there is no group 'G_ORDER_PYA'; did you mean 'G_ORDER_PAY'?" in err


def test_people_read_when_it_was() -> None:
    shown = run("diagnose", BUNDLES / "4.9.8-subscription-mismatch", "--format", "table").stdout
    assert all(text in shown for text in ("Over; found from 2026-11-21 07:58:", "CRITICAL", "Do next:"))


IN_9999 = '{"t": 253402300000000, "broker": "broker-a-0", "code": 43, "ext": null, "file": null, "header": {}}\n'


def copy_of(name: str, folder: Path) -> Path:
    bundle = folder / name  # which its findings name as the cluster
    shutil.copytree(BUNDLES / name, bundle)
    return bundle


RESET = "{} INFO AdminBrokerThread_1 - [reset-offset] reset offset started by 10.0.0.7:5555. topic=T, group=G, {}\n"
TO_THE_END = "timestamp=-1, isForce=true"


@pytest.mark.parametrize(("second", "over"), [("15:51:30", True), ("15:52:30", False)])
def test_what_ended_before_a_round_that_shows_it_is_over_at_the_end(tmp_path: Path, second: str, over: bool) -> None:
    """Rounds end at 07:52:00 and 07:53:00, and rules look back at a reset for half an hour."""
    bundle = copy_of("4.9.8-healthy", tmp_path)
    log = bundle / "logs/broker-a-0/broker.log"
    lines = [*log.read_text("utf-8").splitlines(keepends=True), RESET.format(f"2026-11-21 {second}", TO_THE_END)]
    log.write_text("".join(sorted(lines)), "utf-8")
    _, findings, _ = diagnose(bundle)
    (found,) = (one for one in findings if one["rule"] == "offset_reset")
    assert found["over"] is over
    assert found["last_found_at"].startswith("2026-11-21T07:52:00" if over else "2026-11-21T07:53:0")


@pytest.mark.slow
def test_files_that_do_not_belong_to_a_bundle_change_nothing(tmp_path: Path) -> None:
    bundle = copy_of("4.9.8-orderly-lock", tmp_path)
    for name in ("README.md", "events.json", "lag.csv", "bodies/notes.txt", "logs/README"):
        (bundle / name).write_text("not ours\n")
    (bundle / "extra").mkdir()
    assert diagnose(bundle)[1] == diagnosed("4.9.8-orderly-lock")[1]


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("index.jsonl", None, "index.jsonl: missing"),
        ("index.jsonl", "", "holds no round"),
        ("index.jsonl", "nonsense\n", "index.jsonl:1: is not JSON"),
        ("index.jsonl", IN_9999, "index.jsonl:1: field t: 253402300000000 is no time in unix ms"),
        ("meta.json", '{"format": 99}', "format 99 is newer"),
    ],
)
def test_a_broken_bundle_is_named_with_file_and_line(
    tmp_path: Path, file: str, content: str | None, words: str
) -> None:
    bundle = copy_of("5.3.3-healthy", tmp_path)
    if content is None:
        (bundle / file).unlink()
    else:
        (bundle / file).write_text(content)
    result = run("diagnose", bundle)
    assert result.stdout == ""
    assert words in str(result.exception)


@pytest.mark.parametrize("trap", ["a device", "a pipe", "a folder elsewhere", "a file elsewhere"])
def test_what_only_leads_out_of_a_bundle_is_not_followed(tmp_path: Path, trap: str) -> None:
    bundle = copy_of("4.9.8-orderly-lock", tmp_path)
    broker, client = bundle / "logs/broker-b-0/broker.log", bundle / "clients/c1/rocketmq_client.log"
    elsewhere = tmp_path / "elsewhere"
    shutil.move(broker.parent, elsewhere)
    if trap == "a folder elsewhere":
        broker.parent.symlink_to(elsewhere)
    else:
        broker.parent.mkdir()
        client.unlink()
        for file in (broker, client):
            if trap == "a pipe":
                os.mkfifo(file)
            else:
                file.symlink_to("/dev/zero" if trap == "a device" else elsewhere / broker.name)
    _, _, err = diagnose(bundle)
    assert f"{broker}: is {'no file' if trap == 'a pipe' else 'a link'}" in err
    assert trap == "a folder elsewhere" or f"{client}: is " in err


@pytest.mark.parametrize("file", ["index.jsonl", "meta.json"])
def test_a_link_in_place_of_the_index_is_refused_by_name(tmp_path: Path, file: str) -> None:
    bundle = copy_of("5.3.3-healthy", tmp_path)
    (tmp_path / file).write_text("{}")
    (bundle / file).unlink(missing_ok=True)
    (bundle / file).symlink_to(tmp_path / file)
    assert f"{bundle / file}: is a link" in str(run("diagnose", bundle).exception)


def test_a_bundle_is_judged_without_writing_a_file() -> None:
    def no_file_grows() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    command = [sys.executable, "-m", "offsetguard.cli.main", "diagnose", str(BUNDLES / "4.9.8-orderly-lock")]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=no_file_grows, check=False)
    assert "G_ORDER_PAY" in done.stdout, done.stderr


def test_bodies_that_are_gone_are_no_trouble_of_the_cluster(tmp_path: Path) -> None:
    """Of half of the bodies nothing is left: rules cannot tell, and nobody is called dead."""
    bundle = copy_of("4.9.8-healthy", tmp_path)
    for number, body in enumerate(sorted((bundle / "bodies").iterdir())):
        if number % 2:
            body.unlink()
    code, findings, _ = diagnose(bundle)
    assert code in {0, 1, 2}
    assert not [one for one in warnings(findings) if one[0] not in {"collection_incomplete"}]


def test_a_configuration_gives_the_limits_and_must_know_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"
    file.write_text(one_team_text(main="127.0.0.1:9") + "groups: [{match: '*', max_lag_messages: 10}]\n")
    bundle = BUNDLES / "4.9.8-orderly-lock"
    result = run("diagnose", bundle, "--config", file)
    assert result.exit_code == 2
    assert "--cluster: there is no cluster '4.9.8-orderly-lock'; there are: main" in " ".join(result.output.split())
    _, findings, _ = diagnose(bundle, "--config", file, "--cluster", "main")
    assert {one["cluster"] for one in findings} == {"main"}


def test_commands_name_the_name_servers_of_the_bundle(tmp_path: Path) -> None:
    """Its brokers' settings tell them; where no settings were recorded, nobody knows them."""
    command = "mqadmin consumerProgress -n {} -g G_NEVER_ONLINE2 -s true"
    bundle = tmp_path / "4.9.8-retention-and-queues"
    shutil.copytree(BUNDLES / bundle.name, bundle)
    assert command.format("NAME-SERVER:9876") in _commands(bundle)
    (bundle / "bodies" / "settings").write_bytes(b"brokerName=broker-a\nnamesrvAddr=10.1.2.3:9876;10.1.2.4:9876\n")
    line = {"t": 1, "broker": "broker-a-0", "code": 26, "ext": {}, "file": "settings", "header": {"code": 0}}
    index = bundle / "index.jsonl"
    index.write_text(json.dumps(line) + "\n" + index.read_text(encoding="utf-8"), encoding="utf-8")
    assert command.format("'10.1.2.3:9876;10.1.2.4:9876'") in _commands(bundle)


def _commands(bundle: Path) -> list[str]:
    _, findings, _ = diagnose(bundle)
    return [command for one in findings for command in one["commands"]]
