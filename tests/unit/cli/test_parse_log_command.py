"""`offsetguard parse-log`: one event per recognised line, and nothing hidden."""

import gzip
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard_peers import command_line
from offsetguard_peers.command_line import json_lines

EXCERPTS = Path(__file__).parents[1] / "sources" / "logs" / "excerpts"
REFUSED = (
    "2026-11-21 15:48:25 WARN AdminBrokerThread_14 - RebalanceLockManager#tryLockBatch: message queue has been locked "
    "by other client, group=G1, mq=MessageQueue [topic=T1, brokerName=broker-a, queueId=0], locked client id=c1, "
    "current client id=c2"
)


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return command_line.run("parse-log", *arguments, stdin=stdin)


def test_a_recognised_line_is_one_json_object_with_its_time_in_utc_and_its_line_number(tmp_path):
    log = tmp_path / "filter.log"
    log.write_text(f"2026-11-21 15:48:25 INFO main - nothing\n\tat a.b.C\n{REFUSED}\n")
    result = run(log)
    assert result.exit_code == 0
    assert json_lines(result) == [
        {
            "kind": "lock_refused",
            "at": "2026-11-21T07:48:25+00:00",
            "source_line": 3,
            "file": str(log),
            "level": "WARN",
            "thread": "AdminBrokerThread_14",
            "operation": "tryLockBatch",
            "consumer_group": "G1",
            "topic": "T1",
            "broker_name": "broker-a",
            "queue_id": 0,
            "holder_client_id": "c1",
            "client_id": "c2",
        }
    ]
    assert result.stderr == "1 lines recognised, 2 skipped, 0 unreadable\n"


def test_the_zone_is_the_one_that_the_caller_names():
    name = EXCERPTS / "rocketmq_client-4.9.8.log"
    (in_gmt_8, in_utc) = (json_lines(run(name, "--time-zone", zone))[0]["at"] for zone in ("+08:00", "UTC"))
    assert (in_gmt_8, in_utc) == ("2026-11-21T00:06:57.474000+00:00", "2026-11-21T08:06:57.474000+00:00")


def test_a_zone_that_is_not_known_is_an_error():
    result = run("--time-zone", "Mars/Olympus", EXCERPTS / "lock-4.9.8.log")
    assert result.exit_code != 0
    assert "Mars/Olympus" in str(result.exception)


@pytest.mark.parametrize("as_input", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_compressed_files_and_the_standard_input_are_read_alike(tmp_path, as_input, compressed):
    data = (EXCERPTS / "lock-4.9.8.log").read_bytes()
    data = gzip.compress(data) if compressed else data
    (tmp_path / "lock.log").write_bytes(data)
    result = run("-", stdin=data) if as_input else run(tmp_path / "lock.log")
    assert result.exit_code == 0
    assert len(json_lines(result)) == 48


def test_only_lines_of_the_log_that_is_asked_for(tmp_path):
    (tmp_path / "all.log").write_text(
        f"{REFUSED}\n2026-11-21 15:48:25 - [WATERMARK] Pull Queue Size: 0 SlowTimeMills: 0\n"
    )
    kinds = [event["kind"] for event in json_lines(run("--kind", "watermark", tmp_path / "all.log"))]
    assert kinds == ["request_queue"]


def test_lines_that_cannot_be_read_are_counted_and_told_and_end_with_1(tmp_path):
    log = tmp_path / "app.log"
    log.write_text(f"no time\n{REFUSED}\n2026-11-21 15:48:25.1 x\n\tmore\n")
    result = run(log)
    assert result.exit_code == 1
    assert len(json_lines(result)) == 1
    assert f"{log}:1: no time stamp" in result.stderr
    assert f"{log}:3: begins with a time stamp, but is laid out like no log of RocketMQ" in result.stderr
    assert result.stderr.endswith("1 lines recognised, 0 skipped, 3 unreadable\n")


def test_a_file_that_is_not_there_does_not_hide_the_others():
    result = run("/no/such.log", EXCERPTS / "filter-5.3.3.log")
    assert result.exit_code == 2
    assert "/no/such.log: No such file" in result.stderr
    assert len(json_lines(result)) == 13


def test_a_table_cannot_steer_the_terminal(tmp_path):
    log = tmp_path / "broker.log"
    log.write_text("2026-11-21 15:00:00 WARN T - the consumer's group info not exist, group: \x1b[2J\u202eG1\n")
    result = run("--format", "table", log)
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
    assert "group_not_online  consumer_group=\\x1b[2J\\u202eG1" in result.stdout
