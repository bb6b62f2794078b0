"""`offsetguard check`: findings, worst first, of what a cluster and its logs show now."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard.cli.check import copy_tails, sources_of_folders
from offsetguard.config import LogSource
from offsetguard.judge.registry import RULES
from offsetguard.model.verdicts import Severity
from offsetguard.sources.bundle.log_excerpts import LogFolder
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.scripted.broker import ScriptedBroker, refuse, when

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
BROKERS_ZONE = timezone(timedelta(hours=8))
IN_TROUBLE = ScriptedBroker(
    "broker-a",
    topics={"orders": [(0, 20_000)], "quiet": [(0, 5)]},
    committed={("orders", "billing"): {0: 10}, ("quiet", "report"): {0: 5}, ("quiet", "beyond"): {0: 500}},
)
REFUSED = (
    "{at} WARN AdminBrokerThread_3 - tryLockBatch, message queue locked by other client. Group: billing"
    " OtherClientId: 10.0.0.8@1 NewClientId: 10.0.0.9@1 MessageQueue [topic=orders, brokerName=broker-a, queueId=0]\n"
)


def check(broker: ScriptedBroker, *arguments: str) -> Result:
    return run("check", "--namesrv", "NAMESRV", "--every", "50ms", *arguments, brokers=(broker,))


def test_findings_are_json_lines_worst_first_and_the_exit_code_is_1() -> None:
    result = check(IN_TROUBLE)
    findings = json_lines(result)
    assert result.exit_code == 1, result.stderr
    assert {one["consumer_group"] for one in findings} == {"beyond", "billing"}
    assert {one["rule"] for one in findings} <= RULES.keys()
    ranks = [Severity(one["severity"]).rank for one in findings]
    assert ranks == sorted(ranks, reverse=True)
    assert findings[0]["severity"] == "critical"
    assert findings[0]["queues"][0]["broker_name"] == "broker-a"
    assert "1 of 1 masters" in result.stderr


def test_the_group_option_narrows_and_a_healthy_group_gives_0() -> None:
    result = check(IN_TROUBLE, "--group", "^report$")
    assert (result.exit_code, result.stdout) == (0, "")


def test_several_looks_and_a_table_for_people() -> None:
    result = check(IN_TROUBLE, "--samples", "2", "--format", "table")
    assert (result.exit_code, result.stderr) == (1, "")
    assert all(text in result.stdout for text in ("2 looks", "CRITICAL", "Do next:"))


def test_what_the_threads_of_a_client_do_is_told() -> None:
    hanging = ScriptedBroker(
        "broker-a",
        topics={"orders": [(0, 20_000)]},
        committed={("orders", "billing"): {0: 10}},
        subscriptions={"billing": ["orders"]},
        running_info={
            "10.0.0.9@billing": b'{"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{}}}',
        },
        jstack="ConsumeMessageThread_1 TID: 1 STATE: BLOCKED\nConsumeMessageThread_1 com.acme.Orders.on(O.java:7)\n",
    )
    (found,) = (one["stacks"] for one in json_lines(check(hanging)) if one["rule"] == "accumulation")
    assert (found["client_id"], found["thread_count"], found["cannot_tell"]) == ("10.0.0.9@billing", 1, None)
    assert [one["frames"] for one in found["stacks"]] == [["com.acme.Orders.on:7"]]
    shown = check(hanging, "--format", "table").stdout
    assert "What the client's threads did: client 10.0.0.9@billing at " in shown
    assert "1 of 1 consume threads, blocked by another thread that holds the monitor: com.acme.Orders.on:7" in shown


def test_a_cluster_that_cannot_be_seen_gives_2_and_one_finding_that_names_the_address() -> None:
    result = run("check", "--namesrv", "127.0.0.1:9")
    (finding,) = json_lines(result)
    assert result.exit_code == 2
    assert finding["consumer_group"] is None
    assert "127.0.0.1:9" in finding["cause"]


def test_who_named_no_file_of_settings_is_told_how_those_of_a_next_step_hold() -> None:
    refusing = replace(
        IN_TROUBLE, trouble=when(lambda one: one.code == RequestCode.GET_ALL_CONSUMER_OFFSET, refuse("no"))
    )
    said = "config/offsetguard.yml: no such file was named; its settings hold with --config FILE"
    assert said in check(refusing, "--format", "table").stdout
    in_json = check(refusing, "--format", "json")
    assert said in in_json.stderr
    assert any("config/offsetguard.yml" in one["do_next"] for one in json_lines(in_json))
    assert said not in check(IN_TROUBLE, "--group", "billing", "--format", "table").stdout, (
        "no finding is about settings"
    )


def test_check_reads_the_logs_that_it_is_shown(tmp_path: Path) -> None:
    """Only the broker's log tells that a client waits for a lock."""
    logs = tmp_path / "broker-a-0" / "rocketmqlogs"
    logs.mkdir(parents=True)
    now = datetime.now(UTC).astimezone(BROKERS_ZONE)
    moments = [now - timedelta(seconds=seconds) for seconds in (65, 45, 25, 5)]
    (logs / "lock.log").write_text("".join(REFUSED.format(at=f"{at:%Y-%m-%d %H:%M:%S}") for at in moments))
    broker = ScriptedBroker(
        "broker-a",
        topics={"orders": [(0, 20)]},
        committed={("orders", "billing"): {0: 10}},
        subscriptions={"billing": ["orders"]},
    )
    for more, is_told in ((["--logs", str(logs)], True), ([], False)):
        result = check(broker, "--samples", "2", *more)
        assert any(one["rule"].startswith("lock_") for one in json_lines(result)) is is_told, result.output


