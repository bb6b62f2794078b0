"""Logs that cannot be read, floods, records that are not complete yet: told, and never lost."""

import gzip
import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from pwd import getpwnam
from tempfile import TemporaryDirectory

import pytest

from offsetguard.config import LogSource
from offsetguard.sources.logs.events import LogEvent
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.tailing import MISSING_ROUNDS, LogLimits, LogReading, read_logs

PULL_FAILED = "2026-11-21 15:00:00,000 WARN RocketmqClient - execute the pull request exception\n"
REFUSAL = "org.apache.rocketmq.client.exception.MQBrokerException: CODE: 25  DESC: not latest BROKER: 10.0.0.1:10911\n"


def line(number: int) -> str:
    return f"2026-11-21 15:00:{number % 60:02d} WARN Thread_1 - remove topic offset, T{number}@G\n"


def lines(first: int, last: int) -> str:
    return "".join(line(number) for number in range(first, last + 1))


class Tail:
    """Rounds over the logs of one folder."""

    def __init__(self, folder: Path, pattern: str = "*.log", **settings: object) -> None:
        self.source = LogSource(name="broker-a-0", files=[f"{folder}/{pattern}"], broker_name="broker-a", **settings)
        self.cursors = ()

    def round(self, limits: LogLimits = LogLimits()) -> LogReading:  # noqa: B008 a frozen value
        reading = read_logs([self.source], self.cursors, limits)
        self.cursors = reading.cursors
        return reading

    def topics(self, limits: LogLimits = LogLimits()) -> list[object]:  # noqa: B008
        return [event.fields.get("topic") for event in self.round(limits).events]


def test_events_say_where_they_come_from(tmp_path):
    (tmp_path / "broker.log").write_text(lines(1, 2))
    (event, _) = Tail(tmp_path, broker_id=1).round().events
    assert isinstance(event, LogEvent)
    assert (event.origin.source, event.origin.broker_name, event.origin.broker_id) == ("broker-a-0", "broker-a", 1)
    assert event.origin.file.startswith("broker-")
    client = LogSource(name="shop", files=[f"{tmp_path}/*"], time_zone="UTC")
    event = read_logs([client], ()).events[0]
    assert (event.origin.broker_name, event.origin.broker_id, event.at.hour) == (None, None, 15)


def test_no_file_is_a_gap_that_keeps_the_cursors(tmp_path):
    """A folder that is not mounted for a while must not make everything be read again."""
    (tmp_path / "folder.log").mkdir()
    (tmp_path / "broker.log").write_text(lines(1, 2))
    tail = Tail(tmp_path)
    tail.round()
    cursors = tail.cursors
    (tmp_path / "broker.log").rename(tmp_path / "elsewhere")
    for _ in range(MISSING_ROUNDS + 2):
        (gap,) = tail.round().gaps
    assert "mounted" in gap.reason
    assert tail.cursors == cursors
    (tmp_path / "elsewhere").rename(tmp_path / "broker.log")
    assert tail.topics() == []


def test_a_file_that_may_not_be_read_is_a_gap_that_says_what_to_do():
    with as_nobody(), TemporaryDirectory() as name:  # pytest's own folder lets nobody in but its user
        folder = Path(name)
        (folder / "broker.log").write_text(lines(1, 2))
        (folder / "broker.log").chmod(0)
        (gap,) = Tail(folder).round().gaps
    assert "let the user that runs OffsetGuard read" in gap.reason


