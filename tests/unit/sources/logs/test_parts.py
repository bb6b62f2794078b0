"""A log that several read gives what it gives to one: nothing twice, nothing lost, wherever its parts begin."""

import gzip
from datetime import UTC

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.sources.logs.events import LogEvent, LogOrigin, Unreadable, read_records
from offsetguard.sources.logs.matching import ALL
from offsetguard.sources.logs.parts import PARTS_SCHEMA, LogPart, parts_of, read_part, record_batches
from offsetguard_peers.cases.running import examples

TOO_SMALL = (
    b"the request offset too small. group=G, topic=T, requestOffset=1, brokerMinOffset=3, clientIp=/10.0.0.9:43618"
)
MOVED = b"PULL_OFFSET_MOVED:correction offset. topic=T, groupId=G, requestOffset=1, newOffset=3, suggestBrokerId=0"
HEAD = b"2026-11-21 06:45:30 WARN PullMessageThread_3 - "
LINES = st.lists(
    st.sampled_from(
        [
            HEAD + TOO_SMALL,
            HEAD + MOVED,
            b"\0\0\0" + HEAD + MOVED + b"\r",
            HEAD + "nothing that we know: 订单".encode(),
            b"2026-11-21 06:45:30 of a foreign layout",
            b"\tat java.lang.Thread.run",
            b"\tat " + b"x" * 70_000,
            b"",
            "\t订单\r".encode(),
        ]
    ),
    max_size=12,
)


@settings(max_examples=examples(1))
@given(lines=LINES, torn=st.booleans(), part_bytes=st.one_of(st.integers(1, 300), st.integers(30_000, 90_000)))
def test_parts_give_what_the_whole_gives(tmp_path_factory, lines, torn, part_bytes):
    content = b"\n".join(lines) if torn else b"".join(line + b"\n" for line in lines)
    path = tmp_path_factory.mktemp("parts") / "broker.log"
    path.write_bytes(content)
    part_bytes = max(part_bytes, len(content) // 200)
    parts = list(parts_of(str(path), part_bytes))
    assert [(part.start, part.end) for part in parts] == [
        (start, None if start + part_bytes >= len(content) else start + part_bytes)
        for start in range(0, len(content) or 1, part_bytes)
    ]
    whole = [one for one in read_records(content, UTC) if isinstance(one, LogEvent | Unreadable)]
    shared = [one for part in parts for one, is_own in read_part(part, UTC, LogOrigin(), ALL) if is_own]
    assert [_plain(one) for one in shared] == [_plain(one) for one in whole]


def _plain(outcome: LogEvent | Unreadable) -> tuple[object, ...]:
    """Return what does not depend on where reading began, as numbers of lines do."""
    said = (outcome.kind, outcome.fields) if isinstance(outcome, LogEvent) else (outcome.reason, outcome.text)
    return outcome.position, outcome.line_count, *said


def test_a_move_has_the_client_of_the_line_before_it_in_another_part(tmp_path) -> None:
    path = tmp_path / "broker.log"
    path.write_bytes(HEAD + TOO_SMALL + b"\n" + HEAD + MOVED + b"\n")
    boundary = len(HEAD + TOO_SMALL) + 1
    parts = [
        {"path": str(path), "file": "f", "start": 0, "end": boundary},
        {"path": str(path), "file": "f", "start": boundary},
    ]
    rows = [_rows_of([part]) for part in parts]
    assert [[row["log_events"]["kind"] for row in one] for one in rows] == [["offset_too_small"], ["offset_corrected"]]
    assert [one["offset_moves"] and one["offset_moves"]["client_id"] for (one,) in rows] == [None, "10.0.0.9:43618"]


def test_a_compressed_log_is_one_part(tmp_path) -> None:
    path = tmp_path / "broker.1.log.gz"
    path.write_bytes(gzip.compress(b"before any record\n" + (HEAD + MOVED + b"\n") * 50))
    (part,) = parts_of(str(path), 10)
    assert part == LogPart(str(path))
    rows = _rows_of([{"path": str(path), "file": "f", "start": 0}])
    assert [row["log_events"] is not None for row in rows] == [False, *[True] * 50]


def _rows_of(parts):
    batch = pa.RecordBatch.from_pylist(parts, schema=PARTS_SCHEMA)
    batches = record_batches(
        [batch],
        cluster="demo",
        source="ingested/broker-a-0",
        broker_name="broker-a",
        broker_id=0,
        time_zone="+08:00",
        routine=False,
    )
    return [row for one in batches for row in one.to_pylist()]
