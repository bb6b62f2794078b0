"""The state of one queue of a consumer group: its window, folded sample by sample, and what it tells.

`facts/queue_state.sql` folds it.

The meaning of each column stands in `tables/state.py`. What a state tells of a window that slides, without the window's
samples:

- *Moments* (`advanced_at`, `end_reached_at`, `lost_at`, ...) are those of the last such event. It lies within any
  window up to now exactly if the moment does: whoever asks compares it with now - window, and nothing has to slide.
- *Points* are exact samples. Point 1 is the seen sample before the newest seen one, each later one is older by at least
  a spacing; these add up to the window. So the points reach back to the first sample of the state or,
  once there are five, beyond the window. Growth, rates and the producer curve come from them.
- *Pauses* are kept as the longest of the aligned window (whole windows since 1970) of the newest seen sample, and of
  the one before: together all pauses that ended within the last window, and none that ended two windows ago.
- *A rewind* stays until `rewound_from`, the highest offset of all rewinds that were not regained, is committed again.
  One number is enough for any number of rewinds: all are regained exactly if the highest is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from offsetguard.model.offsets import QueueOffsets
from offsetguard.tables.state import POINT_COUNT, Folded, Point, Rewind, SampleColumns

WINDOW = timedelta(minutes=30)
MISSED_PARTS = 12
"""Two readings further apart than such a part of the window (150 s), and than 2.5 times what readings lay apart before,
have missed rounds between them: what lies there is no rhythm of a group. One round that fails is none of that."""
MISSED_AFTER = WINDOW / MISSED_PARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(SampleColumns):
    """What one snapshot says of the queue."""

    @property
    def offsets(self) -> QueueOffsets:
        """The four offsets, for their formulas."""
        return QueueOffsets(self.min_offset, self.max_offset, self.consumer_offset, self.pull_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState(Folded):
    """One row of `queue_state` without its key."""

    interval_start: datetime
    sample: Sample
    rewind: Rewind | None = None
    points: tuple[Point, ...] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> QueueState:
        """Return the state of a row of `queue_state`, or of `queue_facts`, which has no times of reading."""
        sample, folded = (
            {one.name: row[one.name] for one in fields(kind) if row.get(one.name) is not None}
            for kind in (Sample, Folded)
        )
        points = []
        for number in range(1, POINT_COUNT + 1):
            point = {one.name: row.get(f"point_{number}_{one.name}") for one in fields(Point)}
            if point["at"] is not None:
                points.append(Point(**point))  # type: ignore[arg-type]
        rewind = {one.name: row.get(one.name) for one in fields(Rewind)}
        return cls(
            **folded,
            interval_start=row["interval_start"],
            sample=Sample(**sample),
            rewind=None if rewind["rewound_at"] is None else Rewind(**rewind),  # type: ignore[arg-type]
            points=tuple(points),
        )

    @property
    def seen(self) -> Point | None:
        """The newest seen sample, as the point that it will become; None = there is none yet."""
        if self.seen_at is None or self.seen_max_offset is None:
            return None
        return Point(at=self.seen_at, max_offset=self.seen_max_offset, committed_offset=self.committed_offset)


def curve(state: QueueState) -> list[tuple[int, datetime]]:
    """Return the producer curve: (max offset, when it was read), oldest first, neither going back.

    Of the newest flat stretch it has the first and the last point.
    """
    newest, since = state.seen, state.max_unchanged_since
    if newest is None or since is None:
        return []
    earlier = [(point.max_offset, point.at) for point in reversed(state.points) if point.max_offset < newest.max_offset]
    flat = [(newest.max_offset, since)] if since < newest.at else []
    return [*earlier, *flat, (newest.max_offset, newest.at)]


def consume_tps(state: QueueState) -> float | None:
    """Messages committed per second between the two newest seen samples; None = not two, or moved back."""
    newest = state.seen
    if newest is None or not state.points or state.sample_count < 2 or newest.committed_offset is None:
        return None
    earlier = state.points[0]
    if earlier.committed_offset is None or newest.committed_offset < earlier.committed_offset:
        return None
    return _per_second(newest.committed_offset - earlier.committed_offset, newest.at - earlier.at)


def _per_second(count: int, time: timedelta) -> float:
    return float(count) * 1_000_000 / float(time // timedelta(microseconds=1))
