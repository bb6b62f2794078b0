"""Spark reads logs as Python does: the same rows at the same bytes, whole, split into blocks, or compressed."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from offsetguard.model.intervals import zone_of
from offsetguard.sources.logs.events import LogEvent, LogOrigin, event_row, moves_from
from offsetguard.sources.logs.events import read_records as outcomes_of
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, Table
from offsetguard_spark.ingest import LogBatch, parsed_counts, parsed_rows

EXCERPTS = sorted((Path(__file__).parents[1] / "unit" / "sources" / "logs" / "excerpts").glob("*.log"))
ZONE = "+08:00"
MOVED = "PULL_OFFSET_MOVED:correction offset. topic={}, groupId=G1, requestOffset={}, newOffset=3, suggestBrokerId=0"
TOO_SMALL = (
    "the request offset too small. group=G1, topic=T1, requestOffset=1, brokerMinOffset=3, clientIp=/10.0.0.9:43618"
)
ESCAPED = 'a"b\\c\x01d\te/\x7f\u2028'  # what JSON escapes, and what it could
NUMBERS = ("007", "-0", "12", str(-(2**63)), str(2**63 - 1))  # as JSON writes them, and otherwise
ODD_LINES = (
    b"half a line from before the rotation",
    b"\0\0\0\0" + f"2026-11-21 06:45:30 WARN PullMessageThread_3 - {MOVED.format('T1', 99)}\r".encode(),
    f"2026-11-21 06:45:30 INFO PullMessageThread_3 - {TOO_SMALL}".encode(),
    f"2026-11-21 06:45:30 INFO PullMessageThread_4 - {TOO_SMALL.replace('10.0.0.9', '10.0.0.8')}".encode(),
    f"2026-11-21 06:45:30 WARN PullMessageThread_3 - {MOVED.format('T1', 1)}".encode(),
    f"2026-11-21 06:45:31 WARN PullMessageThread_4 - {MOVED.format('T2', 1)}".encode(),  # another topic: another pull
    f"2026-11-21 06:45:31 WARN PullMessageThread_4 - {MOVED.format('T1', 2**64)}".encode(),  # no offset
    *(f"2026-11-21 06:45:31 WARN PullMessageThread_6 - {MOVED.format('0815', number)}".encode() for number in NUMBERS),
    f"2026-02-31 06:45:31 WARN PullMessageThread_4 - {MOVED.format('T1', 7)}".encode(),  # no day
    b"2026-11-21 06:45:31 of a foreign layout",
    f"2026-11-21 06:45:31 WARN PullMessageThread_5 - {MOVED.format(ESCAPED, 6)}".encode(),
    "2026-11-21 06:45:31 INFO 线程 - 订单 🚀 nothing that we know".encode(),
    "\tat some.Class(订单.java)".encode(),
    f"2026-12-31 23:59:59 WARN PullMessageThread_3 - {MOVED.format('订单🚀', 5)}".encode(),  # no line feed at the end
)


def python_rows(path: Path, source: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Return rows of log_events and offset_moves, and how many records could not be read."""
    with LogStream(str(path)) as stream:
        pieces = iter(lambda: stream.read(7_000), b"")
        origin = LogOrigin(source, str(path), "broker-a", 0)
        outcomes = list(outcomes_of(pieces, zone_of(ZONE), origin=origin))
    events = [one for one in outcomes if isinstance(one, LogEvent)]
    unreadable = sum(type(one).__name__ == "Unreadable" for one in outcomes)
    rows = [event_row(event, "demo", event.at.replace(second=0, microsecond=0)) for event in events]
    moves = [row | {"interval_start": row["moved_at"]} for row in moves_from(events, "demo", rows[0]["interval_start"])]
    for row in moves:
        row["interval_start"] = row["moved_at"].replace(second=0)
    return rows, moves, unreadable


def comparable(rows: list[dict[str, Any]], table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(name, row[name]) for name in _names(table)) for row in rows), key=repr)


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def _plain(name: str, value: Any) -> Any:
    if name == "fields_json":
        return list(json.loads(value).items())  # the same fields in the same order; spaces do not matter
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def test_every_line_gives_the_same_rows_in_spark_and_in_python(spark: SparkSession, tmp_path: Path) -> None:
    odd = tmp_path / "odd [1]{a}*.log"  # as a pattern it would match nothing
    odd.write_bytes(b"\n".join(ODD_LINES))
    compressed = tmp_path / "broker.1.log.gz"
    compressed.write_bytes(gzip.compress(EXCERPTS[0].read_bytes()))
    files = [*EXCERPTS, odd, compressed]
    batch = LogBatch("demo", (), "broker-a", routine=True)
    names = {str(file): str(file) for file in files}
    parsed = parsed_rows(spark, batch, names, sum(file.stat().st_size for file in files), part_bytes=4096)
    python = [python_rows(file, batch.source) for file in files]

    found_events = [row.asDict() for row in parsed.select("log_events.*").where("kind IS NOT NULL").collect()]
    expected_events = [row for rows, _, _ in python for row in rows]
    assert comparable(found_events, LOG_EVENTS) == comparable(expected_events, LOG_EVENTS)
    assert len({row["kind"] for row in found_events}) > 25, "the excerpts are meant to show most kinds"
    found_moves = [row.asDict() for row in parsed.select("offset_moves.*").where("origin IS NOT NULL").collect()]
    expected_moves = [row for _, rows, _ in python for row in rows]
    assert comparable(found_moves, OFFSET_MOVES) == comparable(expected_moves, OFFSET_MOVES)
    of_odd = {
        (row["topic"], row["requested_offset"]): row["client_id"] for row in found_moves if str(odd) in row["source"]
    }
    numbers = [("0815", int(number)) for number in NUMBERS]
    others = dict.fromkeys([("T1", 99), ("T2", 1), ("订单🚀", 5), (ESCAPED, 6), *numbers])
    assert of_odd == {("T1", 1): "10.0.0.9:43618"} | others
    unreadable = parsed_counts(parsed)["unreadable_records"]
    assert unreadable == sum(count for _, _, count in python) >= 3
    parsed.unpersist()
