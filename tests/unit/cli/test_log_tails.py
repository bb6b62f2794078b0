"""The newest lines of logs are read, however large the files are, and in whatever zone a client's host is."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.check import copy_tails, sources_of_folders
from offsetguard.cli.main import offsetguard
from offsetguard.config import LogSource
from offsetguard.sources.bundle.log_excerpts import LogFolder
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
BROKERS_ZONE = timezone(timedelta(hours=8))
REFUSED = (
    "{at} WARN AdminBrokerThread_3 - tryLockBatch, message queue locked by other client. Group: billing"
    " OtherClientId: 10.0.0.8@1 NewClientId: 10.0.0.9@1 MessageQueue [topic=orders, brokerName=broker-a, queueId=0]\n"
)


def line(at: datetime, text: str, zone: timezone = BROKERS_ZONE) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S} INFO Thread_1 - {text}\n"


def source_of(folder: Path) -> LogSource:
    return LogSource(name="broker-a-0", files=[f"{folder}/*.log"], broker_name="broker-a")


def read_back(sources: tuple[LogSource, ...], copies: Path) -> str:
    assert all(pattern.startswith(str(copies)) for source in sources for pattern in source.files)
    return "".join(file.read_text() for file in sorted(copies.rglob("*.log")))


def test_lines_that_are_too_old_are_left_out_and_records_stay_whole(tmp_path: Path) -> None:
    logs, copies = tmp_path / "logs", tmp_path / "copies"
    logs.mkdir()
    copies.mkdir()
    (logs / "broker.log").write_text(
        line(NOW - timedelta(hours=2), "old")
        + "\tat of an old stack trace\n"
        + line(NOW - timedelta(minutes=5), "new")
        + "\tat of a new stack trace\n"
        + line(NOW, "newest")
    )
    (logs / "otherdays").mkdir()
    copied = copy_tails([source_of(logs)], NOW - timedelta(minutes=30), copies)
    assert [text.partition(" - ")[2] or text for text in read_back(copied, copies).splitlines()] == [
        "new",
        "\tat of a new stack trace",
        "newest",
    ]
    assert (logs / "broker.log").read_text().count("\n") == 5, "the log itself stays as it is"


def test_of_a_huge_log_the_newest_lines_are_taken(tmp_path: Path) -> None:
    logs, copies = tmp_path / "logs", tmp_path / "copies"
    logs.mkdir()
    copies.mkdir()
    lines = [line(NOW, f"number {number}") for number in range(100_000)]
    (logs / "broker.log").write_text("".join(lines))
    copied = read_back(copy_tails([source_of(logs)], NOW - timedelta(minutes=30), copies, max_bytes=10_000), copies)
    assert "".join(lines).endswith(copied)
    assert 9_000 < len(copied) <= 10_000


@pytest.mark.parametrize(("hours", "expected"), [(0, "+00:00"), (1, "+01:00"), (-5, "-05:00"), (5.5, "+05:30")])
def test_a_clients_zone_is_told_by_when_its_log_was_written_last(tmp_path: Path, hours: float, expected: str) -> None:
    file = tmp_path / "rocketmq_client.log"
    file.write_text(line(NOW, "something", timezone(timedelta(hours=hours))))
    os.utime(file, times=(NOW.timestamp() + 2, NOW.timestamp() + 2))
    (source,) = sources_of_folders([LogFolder(tmp_path, "clients/app", "rocketmq_client.log")])
    assert (source.time_zone, source.broker_name) == (expected, None)


def test_brokers_write_their_own_zone_wherever_they_run(tmp_path: Path) -> None:
    (tmp_path / "broker.log").write_text(line(NOW, "something"))
    (source,) = sources_of_folders([LogFolder(tmp_path, "logs/broker-a-1")])
    assert (source.time_zone, source.broker_name, source.broker_id) == ("+08:00", "broker-a", 1)


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

    async def start(*arguments: str) -> Result:
        async with scripted_cluster(broker) as (name_server, _):
            real = ["check", "--namesrv", name_server, "--samples", "2", "--every", "50ms", *arguments]
            return await asyncio.to_thread(CliRunner().invoke, offsetguard, real)

    def of_locks(result: Result) -> list[str]:
        rules = [json.loads(text)["rule"] for text in result.stdout.splitlines()]
        return [rule for rule in rules if rule.startswith("lock_")]

    with_logs = asyncio.run(start("--logs", str(logs)))
    assert of_locks(with_logs), with_logs.stdout + with_logs.stderr
    assert of_locks(asyncio.run(start())) == []


def test_a_folder_without_logs_is_named() -> None:
    result = CliRunner().invoke(offsetguard, ["check", "--namesrv", "a:1", "--logs", "/nowhere"])
    assert result.exit_code == 2
    assert "/nowhere: is not a folder" in " ".join(result.output.split())
