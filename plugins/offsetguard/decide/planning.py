"""Which messages an interval gives: per (team, cluster, rule) and receiver the decision, and what follows from it.

What each receiver was last notified of stands in the table `last_notifications`. Incidents of severity INFO are history
only: nobody is notified; who knows of one from when it was worse is notified of its end. One that goes to others now
counts as resolved. A message shows what fires and nothing mutes, and marks what is new in it. What is muted (what
somebody acknowledged, say) takes no part: where its receiver knows of it, it is counted, and its end is told.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.orm import Session

from offsetguard.config import Config
from offsetguard.config.routes import Route
from offsetguard.decide.audience import Audience, Circumstances, Routed
from offsetguard.decide.incidents import timing
from offsetguard.decide.message_views import KnownIncidents, Notification, Writer
from offsetguard.decide.outlooks import Outlooks
from offsetguard.model.digest import digest
from offsetguard.model.incident import Incident, IncidentEvent, digest_of
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import (
    DECLARED,
    RECEIVER_LISTS,
    Channel,
    GroupKey,
    NotificationKey,
    Notified,
    NotifiedIncident,
    Receiver,
)
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import DigestView, MessageView, News, NotificationReason
from offsetguard.store import notifications, silences

_MAY_BE_ESCALATIONS = frozenset(
    {NotificationReason.FIRST, NotificationReason.NEW_FIRING, NotificationReason.WORSE, NotificationReason.GROUP_WAIT}
)


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """One message to one receiver."""

    idempotency_key: str
    channel: Channel
    receiver: str
    view: MessageView | DigestView


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What was decided about the incidents of one (team, cluster, rule) for one receiver, and why."""

    key: NotificationKey
    decision: timing.Decision
    notification: Notification | None = None  # None: nothing is sent
    muted_count: int = 0  # firing incidents that start no message for this receiver


@dataclass(frozen=True, slots=True)
class Plan:
    """What an interval gives; nothing of it is written yet."""

    decisions: tuple[GroupDecision, ...] = ()
    messages: tuple[PlannedMessage, ...] = ()  # a digest stands for the mails that it is made of
    notified: Mapping[NotificationKey, Notified] = field(default_factory=dict)  # what changes
    escalated: tuple[Incident, ...] = ()  # with their new levels
    history: tuple[IncidentEvent, ...] = ()  # muted, muted no more, escalated


def plan(
    session: Session,
    cluster: str,
    interval: Interval,
    *,
    open_incidents: Iterable[Incident],
    resolved: Iterable[Incident],
    config: Config,
    now: datetime,
    outlooks: Outlooks,
    late: bool,
) -> Plan:
    """Decide for every receiver that something fires for, or that was notified of something; reads only.

    `open_incidents`: all of the cluster, without pending ones. `resolved`: those of this interval, which the database
    may not know yet. `late`: the messages are marked as being about the past.
    """
    all_open = tuple(open_incidents)
    given = Circumstances(
        interval=interval,
        now=now,
        silences=silences.active(session, now),
        acknowledged=silences.acknowledgements_of(session, {one.incident_id for one in all_open}),
        notified=notifications.of_cluster(session, cluster),
    )
    audience = Audience(config, given, all_open)
    incidents = KnownIncidents(session, (*all_open, *resolved))
    planner = _Planner(audience, incidents)
    decisions = tuple(planner.decide(key) for key in sorted({*audience.routed, *given.notified}))
    writer = Writer(audience, incidents)
    sent = [(one.key, one.notification) for one in decisions if one.notification is not None]
    views = [
        (key, one, _mentioning(writer.view(one, outlooks=outlooks, late=late), key, one.route, config))
        for key, one in sent
    ]
    return Plan(
        decisions,
        tuple(_messages(views, interval)),
        {key: now for key, now in planner.notified.items() if now != given.notified.get(key, timing.NEVER_NOTIFIED)},
        tuple(audience.escalated),
        tuple(audience.history),
    )


