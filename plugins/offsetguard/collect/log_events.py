"""What the logs of a cluster say, beside what its brokers answer: rows, gaps and cursors of one round.

Most clusters have no logs to read (None), and a round of theirs does not wait until the patterns are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsetguard.collect.broker_reading import Undecodable
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Gap, Outcome
from offsetguard.config import LogSource
from offsetguard.model.intervals import Interval
from offsetguard.sources.logs.events import event_row, moves_from
from offsetguard.sources.logs.tailing import LogReading


def log_event_rows(reading: LogReading | None, cluster: str, interval: Interval) -> Iterator[Row]:
    """Yield the rows of `log_events`."""
    if reading is None:
        return
    for event in reading.events:
        yield event_row(event, cluster, interval.start)


def log_move_rows(reading: LogReading | None, cluster: str, interval: Interval) -> Iterator[Row]:
    """Yield the rows of `offset_moves` that log lines tell of."""
    if reading is None:
        return
    yield from moves_from(reading.events, cluster, interval.start)


def unreadable_lines(reading: LogReading | None) -> Iterator[Undecodable]:
    """Yield the lines of which nobody can say when they were written."""
    for line in reading.undecodable if reading else ():
        source = f"log {line.origin.source} {line.origin.file}"
        yield Undecodable(source, line.position, line.reason, line.text.encode("utf-8", "replace"))


def log_gaps(reading: LogReading, sources: Sequence[LogSource]) -> Iterator[Gap]:
    """Yield what of the logs could not be read; a client's log belongs to no broker."""
    by_name = {source.name: source for source in sources}
    for gap in reading.gaps:
        source = by_name.get(gap.source)
        yield Gap(
            address=gap.path,
            broker_name=source.broker_name if source else None,
            broker_id=source.broker_id if source and source.broker_name else None,
            what=f"log {gap.source}",
            outcome=Outcome.UNDECODABLE,
            reason=f"{gap.path}: {gap.reason}",
        )
