"""How a group goes through a queue: how fast, and where it stands in the time of messages."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from offsetguard.model.offsets import epoch_ms
from offsetguard.tables.queue_state import Point, QueueState

EXTRAPOLATED = "extrapolated"  # `lag_ms_basis` of an age that was drawn beyond the first look: a guess
_MS = timedelta(milliseconds=1)
_MANY = 100  # messages: where fewer wait, the one before them may be from another day
_FASTER, _SLOWER = 1.25, 0.75  # what speeds do beyond those that were seen


@dataclass(frozen=True, slots=True)
class Place:
    """When the oldest unconsumed message was stored (ms since 1970), and how it moves on (ms of messages per ms)."""

    earliest_ms: int
    latest_ms: int
    slowest: float
    fastest: float


class Pace(NamedTuple):
    """What was written to a queue and committed between two samples next to each other, messages per ms."""

    since: datetime
    until: datetime
    produced: float
    consumed: float | None  # None = no commit was seen by one of them; below 0: it moved back


def paces(window: QueueState) -> list[Pace]:
    """Return the paces between all samples that a window keeps, newest first."""
    seen = [one for one in (window.seen, *window.points) if one is not None]
    found = []
    for later, point in pairwise(seen):
        elapsed_ms = (later.at - point.at) / _MS
        known = later.committed_offset is not None and point.committed_offset is not None
        consumed = (later.committed_offset or 0) - (point.committed_offset or 0)
        produced = (later.max_offset - point.max_offset) / elapsed_ms
        found.append(Pace(point.at, later.at, produced, consumed / elapsed_ms if known else None))
    return found


def most_committed(window: QueueState, time: timedelta) -> float:
    """Return how many messages the group committed in such a time when they were most."""
    return max((pace.consumed for pace in paces(window) if pace.consumed is not None), default=0.0) * (time / _MS)


def speeds(window: QueueState) -> Iterator[tuple[float, float]]:
    """Yield (consumed, produced), messages per ms, from now back to each point since when the backlog has shrunk.

    A group that goes on after messages which were deleted has consumed none of them: there the way back ends.
    """
    newest = later = window.seen
    for point in window.points:
        if window.first_seen_at is not None and point.at < window.first_seen_at:
            return  # rounds were missed in between
        if newest is None or later is None or newest.committed_offset is None or point.committed_offset is None:
            return
        if window.seen_min_offset is not None and window.seen_min_offset > point.committed_offset:
            return
        shrinks = later.committed_offset is not None and (
            later.committed_offset - point.committed_offset > later.max_offset - point.max_offset
        )
        elapsed_ms = (newest.at - point.at) / _MS
        if not shrinks or elapsed_ms <= 0:
            return
        consumed = (newest.committed_offset - point.committed_offset) / elapsed_ms
        yield consumed, (newest.max_offset - point.max_offset) / elapsed_ms
        later = point


def place(window: QueueState, now: datetime, oldest_at: datetime | None, oldest_kept_ms: int | None) -> Place | None:
    """Return where the group stands; None: nobody can tell how old the oldest unconsumed message is.

    `oldest_at`: when that message was stored, where that is known; `oldest_kept_ms`: the same of the oldest message of
    the broker: what waits is not older, for it still exists.
    """
    now_ms = epoch_ms(now) or 0
    exact = epoch_ms(oldest_at or window.sample.oldest_unconsumed_at)
    between = _stored_between(window, now_ms) if exact is None else (min(exact, now_ms), min(exact, now_ms))
    if between is None:
        return None
    earliest = max(between[0], oldest_kept_ms or 0)
    latest = max(earliest, between[1])
    waiting = max(1, window.sample.offsets.effective_lag or 1)
    seen = _consumed(window)
    return Place(
        earliest,
        latest,
        slowest=min(seen) * _SLOWER * (now_ms - latest) / waiting,
        fastest=max(seen) * _FASTER * (now_ms - earliest) / waiting,
    )


def _consumed(window: QueueState) -> list[float]:
    """Return the rates at which the group went on, messages per ms, between now and each point; 0 if it stands."""
    newest = window.seen
    if newest is None or newest.committed_offset is None:
        return [0.0]
    rates = [
        max(0, newest.committed_offset - point.committed_offset) / ((newest.at - point.at) / _MS)
        for point in window.points
        if point.committed_offset is not None
        and (window.first_seen_at or point.at) <= point.at < newest.at
        and (window.seen_min_offset is None or window.seen_min_offset <= point.committed_offset)
    ]
    before = window.points[0].committed_offset if window.points else None
    goes_on = before is not None and newest.committed_offset > before
    return rates if rates and goes_on else [0.0]


def _stored_between(window: QueueState, now_ms: int) -> tuple[int, int] | None:
    """Return between which moments the message at the committed offset was stored; None: nobody can tell.

    It came after the samples that did not have it, and after nothing waited. The message before it may be much older,
    on a quiet topic: its time says something only where messages come all the time.
    """
    not_yet, already = _looks_around(window, _oldest_unconsumed(window))
    before = epoch_ms(window.sample.last_timestamp)
    is_many = (window.sample.offsets.effective_lag or 0) >= _MANY
    steady = is_many and _is_written(window)
    if before is not None and (not_yet or steady):
        not_yet.append(before)
    return (max(not_yet), min([now_ms, *already])) if not_yet else None


def waits_between(window: QueueState) -> tuple[int, int | None]:
    """Return for how long the oldest unconsumed message waits by the newest look, ms: at least, and at most if known.

    It was written after the looks that did not show it, and after the message before it; before all others.
    """
    not_yet, already = _looks_around(window, _oldest_unconsumed(window))
    before = epoch_ms(window.sample.last_timestamp)
    return _waited(window.seen_at, [*not_yet, *([] if before is None else [before])], already)


def waited_between(window: QueueState, point: Point) -> tuple[int, int | None]:
    """Return the same as `waits_between` of an earlier point, by that look."""
    return _waited(point.at, *_looks_around(window, point.committed_offset or 0))


def _waited(at: datetime | None, not_yet: list[int], already: list[int]) -> tuple[int, int | None]:
    at_ms = epoch_ms(at) or 0
    return at_ms - min([at_ms, *already]), max(0, at_ms - max(not_yet)) if not_yet else None


def _oldest_unconsumed(window: QueueState) -> int:
    return max(window.committed_offset or 0, window.seen_min_offset or 0)


def _looks_around(window: QueueState, offset: int) -> tuple[list[int], list[int]]:
    """Return when somebody looked and the message at an offset was not written yet, and when it was, ms."""
    seen = [one for one in (*window.points, window.seen) if one is not None]
    not_yet = [epoch_ms(one.at) or 0 for one in seen if one.max_offset <= offset]
    already = [epoch_ms(one.at) or 0 for one in seen if one.max_offset > offset]
    if window.end_reached_at is not None:
        not_yet.append(epoch_ms(window.end_reached_at) or 0)
    return not_yet, already


def _is_written(window: QueueState) -> bool:
    """Whether messages came between the newest samples, and between the oldest."""
    ends = [one.max_offset for one in (window.seen, *window.points) if one is not None]
    return len(ends) > 1 and all(later > earlier for later, earlier in pairwise(ends))
