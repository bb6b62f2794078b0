"""Sums over queues: of a group in a topic, a topic, a broker, a cluster. Every level adds up the same figures.

Sums are over what is known, and None when nothing is; ages are the greatest known. So the sums of one level, added up,
are those of the next (the gate checks that of every published interval).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetguard.known_figures import sum_of_known
from offsetguard.offsets import QueueOffsets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One row of `facts/queue_figures.sql`."""

    row: Row

    @property
    def offsets(self) -> QueueOffsets:
        """The four offsets."""
        return offsets_of(self.row)


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


def offsets_of(row: Row) -> QueueOffsets:
    """Return the four offsets of a `queue_snapshots` row."""
    return QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"])


def sums_over(queues: Collection[QueueFigures]) -> QueueSums:
    """Add up the figures of some queues."""
    rows = [queue.row for queue in queues]
    lags = {name: sum_of_known(row[name] for row in rows) for name in _LAGS}
    ages = {name: max((row[name] for row in rows if row[name] is not None), default=None) for name in _AGES}
    return QueueSums(suspect_queue_count=sum(row["suspect"] for row in rows), **lags, **ages)


_LAGS = ("lag", "effective_lag", "inflight", "available", "lost")
_AGES = ("lag_ms", "inflight_ms", "available_ms", "lost_ms")