class _Planner:
    """Decides for one receiver after the other, and notes what each then knows."""

    def __init__(self, audience: Audience, incidents: KnownIncidents) -> None:
        self._given = audience.given
        self._audience = audience
        self._incidents = incidents
        self._receivers = _receivers(audience.config)
        self.notified: dict[NotificationKey, Notified] = {}  # after this interval

    def decide(self, key: NotificationKey) -> GroupDecision:
        routed = self._audience.routed.get(key, [])
        last = self._given.notified.get(key, timing.NEVER_NOTIFIED)
        if not routed and (key.channel, key.receiver) not in self._receivers:
            self.notified[key] = timing.NEVER_NOTIFIED
            return GroupDecision(key, timing.Decision(send=False, reason=NotificationReason.RECEIVER_REMOVED))
        route = routed[0].route if routed else self._route_of_last(key, last)
        muted = {one.incident.incident_id: one.mute.reason for one in routed if one.mute is not None}
        decision = self._decision(last, routed, route)
        if not decision.send:
            kept = replace(last, muted=muted)
            self.notified[key] = timing.after_silence(self._given.interval, kept, route, decision.reason)
            return GroupDecision(key, decision, muted_count=len(muted))
        notification = self._notification(key.group, decision.reason, last, routed, route)
        firing = {**notification.goes_on, **dict(self._shown(notification, last))}
        self.notified[key] = Notified(
            at=self._given.interval.start,
            thread_key=notification.thread_key,
            firing=firing,
            muted=muted,
            repeat_count=notification.repeat_count,
            ended=None if firing else last.worst,
        )
        return GroupDecision(key, decision, notification, len(muted))

    def _decision(self, last: Notified, routed: Sequence[Routed], route: Route) -> timing.Decision:
        candidates = [
            timing.Candidate(
                one.incident.incident_id,
                one.incident.evidence.severity,
                one.incident.opened_at,
                one.mute.reason if one.mute else None,
                one.incident.evidence.stage,
            )
            for one in routed
        ]
        decision = timing.decide_in_time(self._given.interval, last, candidates, route)
        new = [one for one in routed if one.mute is None and one.incident.incident_id not in last.firing]
        if decision.reason in _MAY_BE_ESCALATIONS and new and all(one.escalated_from is not None for one in new):
            return timing.Decision(send=True, reason=NotificationReason.ESCALATED)
        return decision

    def _route_of_last(self, key: NotificationKey, last: Notified) -> Route:
        """Return the route by which the receiver knows of the worst incident, where none of them fires any more."""
        worst = min(last.firing, key=lambda one: (-last.firing[one].severity.rank, one), default=None)
        incident = None if worst is None else self._incidents.by_id([worst]).get(worst)
        group = key.group

        def route_of(team: str) -> Route:
            return self._audience.config.route(
                team,
                group.cluster,
                rule_id=group.rule_id,
                severity=last.worst or Severity.CRITICAL,
                consumer_group=None if incident is None else incident.subject.consumer_group,
            )

        routes = [route_of(group.team), *(route_of(step.team) for step in timing.steps(group.team, route_of))]
        return next((one for one in routes if (key.channel, key.receiver) in one.receivers), routes[0])

    def _notification(
        self, group: GroupKey, reason: NotificationReason, last: Notified, routed: Sequence[Routed], route: Route
    ) -> Notification:
        shown = [one for one in routed if one.mute is None]
        firing_ids = {one.incident.incident_id for one in routed}
        spell = last.firing.keys() if route.send_resolved else last.firing.keys() & firing_ids
        return Notification(
            group,
            reason,
            # a thread lasts as long as its spell: a resolve notice ends it, or silence where none is wanted
            last.thread_key if spell else _thread_key(group, self._given.interval),
            last.repeat_count + 1 if reason is NotificationReason.REPEAT else 0,
            route,
            shown,
            _news(shown, last),
            {
                one.incident.incident_id: known
                for one in routed
                if one.mute is not None and (known := last.firing.get(one.incident.incident_id)) is not None
            },
            sorted(last.firing.keys() - firing_ids) if route.send_resolved else (),
        )

    def _shown(self, notification: Notification, last: Notified) -> Iterator[tuple[str, NotifiedIncident]]:
        """Give what the receiver knows of each incident that the message shows, by its id."""
        now, repeated = self._given.now, notification.reason is NotificationReason.REPEAT
        for routed in notification.shown:
            incident_id, evidence = routed.incident.incident_id, routed.incident.evidence
            severity, stage = evidence.severity, evidence.stage
            known = last.firing.get(incident_id)
            if known is None:
                yield incident_id, NotifiedIncident(severity, self._given.interval.start, now, stage=stage)
                continue
            yield (
                incident_id,
                NotifiedIncident(
                    severity,
                    known.first_notified_at,
                    now if known.is_less_than(severity, stage) else known.severity_notified_at,
                    known.repeats + 1 if repeated else known.repeats,
                    stage,
                ),
            )


