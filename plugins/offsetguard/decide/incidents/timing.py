"""Whether and when a receiver is notified of a group of incidents, and who else if nobody acknowledges. Pure.

Source: prometheus/alertmanager, notify/dedup_stage.go, `needsUpdate` (0.34).

Time is the start of the judged interval, so that the same intervals always give the same messages, however late or
unevenly they are judged. A span has passed in the first interval that begins so long after another as it is long.

group_wait      from the opening of the oldest incident that nothing mutes to the first message of a spell
group_interval  from any message to the next one with anything new: new incidents, resolved ones, a new spell after the
                end of all. What is worse than all that the receiver knows does not wait
repeat_interval from any message to one with nothing new; exactly, whatever group_interval is

Escalation: who else is notified of an incident that nobody acknowledges.

A step leads from a team to the one of its route's `escalate_to`. It is due after so many repeats, or so long after the
first notification of the incident, as the route says; whichever comes first. Steps of a chain follow each other, and
each counts from when the team that it leads from was first notified. Each step is taken once and never taken back.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.config.routes import Route
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import MuteReason, Notified
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import NotificationReason


@dataclass(frozen=True, slots=True)
class LastSent:
    """What the newest message about the same group of incidents said."""

    at: datetime
    firing: frozenset[str]
    resolved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to send, and why or why not."""

    send: bool
    reason: NotificationReason