def log_line(at: datetime, text: str, zone: timezone = BROKERS_ZONE) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S} INFO Thread_1 - {text}\n"


def newest_of(log: str, folder: Path, max_bytes: int = 1_000_000) -> str:
    """Return what is copied of a log: the lines of the last half an hour before `NOW`."""
    logs, copies = folder / "logs", folder / "copies"
    (logs / "otherdays").mkdir(parents=True)
    copies.mkdir()
    (logs / "broker.log").write_text(log)
    source = LogSource(name="broker-a-0", files=[f"{logs}/*.log"], broker_name="broker-a")
    (copied,) = copy_tails([source], NOW - timedelta(minutes=30), copies, max_bytes)
    assert (logs / "broker.log").read_text() == log, "the log itself stays as it is"
    assert all(pattern.startswith(str(copies)) for pattern in copied.files)
    return "".join(file.read_text() for file in sorted(copies.rglob("*.log")))


def test_lines_that_are_too_old_are_left_out_and_records_stay_whole(tmp_path: Path) -> None:
    old = log_line(NOW - timedelta(hours=2), "old") + "\tat of an old stack trace\n"
    new = log_line(NOW - timedelta(minutes=5), "new") + "\tat of a new stack trace\n" + log_line(NOW, "newest")
    assert newest_of(old + new, tmp_path) == new


def test_of_a_huge_log_the_newest_lines_are_taken(tmp_path: Path) -> None:
    log = "".join(log_line(NOW, f"number {number}") for number in range(100_000))
    copied = newest_of(log, tmp_path, max_bytes=10_000)
    assert log.endswith(copied)
    assert 9_000 < len(copied) <= 10_000


@pytest.mark.parametrize(
    ("place", "hours", "expected"),
    [
        ("clients/app", 0, ("+00:00", None, 0)),
        ("clients/app", 1, ("+01:00", None, 0)),
        ("clients/app", -5, ("-05:00", None, 0)),
        ("clients/app", 5.5, ("+05:30", None, 0)),
        ("logs/broker-a-1", 1, ("+08:00", "broker-a", 1)),  # brokers write their own zone wherever they run
    ],
)
def test_a_clients_zone_is_told_by_when_its_log_was_written_last(
    tmp_path: Path, place: str, hours: float, expected: tuple[str, str | None, int]
) -> None:
    file = tmp_path / "rocketmq_client.log"
    file.write_text(log_line(NOW, "something", timezone(timedelta(hours=hours))))
    os.utime(file, times=(NOW.timestamp() + 2, NOW.timestamp() + 2))
    (source,) = sources_of_folders([LogFolder(tmp_path, place, "rocketmq_client.log")])
    assert (source.time_zone, source.broker_name, source.broker_id) == expected
