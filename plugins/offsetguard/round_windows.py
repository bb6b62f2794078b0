"""The windows of queues over some rounds in memory, as the pipeline folds them over its intervals.

Rounds of `check` are seconds apart, several in one interval: here a round's own moment stands for the interval.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from offsetguard.queue_fold import fold
from offsetguard.queue_state import QueueState, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

Queue = tuple[str, str, str, int]
"""(consumer group, topic, broker name, queue id)."""

_SAMPLE = tuple(one.name for one in fields(Sample))
_READ_AT = ("consumer_offset_read_at", "pull_offset_read_at", "max_offset_read_at")
_LATER = timedelta(milliseconds=1)


def queue_of(row: Row) -> Queue:
    """Return whose row of `queue_snapshots` it is."""
    return row["consumer_group"], row["topic"], row["broker_name"], row["queue_id"]


def fold_rounds(rounds: Iterable[Sequence[Row]]) -> dict[Queue, QueueState]:
    """Return the window of every queue of some rounds' `queue_snapshots` rows, oldest round first.

    A queue that the last round does not have keeps the window that it had.
    """
    windows: dict[Queue, QueueState] = {}
    before = datetime(1970, 1, 1, tzinfo=UTC)
    for rows in rounds:
        before = _moment(rows, before)
        for row in rows:
            queue = queue_of(row)
            windows[queue] = fold(windows.get(queue), before, sample_of(row))
    return windows


def sample_of(row: Row) -> Sample:
    """Return a row of `queue_snapshots` as a sample."""
    return Sample(**{name: row[name] for name in _SAMPLE if name in row})


def _moment(rows: Sequence[Row], before: datetime) -> datetime:
    """Return when a round took place, later than the one before; of a round that read nothing that is all we know."""
    moments = (row.get(name) for row in rows for name in _READ_AT)
    return max((one for one in moments if one is not None and one > before), default=before + _LATER)
