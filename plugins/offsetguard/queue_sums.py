"""Sums over queues: of a group in a topic, a topic, a broker, a cluster. Every level adds up the same figures.

Sums are over what is known, and None when nothing is; ages are the greatest known. So the sums of one level, added up,
are those of the next (the gate checks that of every published interval).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetguard.known_figures import epoch_ms, sum_of_known
from offsetguard.offsets import QueueOffsets
from offsetguard.time_lag import LagInTime, lag_in_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from offsetguard.time_lag import Point

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One `queue_snapshots` row with everything that is computed of it."""

    row: Row
    offsets: QueueOffsets
    in_time: LagInTime
    suspect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSums:
    """The columns LAGS of `tables/columns.py`, and how many queues are suspect; None: nothing is known."""

    suspect_queue_count: int | None = None
    lag: int | None = None
    effective_lag: int | None = None
    inflight: int | None = None
    available: int | None = None
    lost: int | None = None
    lag_ms: int | None = None
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None


def figures_of(row: Row, now: datetime, curve: Sequence[Point] | None = None) -> QueueFigures:
    """Compute a queue's figures as seen at `now`. `curve`: what is known of its producer; None = only the row."""
    offsets = offsets_of(row)
    known = own_curve(row) if curve is None else curve
    in_time = lag_in_time(offsets, epoch_ms(row["oldest_unconsumed_at"]), known, epoch_ms(now) or 0)
    return QueueFigures(row, offsets, in_time, is_suspect(row, offsets))


def own_curve(row: Row) -> list[Point]:
    """Return the producer curve (`time_lag`) of one sample: a point, if max offset and commits were both seen."""
    max_offset, at_ms = row["max_offset"], epoch_ms(row["max_offset_read_at"])
    if max_offset is None or at_ms is None or row["consumer_offset_read_at"] is None:
        return []
    return [(max_offset, at_ms)]


def offsets_of(row: Row) -> QueueOffsets:
    """Return the four offsets of a `queue_snapshots` row."""
    return QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"])


def sums_over(queues: Collection[QueueFigures]) -> QueueSums:
    """Add up the figures of some queues."""
    offsets = [queue.offsets for queue in queues]
    times = [queue.in_time for queue in queues]
    return QueueSums(
        suspect_queue_count=sum(queue.suspect for queue in queues),
        lag=sum_of_known(one.lag for one in offsets),
        effective_lag=sum_of_known(one.effective_lag for one in offsets),
        inflight=sum_of_known(one.inflight for one in offsets),
        available=sum_of_known(one.available for one in offsets),
        lost=sum_of_known(one.lost for one in offsets),
        lag_ms=_greatest(one.lag_ms for one in times),
        inflight_ms=_greatest(one.inflight_ms for one in times),
        available_ms=_greatest(one.available_ms for one in times),
        lost_ms=_greatest(one.lost_ms for one in times),
    )


def is_never_committed(row: Row) -> bool:
    """Tell whether the broker's table of committed offsets was seen (read_at set) and has no entry for the queue."""
    return row["consumer_offset"] is None and row["consumer_offset_read_at"] is not None


def is_suspect(row: Row, offsets: QueueOffsets) -> bool:
    """Whether a `queue_snapshots` row becomes a `queue_facts` row: every queue that is not provably healthy.

    Healthy = the order min <= consumer <= pull <= max is not broken anywhere (pairs with a NULL side do not break it)
    and nothing waits, which is known in one of two ways:

    - max_offset and consumer_offset are known, and effective_lag = max_offset - max(consumer_offset, min_offset) is 0;
    - never committed (`is_never_committed`) on an empty queue: min_offset and max_offset are known and equal.

    Everything else is suspect: effective lag above 0, an unknown offset, never committed on a queue with messages.
    Queues that the broker does not have (`snapshot_facts.is_unknown_queue`) are neither: they are quarantined before.
    """
    if offsets.order_violations():
        return True
    if offsets.consumer_offset is not None:
        return offsets.effective_lag != 0
    empty = offsets.max_offset is not None and offsets.max_offset == offsets.min_offset
    return not (is_never_committed(row) and empty)


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
