"""How a group's backlog moves, by the windows of its queues: what `accumulation` says, or that it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.facts.interval import QueueFacts
from offsetguard.judge.evidence.judged_groups import JudgedGroup
from offsetguard.judge.evidence.window_progress import lag_trend
from offsetguard.judge.forecasts import forecasts
from offsetguard.model.verdicts import State

_TROUBLE = (State.STALLED, State.FALLING_BEHIND, State.AT_RISK)
_PASSING = ("end_reached_recently", "within_rhythm", "quiet_topic", "nothing_waits", "lag_allowed")
_PARTS = 6  # of the window: a lag that does not grow over less than one of them says little, ...
_RECENT_PARTS = 10  # ... and whether it falls is seen in the newest of so many
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class BacklogTrend:
    """A variant of `accumulation`, the state that goes with it, and its figures."""

    variant: str
    state: State
    growth: int | None = None  # messages over the window, of the queues that fall behind
    drained_ms: int | None = None  # at the latest, at the present pace


def backlog_trend(judged: JudgedGroup, now: datetime) -> BacklogTrend | None:
    """Return how the backlog moves; None: nothing waits that is worth a word, or another rule says it.

    Others speak of groups that are offline, and of topics that no client subscribes to.
    """
    in_trouble = judged.in_state(*_TROUBLE)
    if (judged.group.effective_lag or 0) <= 0 or not (judged.above_limit or in_trouble):
        return None
    if judged.offline or judged.in_state(State.UNSUBSCRIBED):
        return None
    state = judged.worst if in_trouble else State.FALLING_BEHIND
    if judged.group.online_client_count is None:
        return BacklogTrend("clients_unknown", state if in_trouble else State.UNKNOWN)
    if judged.in_state(State.STALLED):
        return BacklogTrend("stalled", state)
    if behind := judged.in_state(State.FALLING_BEHIND):
        return BacklogTrend("growing", state, growth=sum(_growth(queue) for queue in behind))
    return _without_trouble(judged, now)


def _without_trouble(judged: JudgedGroup, now: datetime) -> BacklogTrend | None:
    behind = [queue for queue in judged.queues if (queue.offsets.effective_lag or 0) > 0]
    if behind and len(judged.by_rule(*_PASSING)) >= len(behind):
        return None
    if (drained_ms := _drained_ms(judged, now)) is not None:
        return BacklogTrend("draining", State.OK, drained_ms=drained_ms)
    long_known = behind and all(_span(queue) * _PARTS >= judged.policy.window_ms * _MS for queue in behind)
    return BacklogTrend("steady" if long_known else "default", State.FALLING_BEHIND)


def _drained_ms(judged: JudgedGroup, now: datetime) -> int | None:
    """Return when all is drained: of the forecasts the latest, else at the pace of the newest samples."""
    drain = forecasts.group_drain(queue.verdict for queue in judged.queues if queue.verdict is not None)
    if drain is not None:
        return drain.high_ms
    trend = lag_trend(judged.queues, now - judged.policy.window_ms * _MS / _RECENT_PARTS)
    if trend is None or trend.growth >= 0:
        return None
    return round((judged.group.effective_lag or 0) * (trend.span / _MS) / -trend.growth)


def _growth(queue: QueueFacts) -> int:
    growth = queue.verdict.figures.get("growth") if queue.verdict is not None else None
    return growth if isinstance(growth, int) else 0


def _span(queue: QueueFacts) -> timedelta:
    window = queue.window
    if window is None or window.seen_at is None or window.first_seen_at is None:
        return timedelta(0)
    return window.seen_at - window.first_seen_at
