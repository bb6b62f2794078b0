"""One log by several readers: each is given a part of the file, and reads the records whose line begins in it.

A part begins and ends at any byte. Its reader begins a little before it, so that it knows which lines continue a record
of the part before, and which cause stood before a move; and goes on behind it until its last record is complete. Pure
but for reading the file; Spark runs `record_batches` in its workers.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice

import pyarrow as pa

from offsetguard.model.intervals import Interval, zone_of
from offsetguard.sources.logs import events
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.matching import PATTERNS, Matcher
from offsetguard.sources.logs.records import MAX_RECORD_BYTES, Record, RecordReader
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES
from offsetguard.tables.table import arrow_schema

_PIECE_BYTES = 256 * 1024
_SEARCHED_BYTES = 4 * 1024  # most lines end within
_ROWS_TOGETHER = 4_096
# A record becomes a row of each table, or of the first alone; of neither where it cannot be read.
ROWS_SCHEMA = pa.schema(
    [
        (table.name, pa.struct([field.with_nullable(True) for field in arrow_schema(table)]))
        for table in (LOG_EVENTS, OFFSET_MOVES)
    ]
)
PARTS_SCHEMA = pa.schema([("path", pa.string()), ("file", pa.string()), ("start", pa.int64()), ("end", pa.int64())])


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes of a file: from `start` up to, and not including, `end`; None: the file's end."""

    path: str
    start: int = 0
    end: int | None = None


def parts_of(path: str, part_bytes: int) -> Iterator[LogPart]:
    """Yield the parts of a file, of `part_bytes` each; a compressed file is one. Raises OSError."""
    with LogStream(path) as stream:
        size = 0 if stream.compressed else stream.size
    last = max(0, size - 1) // part_bytes * part_bytes
    for start in range(0, last, part_bytes):
        yield LogPart(path, start, start + part_bytes)
    yield LogPart(path, last)


def read_part(
    part: LogPart, zone: tzinfo, origin: events.LogOrigin, matcher: Matcher
) -> Iterator[tuple[events.LogEvent | events.Unreadable, bool]]:
    """Yield the events and what cannot be read, each with whether it is the part's own.

    Those that are not stand before it, at most 64 KiB; what the matcher does not recognise is left out. Raises OSError.
    """
    with LogStream(part.path) as stream:
        first = _line_from(stream, part.start)
        behind = math.inf if part.end is None else _line_from(stream, part.end)
        start = _line_from(stream, max(0, part.start - MAX_RECORD_BYTES))
        stream.rewind()
        stream.go_to(start)
        for record in _records(stream, RecordReader(start), behind):
            if record.position < behind:
                outcome = events.outcome_of(record, zone, origin, matcher)
                if not isinstance(outcome, events.Skipped):
                    yield outcome, record.position >= first


def _records(stream: LogStream, reader: RecordReader, behind: float) -> Iterator[Record]:
    while reader.next_position < behind and (piece := stream.read(_PIECE_BYTES)):
        yield from reader.feed(piece)
    yield from reader.finish(with_half_line=True)


def _line_from(stream: LogStream, position: int) -> int:
    """Return where the first line begins that begins at or behind a position."""
    if position == 0:
        return 0
    stream.go_to(position - 1)
    while piece := stream.read(_SEARCHED_BYTES):
        if (end := piece.find(b"\n")) >= 0:
            return stream.position - len(piece) + end + 1
    return stream.position


def record_batches(
    parts: Iterable[pa.RecordBatch],
    *,
    cluster: str,
    source: str,
    broker_name: str | None,
    broker_id: int,
    time_zone: str,
    routine: bool,
) -> Iterator[pa.RecordBatch]:
    """Read parts of logs, and give rows of `ROWS_SCHEMA`. A move belongs to the minute of its line, as an event does.

    `parts`: path, file (the log's identity), start and end. `time_zone`: of the times in the files, as in the
    configuration. `routine`: also lines that are written for ever.
    """
    zone = zone_of(time_zone)
    matcher = Matcher([pattern for pattern in PATTERNS if routine or not pattern.routine])
    for batch in parts:
        for row in batch.to_pylist():
            file = row.pop("file")
            origin = events.LogOrigin(source, file, broker_name, None if broker_name is None else broker_id)
            rows = _rows(read_part(LogPart(**row), zone, origin, matcher), cluster)
            while some := list(islice(rows, _ROWS_TOGETHER)):
                yield pa.RecordBatch.from_pylist(some, schema=ROWS_SCHEMA)


def _rows(
    outcomes: Iterable[tuple[events.LogEvent | events.Unreadable, bool]], cluster: str
) -> Iterator[dict[str, object]]:
    pulls = events.CorrectedPulls()
    for outcome, is_own in outcomes:
        rows: dict[str, object] = dict.fromkeys(ROWS_SCHEMA.names)
        if isinstance(outcome, events.LogEvent):
            minute = Interval.containing(outcome.at).start
            rows[OFFSET_MOVES.name] = pulls.move(outcome, cluster, minute)
            rows[LOG_EVENTS.name] = events.event_row(outcome, cluster, minute)
        if is_own:
            yield rows