def decide(
    *,
    now: datetime,
    last_sent: LastSent | None,
    firing: AbstractSet[str],
    resolved: AbstractSet[str],
    repeat_interval_ms: int,
    send_resolved: bool,
) -> Decision:
    """Compare what fires and what has resolved with what was last sent.

    ALL_RESOLVED is decided even without `send_resolved`, as in Alertmanager: the spell is over, and the caller keeps
    silent about it.
    """
    if last_sent is None:
        reason = NotificationReason.FIRST if firing else NotificationReason.NOTHING_FIRING
    elif not firing <= last_sent.firing:
        reason = NotificationReason.NEW_FIRING if last_sent.firing else NotificationReason.FIRST
    elif not firing:
        reason = NotificationReason.ALL_RESOLVED if last_sent.firing else NotificationReason.NOTHING_FIRING
    elif send_resolved and not resolved <= last_sent.resolved:
        reason = NotificationReason.RESOLVED
    elif now - last_sent.at > timedelta(milliseconds=repeat_interval_ms):
        reason = NotificationReason.REPEAT
    else:
        reason = NotificationReason.NOTHING_NEW
    return Decision(reason.is_sent, reason)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A firing incident, as the decision sees it."""

    incident_id: str
    severity: Severity
    opened_at: datetime
    muted: MuteReason | None = None  # it starts no message
    stage: int = 0  # how far its trouble has come


NEVER_NOTIFIED = Notified()
_CHANGES = frozenset({NotificationReason.NEW_FIRING, NotificationReason.RESOLVED, NotificationReason.ALL_RESOLVED})


def decide_in_time(interval: Interval, last: Notified, firing: Sequence[Candidate], route: Route) -> Decision:
    """Decide whether a receiver is notified of its firing incidents (worst first) in this interval, and why or why not.

    What the receiver knows of and fires no more counts as resolved, whether or not anything mutes it.
    """
    audible = [one for one in firing if one.muted is None]
    new = [one for one in audible if one.incident_id not in last.firing]
    worse = [one for one in audible if _is_worse(one, last)]
    known = {one.incident_id for one in firing} & last.firing.keys()
    decision = decide(
        now=interval.start + timedelta.resolution,  # `decide` wants more than the span, and exactly the span is enough
        last_sent=_last_sent(last),
        firing={*known, *(one.incident_id for one in new), *(f"{one.incident_id} worse" for one in worse)},
        resolved=last.firing.keys() - known,
        repeat_interval_ms=route.repeat_interval_ms,
        send_resolved=route.send_resolved,
    )
    reason = _in_time(decision.reason, interval, last, firing, route)
    return Decision(reason.is_sent, reason)


def _in_time(
    reason: NotificationReason, interval: Interval, last: Notified, firing: Sequence[Candidate], route: Route
) -> NotificationReason:
    audible = [one for one in firing if one.muted is None]
    if reason is NotificationReason.FIRST:
        oldest = min(one.opened_at for one in audible if one.incident_id not in last.firing)
        if not _passed(oldest, interval, route.group_wait_ms):
            reason = NotificationReason.GROUP_WAIT
        elif _is_too_young(last, interval, route) and not _raises_severity(audible, last):
            reason = NotificationReason.GROUP_INTERVAL
    elif reason is NotificationReason.NEW_FIRING and _raises_severity(audible, last):
        reason = NotificationReason.WORSE
    elif reason is NotificationReason.ALL_RESOLVED and not route.send_resolved:
        reason = NotificationReason.RESOLVED_UNWANTED
    elif reason in _CHANGES:
        if _is_too_young(last, interval, route):
            reason = NotificationReason.GROUP_INTERVAL
    elif not audible and firing:  # nothing new, or a repeat: the worst incident's mute says why
        reason = next(NotificationReason(one.muted.value) for one in firing if one.muted is not None)
    return reason


def after_silence(interval: Interval, last: Notified, route: Route, reason: NotificationReason) -> Notified:
    """Return what is still to be known of the last notification, after an interval without a message.

    The last message of a spell is remembered until the group interval has passed, so that trouble which comes and goes
    gives no more messages than that.
    """
    if reason is NotificationReason.RESOLVED_UNWANTED:
        last = Notified(at=last.at, thread_key=last.thread_key, muted=last.muted, ended=last.worst)
    if not last.firing and not _is_too_young(last, interval, route):
        return Notified(muted=last.muted)
    return last


def _last_sent(last: Notified) -> LastSent | None:
    return None if last.at is None else LastSent(last.at, frozenset(last.firing), frozenset())


def _is_worse(one: Candidate, last: Notified) -> bool:
    known = last.firing.get(one.incident_id)
    return known is not None and known.is_less_than(one.severity, one.stage)


def _raises_severity(audible: Sequence[Candidate], last: Notified) -> bool:
    """Whether an incident is worse than last notified, or a new one is worse than all that the receiver knows."""
    worst = -1 if last.worst is None else last.worst.rank
    return any(
        _is_worse(one, last) or (one.incident_id not in last.firing and one.severity.rank > worst) for one in audible
    )


def _is_too_young(last: Notified, interval: Interval, route: Route) -> bool:
    """Whether the last message is too young for the next one with anything new."""
    return last.at is not None and not _passed(last.at, interval, route.group_interval_ms)


def _passed(since: datetime, interval: Interval, span_ms: int) -> bool:
    return interval.start - since >= timedelta(milliseconds=span_ms)


@dataclass(frozen=True, slots=True)
class Step:
    """One level: the team that is notified, too, and when, counted from the first notification of `from_team`."""

    team: str
    from_team: str
    after_repeats: int | None
    after_ms: int | None


def steps(team: str, route_of: Callable[[str], Route]) -> tuple[Step, ...]:
    """Return the chain that begins at a team; it ends where no route leads on, or would lead back."""
    found: list[Step] = []
    seen = {team}
    while True:
        route = route_of(team)
        following, repeats, wait_ms = route.escalate_to, route.escalate_after_repeats, route.escalate_after_ms
        if following is None or following in seen or (repeats is None and wait_ms is None):
            return tuple(found)
        found.append(Step(following, team, repeats, wait_ms))
        seen.add(following)
        team = following


def level_due(
    chain: tuple[Step, ...], *, level: int, repeats: int, first_notified_at: datetime, interval: Interval
) -> int:
    """Return the level that an unacknowledged incident has now: at least `level`, at most one more.

    `repeats`, `first_notified_at`: how often the team that the next step leads from got a repeat, and since when it
    knows.
    """
    if level >= len(chain):
        return level
    step = chain[level]
    often = step.after_repeats is not None and repeats >= step.after_repeats
    long = step.after_ms is not None and interval.start - first_notified_at >= timedelta(milliseconds=step.after_ms)
    return level + 1 if often or long else level
