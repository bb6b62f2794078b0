"""The state of a queue after a sample, made of its state before: no cycle reads history again.

Spark does the same to all queues at once (`offsetguard_spark/queue_fold.py`); `queue_state.py` says what a state is.

What happens to samples:

- late or repeated (not newer than the state's interval): the state stays as it is, so folding twice changes nothing;
- missing (a gap, or the queue is not in the snapshot): nothing is folded, the state stays; after `KEPT_FOR` it is
  dropped, and a queue that comes back later starts anew;
- not seen (the broker did not answer, or its commits were not read, or it was read no later than the newest one):
  becomes the newest sample, counted as unknown; everything folded stays. Unknown is never zero;
- behind missed rounds (`is_behind_gap`): the fold goes on, and counts samples anew: what lies between tells neither a
  pause nor a pace of the group. A backlog before which the same offset is committed has stood still all the while;
- recreated or truncated (max offset moved back): offsets before and after cannot be compared. The fold starts anew, and
  keeps when that was and the max offset before.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from offsetguard.queue_state import MISSED_PARTS, WINDOW, Point, QueueState, Rewind
from offsetguard.tables.state import POINT_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetguard.queue_state import Sample

KEPT_FOR = timedelta(hours=24)  # a queue without samples
WINDOW_PARTS = 30
POINT_SPACINGS = (2, 8, 20)  # in parts of a window, together a whole one: least time from point 2 to 1, 3 to 2, 4 to 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


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
    missed = is_behind_gap(before, base, at, window)
    unbroken = at - base.at <= window and not missed
    stood_still = missed and base.committed_offset == committed != base.max_offset
    min_moved = _above(start.seen_min_offset, before.seen_min_offset)
    advanced = committed is not None and (base.committed_offset is None or committed > base.committed_offset)
    this_pause, earlier_pause = _pauses(before, base, at, window, advanced=advanced and not missed)
    return replace(
        start,
        seen_min_offset=before.seen_min_offset if start.seen_min_offset is None else start.seen_min_offset,
        committed_offset=base.committed_offset if committed is None else committed,
        first_seen_at=before.first_seen_at if unbroken or stood_still else at,
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


def is_behind_gap(before: QueueState, base: Point, at: datetime, window: timedelta) -> bool:
    """Whether rounds were missed between a sample and the newest seen one, which lie further apart than usual."""
    apart = at - base.at
    return bool(before.points) and apart > window / MISSED_PARTS and apart * 2 > (base.at - before.points[0].at) * 3


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