def _news(shown: Sequence[Routed], last: Notified) -> dict[str, News]:
    """Return what is new of the incidents that a message shows: nothing where all of it is."""
    known = {one.incident.incident_id: last.firing.get(one.incident.incident_id) for one in shown}
    news = {}
    for one in shown:
        before = known[one.incident.incident_id]
        if before is None and any(known.values()):
            news[one.incident.incident_id] = News.NEW
        elif before is not None and before.is_less_than(one.incident.evidence.severity, one.incident.evidence.stage):
            news[one.incident.incident_id] = News.WORSE
    return news


_Written = tuple[NotificationKey, Notification, MessageView]


def _messages(views: Sequence[_Written], interval: Interval) -> Iterator[PlannedMessage]:
    """Give the messages; a digest for each team of which a receiver that takes one would get too many."""
    together: defaultdict[tuple[Receiver, str, str, str], list[_Written]] = defaultdict(list)
    for key, notification, view in views:
        if DECLARED[key.channel].digests:
            reader = (key.channel, key.receiver)
            together[reader, key.group.team, view.language, view.time_zone].append((key, notification, view))
    for (receiver, *_), found in together.items():
        messages = [_message(key, view, interval) for key, _, view in found]
        if len(found) <= min(notification.route.digest_above for _, notification, _ in found):
            yield from messages
        else:
            yield _digest_of(receiver, messages, [view for *_, view in found])
    yield from (_message(key, view, interval) for key, _, view in views if not DECLARED[key.channel].digests)


def _mentioning(view: MessageView, key: NotificationKey, route: Route, config: Config) -> MessageView:
    """Return a view with those whom the channel calls for the team that it reaches."""
    channel = DECLARED[key.channel]
    called = getattr(config.teams.get(route.heard_by), channel.mentions_list, ())
    return view.model_copy(update={"mentions": tuple(called)}) if called else view


def _digest_of(receiver: Receiver, messages: Sequence[PlannedMessage], views: Sequence[MessageView]) -> PlannedMessage:
    key = digest_of("digest", *(message.idempotency_key for message in messages))
    return PlannedMessage(key, *receiver, digest(views, thread_key=key[:32]))


def _message(key: NotificationKey, view: MessageView, interval: Interval) -> PlannedMessage:
    content = (
        *(f"firing {one.incident_id} {one.severity}" for one in view.firing),
        *(f"resolved {one.incident_id}" for one in view.resolved),
    )
    parts = (view.thread_key, interval.name, view.reason.value, key.channel, key.receiver, *content)
    return PlannedMessage(digest_of(*parts), key.channel, key.receiver, view)


def _receivers(config: Config) -> set[Receiver]:
    """Return everybody whom the configuration names."""
    named = {
        (channel, name)
        for section in (*config.teams.values(), *config.routes)
        for field_name, channel in RECEIVER_LISTS.items()
        for name in getattr(section, field_name) or ()
    }
    return named.union(config.delivery.receivers)


def _thread_key(group: GroupKey, interval: Interval) -> str:
    return digest_of(group.team, group.cluster, group.rule_id, interval.name)[:32]
