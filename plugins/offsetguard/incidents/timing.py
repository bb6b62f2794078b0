"""When a receiver hears about a group of incidents: Alertmanager's decision, and its three spans without surprises.

Time is the start of the judged interval, so that the same intervals always give the same messages, however late or
unevenly they are judged. A span has passed in the first interval that begins so long after another as it is long.

group_wait      from the opening of the oldest incident that may be told to the first message of a spell
group_interval  from any message to the next one with news: new incidents, resolved ones, a new spell after the end of
                all. What is worse than all that was told does not wait
repeat_interval from any message to one without news; exactly, whatever group_interval is
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.incidents.decision import Decision, LastSent, NotificationReason, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from offsetguard.incidents.muting import MuteReason
    from offsetguard.intervals import Interval
    from offsetguard.severity import Severity


@dataclass(frozen=True, slots=True)
class Timing:
    """What an operator sets."""

    group_wait_ms: int
    group_interval_ms: int
    repeat_interval_ms: int
    send_resolved: bool


@dataclass(frozen=True, slots=True)
class ToldIncident:
    """How a receiver knows an incident that was told to it and whose end was not."""

    severity: Severity  # as it was told last
    first_told_at: datetime  # start of an interval, as all moments here but the next
    severity_told_at: datetime  # by the clock, when this severity was decided to be told: to compare with people's acts
    repeats: int = 0  # messages that told it again without anything new


@dataclass(frozen=True, slots=True)
class Told:
    """What one receiver was last told about one (team, cluster, rule), and what was kept from it."""

    at: datetime | None = None  # None: nothing yet
    thread_key: str = ""
    firing: Mapping[str, ToldIncident] = field(default_factory=dict)  # by incident id
    muted: Mapping[str, MuteReason] = field(default_factory=dict)  # firing incidents, told before or not
    repeat_count: int = 0  # messages without news, one after the other
    ended: Severity | None = None  # after a spell, for group_interval: the worst that was told in the end

    @property
    def is_empty(self) -> bool:
        """Nothing is left that a later message could be about, or would have to wait for."""
        return self.at is None and not self.muted

    @property
    def worst(self) -> Severity | None:
        """The worst that is told, or was when the spell ended; None: nothing was told."""
        return max((one.severity for one in self.firing.values()), key=lambda one: one.rank, default=self.ended)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A firing incident, as the decision sees it."""

    incident_id: str
    severity: Severity
    opened_at: datetime
    muted: MuteReason | None = None  # it starts no message


NOTHING_TOLD = Told()
_NEWS = frozenset({NotificationReason.NEW_FIRING, NotificationReason.RESOLVED, NotificationReason.ALL_RESOLVED})


def decide_in_time(interval: Interval, told: Told, firing: Sequence[Candidate], timing: Timing) -> Decision:
    """Decide whether a receiver hears of its firing incidents (worst first) in this interval, and why or why not.

    What was told and fires no more counts as resolved, whether or not anything mutes it.
    """
    audible = [one for one in firing if one.muted is None]
    new = [one for one in audible if one.incident_id not in told.firing]
    worse = [one for one in audible if _is_worse(one, told)]
    known = {one.incident_id for one in firing} & told.firing.keys()
    decision = decide(
        now=interval.start + timedelta.resolution,  # `decide` wants more than the span, and exactly the span is enough
        last_sent=_last_sent(told),
        firing={*known, *(one.incident_id for one in new), *(f"{one.incident_id} worse" for one in worse)},
        resolved=told.firing.keys() - known,
        repeat_interval_ms=timing.repeat_interval_ms,
        send_resolved=timing.send_resolved,
    )
    reason = _in_time(decision.reason, interval, told, firing, timing)
    return Decision(reason.is_sent, reason)


def _in_time(
    reason: NotificationReason, interval: Interval, told: Told, firing: Sequence[Candidate], timing: Timing
) -> NotificationReason:
    audible = [one for one in firing if one.muted is None]
    if reason is NotificationReason.FIRST:
        oldest = min(one.opened_at for one in audible if one.incident_id not in told.firing)
        if not _passed(oldest, interval, timing.group_wait_ms):
            reason = NotificationReason.GROUP_WAIT
        elif _is_too_young(told, interval, timing) and not _raises_severity(audible, told):
            reason = NotificationReason.GROUP_INTERVAL
    elif reason is NotificationReason.NEW_FIRING and _raises_severity(audible, told):
        reason = NotificationReason.WORSE
    elif reason is NotificationReason.ALL_RESOLVED and not timing.send_resolved:
        reason = NotificationReason.RESOLVED_UNWANTED
    elif reason in _NEWS:
        if _is_too_young(told, interval, timing):
            reason = NotificationReason.GROUP_INTERVAL
    elif not audible and firing:  # nothing new, or a repeat: the worst incident's mute says why
        reason = next(NotificationReason(one.muted.value) for one in firing if one.muted is not None)
    return reason


def after_silence(interval: Interval, told: Told, timing: Timing, reason: NotificationReason) -> Told:
    """Return what is still to be known of what was told, after an interval in which nothing was sent for `reason`.

    The last message of a spell is remembered until the group interval has passed, so that trouble which comes and goes
    is not told more often than that.
    """
    if reason is NotificationReason.RESOLVED_UNWANTED:
        told = Told(at=told.at, thread_key=told.thread_key, muted=told.muted, ended=told.worst)
    if not told.firing and not _is_too_young(told, interval, timing):
        return Told(muted=told.muted)
    return told


def _last_sent(told: Told) -> LastSent | None:
    return None if told.at is None else LastSent(told.at, frozenset(told.firing), frozenset())


def _is_worse(one: Candidate, told: Told) -> bool:
    known = told.firing.get(one.incident_id)
    return known is not None and one.severity.rank > known.severity.rank


def _raises_severity(audible: Sequence[Candidate], told: Told) -> bool:
    """Whether an incident got worse than it was told, or a new one is worse than all that were told."""
    worst = -1 if told.worst is None else told.worst.rank
    return any(
        _is_worse(one, told) or (one.incident_id not in told.firing and one.severity.rank > worst) for one in audible
    )


def _is_too_young(told: Told, interval: Interval, timing: Timing) -> bool:
    """Whether the last message is too young for the next one with news."""
    return told.at is not None and not _passed(told.at, interval, timing.group_interval_ms)


def _passed(since: datetime, interval: Interval, span_ms: int) -> bool:
    return interval.start - since >= timedelta(milliseconds=span_ms)
