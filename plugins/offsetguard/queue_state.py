"""The state of one queue of a consumer group: its window, folded sample by sample: no cycle reads history again.

`fold(state before, interval, sample, window)` is the state after the sample. Spark does the same to all queues at once
(`offsetguard_spark/queue_state.py`); the meaning of each column stands in `tables/state.py`.

What a state tells of a window that slides, without the window's samples:

- *Moments* (`advanced_at`, `end_reached_at`, `lost_at`, ...) are those of the last such event. It lies within any
  window up to now exactly if the moment does: whoever asks compares it with now - window, and nothing has to slide.
- *Points* are exact samples. Point 1 is the seen sample before the newest seen one, each later one is older by at least
  `POINT_SPACINGS`; these add up to the window. So the points reach back to the first sample of the state or, once there
  are five, beyond the window. Growth, rates and the producer curve come from them.
- *Pauses* are kept as the longest of the aligned window (whole windows since 1970) of the newest seen sample, and of
  the one before: together all pauses that ended within the last window, and none that ended two windows ago.
- *A rewind* stays until `rewound_from`, the highest offset of all rewinds that were not regained, is committed again.
  One number is enough for any number of rewinds: all are regained exactly if the highest is.

What happens to samples:

- late or repeated (not newer than the state's interval): the state stays as it is, so folding twice changes nothing;
- missing (a gap, or the queue is not in the snapshot): nothing is folded, the state stays; after `KEPT_FOR` it is
  dropped, and a queue that comes back later starts anew;
- not seen (the broker did not answer, or its commits were not read, or it was read no later than the newest one):
  becomes the newest sample, counted as unknown; everything folded stays. Unknown is never zero;
- recreated or truncated (max offset moved back): offsets before and after cannot be compared. The fold starts anew, and
  keeps when that was and the max offset before.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from offsetguard.offsets import OffsetOrderViolation, QueueOffsets
from offsetguard.tables.state import POINT_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WINDOW = timedelta(minutes=30)
KEPT_FOR = timedelta(hours=24)  # a queue without samples
WINDOW_PARTS = 30
POINT_SPACINGS = (2, 8, 20)  # in parts of a window, together a whole one: least time from point 2 to 1, 3 to 2, 4 to 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Sample:
    """What one snapshot says of the queue; names and meanings are those of `queue_snapshots`."""

    min_offset: int | None = None
    max_offset: int | None = None
    consumer_offset: int | None = None
    pull_offset: int | None = None
    last_timestamp: datetime | None = None
    oldest_unconsumed_at: datetime | None = None
    consumer_offset_read_at: datetime | None = None
    pull_offset_read_at: datetime | None = None
    max_offset_read_at: datetime | None = None
    origin: str = "broker"

    @property
    def offsets(self) -> QueueOffsets:
        """The four offsets, for their formulas."""
        return QueueOffsets(self.min_offset, self.max_offset, self.consumer_offset, self.pull_offset)

    @property
    def nothing_waits(self) -> bool:
        """Whether it is known that everything was consumed: no effective lag, or never committed on an empty queue."""
        if self.consumer_offset is not None:
            return (effective_lag := self.offsets.effective_lag) is not None and effective_lag <= 0
        return self.max_offset is not None and self.min_offset == self.max_offset

    @property
    def disordered(self) -> bool:
        """Whether consumer <= pull <= max or min <= max is broken; consumer below min is a loss, not disorder."""
        return any(one is not OffsetOrderViolation.CONSUMER_BELOW_MIN for one in self.offsets.order_violations())


@dataclass(frozen=True, slots=True)
class Point:
    """An earlier sample."""

    at: datetime
    max_offset: int
    committed_offset: int | None


@dataclass(frozen=True, slots=True)
class Rewind:
    """The last time that the committed offset moved back, and what of that, and of earlier ones, is to be regained."""

    at: datetime
    from_offset: int
    to_offset: int
    count: int
    regained_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueueState:
    """One row of `queue_state` without its key."""

    interval_start: datetime
    sample: Sample
    seen_at: datetime | None = None
    seen_min_offset: int | None = None
    seen_max_offset: int | None = None
    committed_offset: int | None = None
    first_seen_at: datetime | None = None
    sample_count: int = 0
    unknown_count: int = 0
    max_unchanged_since: datetime | None = None
    min_moved_at: datetime | None = None
    min_moved_from: int | None = None
    earlier_min_moved_at: datetime | None = None
    earlier_min_moved_from: int | None = None
    advanced_at: datetime | None = None
    end_reached_at: datetime | None = None
    longest_pause_ms: int | None = None
    earlier_longest_pause_ms: int | None = None
    rewind: Rewind | None = None
    lost_at: datetime | None = None
    disordered_at: datetime | None = None
    recreated_at: datetime | None = None
    recreated_from: int | None = None
    points: tuple[Point, ...] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> QueueState:
        """Return the state of a row of `queue_state`, or of `queue_facts`, which has no times of reading."""
        sample = Sample(**{one.name: row[one.name] for one in fields(Sample) if row.get(one.name) is not None})
        points = []
        for number in range(1, POINT_COUNT + 1):
            point = {one.name: row.get(f"point_{number}_{one.name}") for one in fields(Point)}
            if point["at"] is not None:
                points.append(Point(**point))  # type: ignore[arg-type]
        rewind = {name: row.get(column) for name, column in _REWIND_COLUMNS.items()}
        folded = {one.name: row.get(one.name) for one in fields(cls) if one.name not in _NESTED}
        counts = {name: folded.get(name) or 0 for name in ("sample_count", "unknown_count")}
        return cls(
            **(folded | counts),
            sample=sample,
            rewind=None if rewind["at"] is None else Rewind(**rewind),  # type: ignore[arg-type]
            points=tuple(points),
        )

    @property
    def seen(self) -> Point | None:
        """The newest seen sample, as the point that it will become; None = there is none yet."""
        if self.seen_at is None or self.seen_max_offset is None:
            return None
        return Point(self.seen_at, self.seen_max_offset, self.committed_offset)

    def as_row(self) -> dict[str, object]:
        """Return the columns of `queue_state`, without the key."""
        row: dict[str, object] = {one.name: getattr(self.sample, one.name) for one in fields(Sample)}
        row |= {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NESTED}
        row |= dict.fromkeys(_REWIND_COLUMNS.values())
        if self.rewind is not None:
            row |= {column: getattr(self.rewind, name) for name, column in _REWIND_COLUMNS.items()}
        for number in range(1, POINT_COUNT + 1):
            point = self.points[number - 1] if number <= len(self.points) else None
            row |= {f"point_{number}_{one.name}": point and getattr(point, one.name) for one in fields(Point)}
        return row


_NESTED = ("sample", "rewind", "points")
_REWIND_COLUMNS = {
    "at": "rewound_at",
    "from_offset": "rewound_from",
    "to_offset": "rewound_to",
    "count": "rewind_count",
    "regained_at": "regained_at",
}


def rebuild(samples: Iterable[tuple[datetime, Sample]], window: timedelta = WINDOW) -> QueueState | None:
    """Return the state of a queue made of all its samples, given with the starts of their intervals in any order.

    Of several samples of one interval the first given counts. None: there is no sample.
    """
    state = None
    for interval_start, sample in sorted(samples, key=lambda one: one[0]):
        state = fold(state, interval_start, sample, window)
    return state


def fold(before: QueueState | None, interval_start: datetime, sample: Sample, window: timedelta = WINDOW) -> QueueState:
    """Return the state after the sample of an interval; `before` is None for a queue that is new."""
    if before is not None and interval_start <= before.interval_start:
        return before
    if before is not None and interval_start - before.interval_start >= KEPT_FOR:
        before = None
    at, high = sample.max_offset_read_at, sample.max_offset
    base = None if before is None else before.seen
    seen = at is not None and high is not None and sample.consumer_offset_read_at is not None
    if not seen or at is None or high is None or (base is not None and at <= base.at):
        known = before or QueueState(interval_start, sample)
        return replace(known, interval_start=interval_start, sample=sample, unknown_count=known.unknown_count + 1)
    start = _start(interval_start, sample, at)
    if before is None or base is None:
        return start
    if high < base.max_offset:
        return replace(start, recreated_at=at, recreated_from=base.max_offset)
    return _go_on(before, base, start, window)


def _start(interval_start: datetime, sample: Sample, at: datetime) -> QueueState:
    """Return the state of a window that has only this seen sample."""
    return QueueState(
        interval_start,
        sample,
        seen_at=at,
        seen_min_offset=sample.min_offset,
        seen_max_offset=sample.max_offset,
        committed_offset=sample.consumer_offset,
        first_seen_at=at,
        sample_count=1,
        max_unchanged_since=at,
        end_reached_at=at if sample.nothing_waits else None,
        lost_at=at if sample.offsets.lost else None,
        disordered_at=at if sample.disordered else None,
    )


def _go_on(before: QueueState, base: Point, start: QueueState, window: timedelta) -> QueueState:
    """Return the state when the window goes on: `base` is its newest seen sample, `start` the new sample by itself."""
    at, committed = start.seen_at or base.at, start.committed_offset
    unbroken = at - base.at <= window
    min_moved = _above(start.seen_min_offset, before.seen_min_offset)
    advanced = committed is not None and (base.committed_offset is None or committed > base.committed_offset)
    this_pause, earlier_pause = _pauses(before, base, at, window, advanced=advanced)
    return replace(
        start,
        seen_min_offset=before.seen_min_offset if start.seen_min_offset is None else start.seen_min_offset,
        committed_offset=base.committed_offset if committed is None else committed,
        first_seen_at=before.first_seen_at if unbroken else at,
        sample_count=before.sample_count + 1 if unbroken else 1,
        max_unchanged_since=before.max_unchanged_since if start.seen_max_offset == base.max_offset else at,
        min_moved_at=at if min_moved else before.min_moved_at,
        min_moved_from=before.seen_min_offset if min_moved else before.min_moved_from,
        earlier_min_moved_at=before.min_moved_at if min_moved else before.earlier_min_moved_at,
        earlier_min_moved_from=before.min_moved_from if min_moved else before.earlier_min_moved_from,
        advanced_at=at if advanced else before.advanced_at,
        end_reached_at=start.end_reached_at or before.end_reached_at,
        longest_pause_ms=this_pause,
        earlier_longest_pause_ms=earlier_pause,
        rewind=_rewind(before.rewind, base.committed_offset, start, at, window),
        lost_at=start.lost_at or before.lost_at,
        disordered_at=start.disordered_at or before.disordered_at,
        recreated_at=before.recreated_at,
        recreated_from=before.recreated_from,
        points=_points(before.points, base, window),
    )


def _pauses(
    before: QueueState, base: Point, at: datetime, window: timedelta, *, advanced: bool
) -> tuple[int | None, int | None]:
    """Return the longest pauses of the aligned window of `at`, and of the one before."""
    windows_on = (at - EPOCH) // window - (base.at - EPOCH) // window
    this = before.longest_pause_ms if windows_on == 0 else None
    earlier = {0: before.earlier_longest_pause_ms, 1: before.longest_pause_ms}.get(windows_on)
    if advanced:
        moments = (before.advanced_at, before.end_reached_at, before.first_seen_at)
        pause_ms = (at - max(moment for moment in moments if moment is not None)) // _MS
        this = pause_ms if this is None else max(this, pause_ms)
    return this, earlier


def _rewind(
    before: Rewind | None, was: int | None, start: QueueState, at: datetime, window: timedelta
) -> Rewind | None:
    """Return the rewind after a sample; going back from beyond the end is a correction and no rewind."""
    now, end = start.committed_offset, start.seen_max_offset
    if now is None or was is None or end is None:
        return before
    if not now < was <= end:
        regained = before is not None and before.regained_at is None and now >= before.from_offset
        return replace(before, regained_at=at) if before is not None and regained else before
    count = before.count + 1 if before is not None and at - before.at <= window else 1
    if before is None or before.regained_at is not None:
        return Rewind(at, was, now, count)
    return Rewind(at, max(was, before.from_offset), min(now, before.to_offset), count)


def _points(before: tuple[Point, ...], base: Point, window: timedelta) -> tuple[Point, ...]:
    """Return the points when the newest seen sample becomes point 1.

    The point whose place is taken moves on to the next place if that is free, or if what is there is older by the
    place's spacing; else it is forgotten. Whatever leaves point 4 goes to point 5.
    """
    points, moving = list(before), base
    for place in range(POINT_COUNT):
        if place == len(points):
            return (*points, moving)
        replaced, points[place] = points[place], moving
        next_is_taken = place < len(POINT_SPACINGS) and place + 1 < len(points)
        if next_is_taken and replaced.at - points[place + 1].at < window * POINT_SPACINGS[place] // WINDOW_PARTS:
            break
        moving = replaced
    return tuple(points)


def _above(high: int | None, low: int | None) -> bool:
    return high is not None and low is not None and high > low


def is_suspect(state: QueueState, now: datetime, window: timedelta = WINDOW) -> bool:
    """Whether the window, up to `now`, holds anything that is not healthy, whatever the newest sample says.

    That is: something was lost, in disorder, recreated or rewound within the window; a rewind, however old, was not
    regained; or the newest sample was not seen. What waits now is for `snapshot_facts.is_suspect` to say: a queue is
    a suspect when either does.
    """
    rewind = state.rewind
    moments = (state.lost_at, state.disordered_at, state.recreated_at, rewind.at if rewind else None)
    recent = any(moment is not None and moment >= now - window for moment in moments)
    return recent or state.unknown_count > 0 or (rewind is not None and rewind.regained_at is None)


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


def produce_tps(state: QueueState) -> float | None:
    """Messages written per second between the two newest seen samples; None = there are no two."""
    newest = state.seen
    if newest is None or not state.points:
        return None
    return _per_second(newest.max_offset - state.points[0].max_offset, newest.at - state.points[0].at)


def consume_tps(state: QueueState) -> float | None:
    """Messages committed per second between the two newest seen samples; None = not two, or moved back."""
    newest = state.seen
    if newest is None or not state.points or newest.committed_offset is None:
        return None
    earlier = state.points[0]
    if earlier.committed_offset is None or newest.committed_offset < earlier.committed_offset:
        return None
    return _per_second(newest.committed_offset - earlier.committed_offset, newest.at - earlier.at)


def _per_second(count: int, time: timedelta) -> float:
    return float(count) * 1_000_000 / float(time // timedelta(microseconds=1))