@contextmanager
def as_nobody():
    """Run as a user to whom something can be forbidden."""
    ours = os.geteuid()
    if ours == 0:
        os.seteuid(getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(ours)


def test_damaged_compressed_data_is_a_gap_and_what_stands_before_it_is_read_once(tmp_path):
    data = gzip.compress((lines(1, 20_000)).encode())
    middle = len(data) // 2
    (tmp_path / "broker.log.gz").write_bytes(data[:middle] + b"\xff" * 64 + data[middle + 64 :])
    tail = Tail(tmp_path, "*.gz")
    reading = tail.round()
    assert len(reading.events) > 1_000
    assert "damaged" in reading.gaps[0].reason
    again = tail.round()
    assert again.events == ()
    assert len(again.gaps) == 1


def test_a_compressed_file_that_was_read_is_not_inflated_again(tmp_path):
    (tmp_path / "broker.1.log.gz").write_bytes(gzip.compress(lines(1, 10).encode()))
    tail = Tail(tmp_path, "*.gz")
    assert len(tail.round().events) == 10
    (cursor,) = tail.cursors
    assert cursor.finished
    (tmp_path / "broker.1.log.gz").rename(tmp_path / "broker.2.log.gz")
    assert tail.round().events == ()
    assert tail.cursors == (replace(cursor, path=f"{tmp_path}/broker.2.log.gz"),)


def test_a_zone_that_this_machine_does_not_know_is_a_gap(tmp_path):
    (tmp_path / "broker.log").write_text(lines(1, 2))
    tail = Tail(tmp_path)
    tail.source = tail.source.model_copy(update={"time_zone": "Asia/Nowhere"})
    (gap,) = tail.round().gaps
    assert "Asia/Nowhere" in gap.reason


@pytest.mark.slow
def test_a_flood_in_one_file_does_not_starve_the_others(tmp_path):
    (tmp_path / "broker.log").write_text(lines(1, 50_000))
    (tmp_path / "lock.log").write_text(lines(60_001, 60_010))
    tail = Tail(tmp_path)
    limits = LogLimits(bytes_per_round=300_000)
    first = tail.round(limits)
    topics = {event.fields["topic"] for event in first.events}
    assert {f"T{number}" for number in range(60_001, 60_011)} <= topics
    assert any(cursor.note and "left for the next rounds" in cursor.note for cursor in first.cursors)
    while events := tail.round(limits).events:
        topics |= {event.fields["topic"] for event in events}
    assert len(topics) == 50_010
    assert [cursor.note for cursor in tail.cursors] == [None, None]


@pytest.mark.slow
def test_a_round_keeps_to_its_number_of_events(tmp_path):
    (tmp_path / "broker.log").write_text(lines(1, 30_000))
    tail = Tail(tmp_path)
    seen = []
    for _ in range(30):
        seen += tail.topics(LogLimits(events_per_round=2_000))
    assert len(seen) == len(set(seen)) == 30_000


def test_a_record_that_may_still_grow_waits_for_its_next_line(tmp_path):
    log = tmp_path / "rocketmq_client.log"
    log.write_text(line(1) + PULL_FAILED)
    tail = Tail(tmp_path)
    assert [event.kind for event in tail.round().events] == ["offsets_removed"]
    with log.open("a") as file:
        file.write(REFUSAL + "\tat a.b.C(C.java:1)\n")
    assert [event.kind for event in tail.round().events] == ["pull_refused"]
    with log.open("a") as file:
        file.write("\tat a.b.D(D.java:1)\n" + line(2))
    assert [event.kind for event in tail.round().events] == ["offsets_removed"]


def test_a_record_whose_file_is_quiet_is_taken_as_it_is(tmp_path):
    log = tmp_path / "rocketmq_client.log"
    log.write_text(line(1) + PULL_FAILED)
    tail = Tail(tmp_path)
    tail.round()
    tail.round()
    assert tail.cursors[0].next_position == log.stat().st_size
    with log.open("a") as file:
        file.write(REFUSAL)
    assert tail.round().events == ()  # it continues a record that is over


def test_lines_of_a_foreign_log_are_counted_and_a_few_are_kept(tmp_path):
    (tmp_path / "app.log").write_text("2026-11-21 15:00:00.1 hello\n" * 500)
    reading = Tail(tmp_path).round()
    assert reading.undecodable_count == 500
    assert len(reading.undecodable) == 100
    assert "laid out like no log of RocketMQ" in reading.undecodable[0].reason


def test_routine_lines_are_landed_only_on_demand(tmp_path):
    (tmp_path / "stats.log").write_text(
        "2026-11-21 15:00:00 INFO - [TOPIC_PUT_NUMS] [T1] Stats In One Minute, SUM: 1 TPS: 1.00 AVGPT: 1.00\n"
    )
    assert Tail(tmp_path).round().events == ()
    assert len(Tail(tmp_path).round(LogLimits(routine=True)).events) == 1


def test_a_file_that_is_cut_back_is_read_again_under_another_name_and_says_so(tmp_path):
    """Its disk crashed: nobody knows where the new lines begin, and none may be lost."""
    log = tmp_path / "broker.log"
    log.write_text(lines(1, 1_000))
    tail = Tail(tmp_path)
    before = tail.round()
    os.truncate(log, len(lines(1, 500)) + 10)
    with log.open("a") as file:
        file.write("\n" + lines(1_001, 1_010))
    after = tail.round()
    assert [event.fields["topic"] for event in after.events][500:] == [f"T{number}" for number in range(1_001, 1_011)]
    assert after.events[0].origin.file == f"{before.events[0].origin.file}~1"
    assert "read again from its start" in (after.cursors[0].note or "")
    assert tail.round().events == ()


def test_a_log_that_rotates_twice_within_a_second_is_read_whole(tmp_path):
    tail = Tail(tmp_path, "broker.log")
    (tmp_path / "broker.log").write_text(line(1))
    assert tail.topics() == ["T1"]
    (tmp_path / "broker.log").rename(tmp_path / "broker.log.2")
    for name, number in (("broker.log.1", 61), ("broker.log", 121)):  # of the same second
        (tmp_path / name).write_text(line(number))
    assert sorted(tail.topics()) == ["T121", "T61"]


def test_a_file_that_is_gone_unread_is_told_as_a_gap(tmp_path):
    (tmp_path / "broker.log").write_text(lines(1, 5_000))
    (tmp_path / "lock.log").write_text(line(1))
    tail = Tail(tmp_path)
    tail.round(LogLimits(events_per_round=10))
    assert any("left for" in (cursor.note or "") for cursor in tail.cursors)
    (tmp_path / "broker.log").unlink()
    told = [gap.reason for _ in range(MISSING_ROUNDS + 1) for gap in tail.round().gaps]
    assert len(told) == 1
    assert "bytes are lost" in told[0]


def test_a_symbolic_link_and_its_file_are_read_once(tmp_path):
    (tmp_path / "broker.log").write_text(lines(1, 5))
    (tmp_path / "current.log").symlink_to(tmp_path / "broker.log")
    keys = [(event.origin.file, event.position) for event in Tail(tmp_path).round().events]
    assert len(keys) == len(set(keys))


def test_two_logs_that_begin_alike_are_two(tmp_path):
    """Two brokers that were started in the same second."""
    for broker in ("broker-a", "broker-b"):
        (tmp_path / broker).mkdir()
        (tmp_path / broker / "store.log").write_text(lines(1, 3))
    tail = Tail(tmp_path, "*/store.log")
    keys = [(event.origin.file, event.position) for event in tail.round().events]
    assert len(keys) == len(set(keys)) == 6
    assert tail.round().events == ()


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_that_is_overwritten_while_it_is_read_is_not_taken_for_the_one_that_was_there(tmp_path, packed):
    """Its inode stays, and a reader that goes on in it would give another file's lines the cursor of this one."""
    path = tmp_path / "broker.log.1"
    path.write_bytes(packed(b"2026-11-21 10:00:00 INFO one\n" * 500))
    with LogStream(str(path)) as stream:
        head = stream.head(4096)
        assert stream.begins_with(head)
        path.write_bytes(packed(b"2026-11-21 11:00:00 INFO other\n" * 500))
        assert not stream.begins_with(head)
