"""How a backlog came about and what will become of it, for the first incidents of a message: of the judged facts.

The curve is made of what the folded windows hold: the newest sample of each queue, the points before it, which reach
back over the window, the last commit and the last time that nothing waited. Nothing is read for it. Queues have their
samples at moments of their own: between two samples the lag is taken as straight, and beyond the first and the last as
it was there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from offsetguard.forecasts import group_drain, group_loss
from offsetguard.messages.view import LAG_POINTS, LagPoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from offsetguard.facts import IntervalFacts, QueueFacts
    from offsetguard.queue_state import QueueState
    from offsetguard.verdicts import QueueVerdict

_Course: TypeAlias = "list[tuple[datetime, int]]"


class Outlooks:
    """Lag curves and forecasts by (consumer group, topic); topic None: over all of the group's."""

    def __init__(self, facts: IntervalFacts) -> None:
        """`facts`: with the verdicts of `windows.judge_queues`; looked at when the first question comes."""
        self._facts = facts

    def lag_curve(self, consumer_group: str | None, topic: str | None) -> tuple[LagPoint, ...]:
        """Return the lag of all suspect queues together, oldest first; empty where nothing waits or it is unknown."""
        courses = [one for queue in self._queues(consumer_group, topic) if (one := _course(queue.window))]
        if not any(lag for course in courses for _, lag in course):
            return ()
        moments = [at for at, _ in max(courses, key=len)][-LAG_POINTS:]
        return tuple(LagPoint(at=at, lag=sum(_between(course, at) for course in courses)) for at in moments)

    def drain_ms(self, consumer_group: str | None, topic: str | None) -> tuple[int, int] | None:
        """Return low and high until the backlog is gone, from the interval's end on; None: not known, or never."""
        forecast = group_drain(self._verdicts(consumer_group, topic))
        return None if forecast is None else forecast.range_ms

    def loss_ms(self, consumer_group: str | None, topic: str | None) -> tuple[int, int] | None:
        """Return low and high until the first message is lost; None: not known, or not in sight."""
        forecast = group_loss(self._verdicts(consumer_group, topic))
        return None if forecast is None else forecast.range_ms

    def _verdicts(self, consumer_group: str | None, topic: str | None) -> list[QueueVerdict]:
        return [one.verdict for one in self._queues(consumer_group, topic) if one.verdict is not None]

    def _queues(self, consumer_group: str | None, topic: str | None) -> Sequence[QueueFacts]:
        if consumer_group is None:
            return ()
        return [one for one in self._by_group.get(consumer_group, ()) if topic in (None, one.message_queue.topic)]

    @cached_property
    def _by_group(self) -> dict[str, list[QueueFacts]]:
        found: dict[str, list[QueueFacts]] = defaultdict(list)
        for queue in self._facts.queues:
            found[queue.consumer_group].append(queue)
        return found


def _course(window: QueueState | None) -> _Course:
    """Return what is known of a queue's lag, oldest first.

    Its samples, the last time that nothing waited, and the last commit: as much had been written by then as lies
    between the samples around it.
    """
    if window is None:
        return []
    points = [*reversed(window.points), *([window.seen] if window.seen is not None else [])]
    written = [(one.at, one.max_offset) for one in points]
    lags = {one.at: max(0, one.max_offset - one.committed_offset) for one in points if one.committed_offset is not None}
    if not lags:
        return []
    rewound = (
        window.rewind is not None and window.advanced_at is not None and window.rewind.rewound_at >= window.advanced_at
    )
    if window.advanced_at is not None and window.committed_offset is not None and not rewound:
        lags.setdefault(window.advanced_at, max(0, _between(written, window.advanced_at) - window.committed_offset))
    if window.end_reached_at is not None:
        lags[window.end_reached_at] = 0
    first = min(one.at for one in points)
    return sorted((at, lag) for at, lag in lags.items() if at >= first)


def _between(course: _Course, at: datetime) -> int:
    """Return the value at a moment; `course`: not empty."""
    after = bisect_left(course, (at, -1))
    if after == 0:
        return course[0][1]
    if after == len(course):
        return course[-1][1]
    (start, low), (end, high) = course[after - 1], course[after]
    return round(low + (high - low) * ((at - start) / (end - start)))
