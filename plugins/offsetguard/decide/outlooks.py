"""How a backlog came about and what will become of it; and forecasts, written down to be scored.

The curve is made of what the folded windows hold: the newest sample of each queue, the points before it, which reach
back over the window, the last commit and the last time that nothing waited. Nothing is read for it. Queues have their
samples at moments of their own: between two samples the lag is taken as straight, and beyond the first and the last as
it was there.

Forecasts are written down with the interval that they were made of, and scored by the intervals that come after.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from sqlalchemy.orm import Session

from offsetguard.collect.system_names import RETRY_PREFIX
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import queues_by_group, waiting_in
from offsetguard.judge.forecasts.forecasts import Seen, group_drain, group_loss, outcome, says_something_new, seen
from offsetguard.model.incident import Evidence, Subject
from offsetguard.model.verdicts import Kind, QueueVerdict, Stated
from offsetguard.model.views import LAG_POINTS, LagPoint
from offsetguard.store import judge_memory as store
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.queue_state import QueueState

_Course: TypeAlias = "list[tuple[datetime, int]]"


class Outlooks:
    """Lag curves and forecasts by (consumer group, topic); topic None: over all of the group's."""

    def __init__(self, facts: IntervalFacts) -> None:
        """`facts`: with the verdicts of `windows.judge_queues`; looked at when the first question comes."""
        self._facts = facts

    def lag_curve(self, subject: Subject, evidence: Evidence) -> tuple[LagPoint, ...]:
        """Return the lag of the queues that a finding speaks of, oldest first; empty: nothing waits or it is unknown.

        These are the queues that it names, where what waits in them is its figure, else all that are behind, so that
        the curve ends with that figure: in a queue that is not suspect nothing waits.
        """
        queues = [
            one
            for one in self._queues(subject.consumer_group, subject.topic)
            if subject.topic is not None or not one.message_queue.topic.startswith(RETRY_PREFIX)
        ]
        named = {one.message_queue for one in evidence.queues}
        own = [one for one in queues if one.message_queue in named]
        is_theirs = bool(own) and evidence.figures.get("effective_lag") == waiting_in(own)
        courses = [one for queue in (own if is_theirs else queues) if (one := _course(queue.window))]
        if not any(lag for course in courses for _, lag in course):
            return ()
        newest = max(course[-1][0] for course in courses)  # brokers are read one after the other
        moments = [*(at for at, _ in max(courses, key=len)[:-1]), newest][-LAG_POINTS:]
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


def _course(window: QueueState) -> _Course:
    """Return what is known of a queue's lag, oldest first.

    Its samples, the last time that nothing waited, and the last commit: as much had been written by then as lies
    between the samples around it.
    """
    points = [*reversed(window.points), *([window.seen] if window.seen is not None else [])]
    written = [(one.at, one.max_offset) for one in points]
    lags = {
        one.at: _waited(window, one.at, one.max_offset, one.committed_offset)
        for one in points
        if one.committed_offset is not None
    }
    if not lags:
        return []
    rewound = (
        window.rewind is not None and window.advanced_at is not None and window.rewind.rewound_at >= window.advanced_at
    )
    if window.advanced_at is not None and window.committed_offset is not None and not rewound:
        reached = _between(written, window.advanced_at)
        lags.setdefault(window.advanced_at, _waited(window, window.advanced_at, reached, window.committed_offset))
    if window.end_reached_at is not None:
        lags[window.end_reached_at] = 0
    first = min(one.at for one in points)
    return sorted((at, lag) for at, lag in lags.items() if at >= first)


def _waited(window: QueueState, at: datetime, max_offset: int, committed_offset: int) -> int:
    """Return what waited at a moment, and was there: what had been deleted by then waits no more, as in all figures."""
    min_offset = window.seen_min_offset
    if window.min_moved_at is not None and at < window.min_moved_at:
        moved_before = window.earlier_min_moved_at
        is_oldest = moved_before is not None and at < moved_before
        min_offset = window.earlier_min_moved_from if is_oldest else window.min_moved_from
    return max(0, max_offset - max(committed_offset, min_offset or 0))  # offsets begin at 0


def _between(course: _Course, at: datetime) -> int:
    """Return the value at a moment; `course`: not empty."""
    after = bisect_left(course, (at, -1))
    if after == 0:
        return course[0][1]
    if after == len(course):
        return course[-1][1]
    (start, low), (end, high) = course[after - 1], course[after]
    return round(low + (high - low) * ((at - start) / (end - start)))


_OPEN_PER_SUBJECT = 40  # forecasts of a group, topic and kind; more say nothing more

Pair = tuple[str, str]


def keep_score(session: Session, facts: IntervalFacts) -> None:
    """Score the open forecasts of a cluster by an interval's facts, and state those that it makes.

    `facts`: with verdicts. The caller judges each interval once, in order of time, within one transaction.
    """
    shown = _shown(facts)
    standing: defaultdict[tuple[Pair, Kind], list[Stated]] = defaultdict(list)
    for row_id, stated in store.open_forecasts(session, facts.cluster).items():
        pair = stated.consumer_group, stated.topic
        became = outcome(stated, shown.get(pair), facts.now)
        if became is None:
            standing[pair, stated.kind].append(stated)
        else:
            store.score_forecast(session, row_id, became, now=facts.now)
    for pair, of_group in shown.items():
        for kind, forecast in ((Kind.DRAIN, of_group.drain), (Kind.LOSS, of_group.loss)):
            stand = standing[pair, kind]
            if forecast is None or len(stand) >= _OPEN_PER_SUBJECT:
                continue
            if says_something_new(stand[-1] if stand else None, forecast, facts.now):
                store.state_forecast(session, facts.cluster, Stated(*pair, kind, facts.now, forecast))


def _shown(facts: IntervalFacts) -> Mapping[Pair, Seen]:
    queues = queues_by_group(facts)
    moves: defaultdict[Pair, list[OffsetMoveFacts]] = defaultdict(list)
    for move in facts.offset_moves:
        moves[move.consumer_group, move.topic].append(move)
    pairs = ((group, (group.consumer_group, group.topic)) for group in facts.groups)
    return {pair: seen(group, queues.get(pair, ()), moves[pair], facts.now) for group, pair in pairs}
