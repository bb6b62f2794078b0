"""Which messages an interval gives: per (team, cluster, rule) and receiver the decision, and what follows from it.

What was last told stands in the table `told`. Incidents of severity INFO are history only: nobody is told, and one that
was told while it was worse counts as resolved; so does one that others hear of now. A message shows everything that
fires and was told, muted or not, and what is new; what is muted and was never told is only counted where it is muted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.orm import Session

from offsetguard.config import Config
from offsetguard.config.routes import RECEIVER_LISTS, Route
from offsetguard.decide.audience import Audience, Circumstances, Heard
from offsetguard.decide.incidents.timing import (
    NOTHING_TOLD,
    Candidate,
    Decision,
    Timing,
    after_silence,
    decide_in_time,
    steps,
)
from offsetguard.decide.message_views import digest
from offsetguard.decide.news import KnownIncidents, News, Writer
from offsetguard.decide.outlooks import Outlooks
from offsetguard.model.digests import digest_of
from offsetguard.model.incident import Incident, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.model.told import Channel, GroupKey, Receiver, Told, ToldIncident, ToldKey
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import DigestView, MessageView, NotificationReason
from offsetguard.store import acknowledgements, silences
from offsetguard.store import told as told_store

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

    key: ToldKey
    decision: Decision
    news: News | None = None  # None: nothing is sent
    muted_count: int = 0  # firing incidents that start no message for this receiver


@dataclass(frozen=True, slots=True)
class Plan:
    """What an interval gives; nothing of it is written yet."""

    decisions: tuple[GroupDecision, ...] = ()
    messages: tuple[PlannedMessage, ...] = ()  # a digest stands for the mails that it is made of
    told: Mapping[ToldKey, Told] = field(default_factory=dict)  # what changes
    escalated: tuple[Incident, ...] = ()  # with their new levels
    history: tuple[IncidentEvent, ...] = ()  # muted, heard again, escalated


def plan(
    session: Session,
    cluster: str,
    interval: Interval,
    *,
    open_incidents: Iterable[Incident],
    resolved: Iterable[Incident],
    config: Config,
    now: datetime,
    outlooks: Outlooks | None = None,
    late: bool = False,
) -> Plan:
    """Decide for every receiver that something fires for, or that was told of something; reads only.

    `open_incidents`: all of the cluster, without pending ones. `resolved`: those of this interval, which the database
    may not know yet. `late`: the messages are marked as being about the past.
    """
    all_open = tuple(open_incidents)
    given = Circumstances(
        interval=interval,
        now=now,
        silences=silences.active(session, now),
        acknowledged=acknowledgements.of(session, {one.incident_id for one in all_open}),
        told=told_store.of_cluster(session, cluster),
    )
    audience = Audience(config, given, all_open)
    incidents = KnownIncidents(session, (*all_open, *resolved))
    planner = _Planner(config, given, audience, incidents)
    decisions = tuple(planner.decide(key) for key in sorted({*audience.heard, *given.told}))
    writer = Writer(config, given, audience, incidents)
    sent = [(one.key, one.news) for one in decisions if one.news is not None]
    views = [(key, news, writer.view(news, outlooks=outlooks, late=late)) for key, news in sent]
    return Plan(
        decisions,
        tuple(_messages(views, interval)),
        {key: now_told for key, now_told in planner.told.items() if now_told != given.told.get(key, NOTHING_TOLD)},
        tuple(audience.escalated),
        tuple(audience.history),
    )


class _Planner:
    """Decides for one receiver after the other, and notes what each then knows."""

    def __init__(self, config: Config, given: Circumstances, audience: Audience, incidents: KnownIncidents) -> None:
        self._config = config
        self._given = given
        self._audience = audience
        self._incidents = incidents
        self._receivers = _receivers(config)
        self.told: dict[ToldKey, Told] = {}  # after this interval

    def decide(self, key: ToldKey) -> GroupDecision:
        heard = self._audience.heard.get(key, [])
        told = self._given.told.get(key, NOTHING_TOLD)
        if not heard and (key.channel, key.receiver) not in self._receivers:
            self.told[key] = NOTHING_TOLD
            return GroupDecision(key, Decision(send=False, reason=NotificationReason.RECEIVER_REMOVED))
        route = heard[0].route if heard else self._route_of_told(key, told)
        muted = {one.incident.incident_id: one.mute.reason for one in heard if one.mute is not None}
        timing = _timing(route)
        decision = self._decision(told, heard, timing)
        if not decision.send:
            kept = replace(told, muted=muted)
            self.told[key] = after_silence(self._given.interval, kept, timing, decision.reason)
            return GroupDecision(key, decision, muted_count=len(muted))
        news = self._news(key.group, decision.reason, told, heard, route)
        self.told[key] = Told(
            at=self._given.interval.start,
            thread_key=news.thread_key,
            firing={one.incident.incident_id: self._told_incident(one, told, decision.reason) for one in news.shown},
            muted=muted,
            repeat_count=news.repeat_count,
            ended=None if news.shown else told.worst,
        )
        return GroupDecision(key, decision, news, len(muted))

    def _decision(self, told: Told, heard: Sequence[Heard], timing: Timing) -> Decision:
        candidates = [
            Candidate(
                one.incident.incident_id,
                one.incident.evidence.severity,
                one.incident.opened_at,
                one.mute.reason if one.mute else None,
            )
            for one in heard
        ]
        decision = decide_in_time(self._given.interval, told, candidates, timing)
        new = [one for one in heard if one.mute is None and one.incident.incident_id not in told.firing]
        if decision.reason in _MAY_BE_ESCALATIONS and new and all(one.escalated_from is not None for one in new):
            return Decision(send=True, reason=NotificationReason.ESCALATED)
        return decision

    def _route_of_told(self, key: ToldKey, told: Told) -> Route:
        """Return how the receiver heard of the worst incident that was told, where none of them fires any more."""
        worst = min(told.firing, key=lambda one: (-told.firing[one].severity.rank, one), default=None)
        incident = None if worst is None else self._incidents.by_id([worst]).get(worst)
        group = key.group

        def route_of(team: str) -> Route:
            return self._config.route(
                team,
                group.cluster,
                rule_id=group.rule_id,
                severity=told.worst or Severity.CRITICAL,
                consumer_group=None if incident is None else incident.subject.consumer_group,
            )

        routes = [route_of(group.team), *(route_of(step.team) for step in steps(group.team, route_of))]
        return next((one for one in routes if (key.channel, key.receiver) in one.receivers), routes[0])

    def _news(
        self, group: GroupKey, reason: NotificationReason, told: Told, heard: Sequence[Heard], route: Route
    ) -> News:
        shown = [one for one in heard if one.mute is None or one.incident.incident_id in told.firing]
        firing_ids = {one.incident.incident_id for one in heard}
        goes_on = told.firing.keys() if route.send_resolved else told.firing.keys() & firing_ids
        return News(
            group,
            reason,
            # a thread lasts as long as its spell: a resolve notice ends it, or silence where none is wanted
            told.thread_key if goes_on else _thread_key(group, self._given.interval),
            told.repeat_count + 1 if reason is NotificationReason.REPEAT else 0,
            route,
            shown,
            sorted(told.firing.keys() - firing_ids) if route.send_resolved else (),
        )

    def _told_incident(self, heard: Heard, told: Told, reason: NotificationReason) -> ToldIncident:
        severity, now = heard.incident.evidence.severity, self._given.now
        known = told.firing.get(heard.incident.incident_id)
        if known is None:
            return ToldIncident(severity, self._given.interval.start, now)
        repeated = reason is NotificationReason.REPEAT and heard.mute is None
        return ToldIncident(
            severity,
            known.first_told_at,
            now if severity.rank > known.severity.rank else known.severity_told_at,
            known.repeats + 1 if repeated else known.repeats,
        )


def _timing(route: Route) -> Timing:
    return Timing(
        route.group_wait_ms, route.group_interval_ms, route.repeat_interval_ms, send_resolved=route.send_resolved
    )


def _messages(views: Sequence[tuple[ToldKey, News, MessageView]], interval: Interval) -> Iterator[PlannedMessage]:
    """Give the mails, a digest for each team of which a receiver would get too many, then everything else."""
    mails: defaultdict[tuple[str, str, str, str], list[tuple[ToldKey, News, MessageView]]] = defaultdict(list)
    for key, news, view in views:
        if key.channel is Channel.MAIL:
            mails[key.receiver, key.group.team, view.language, view.time_zone].append((key, news, view))
    for (receiver, *_), found in mails.items():
        messages = [_message(key, view, interval) for key, _, view in found]
        if len(found) <= min(news.route.digest_above for _, news, _ in found):
            yield from messages
        else:
            yield _digest_of(receiver, messages, [view for *_, view in found])
    yield from (_message(key, view, interval) for key, _, view in views if key.channel is not Channel.MAIL)


def _digest_of(receiver: str, messages: Sequence[PlannedMessage], views: Sequence[MessageView]) -> PlannedMessage:
    key = digest_of("digest", *(message.idempotency_key for message in messages))
    return PlannedMessage(key, Channel.MAIL, receiver, digest(views, thread_key=key[:32]))


def _message(key: ToldKey, view: MessageView, interval: Interval) -> PlannedMessage:
    content = (
        *(f"firing {one.incident_id} {one.severity}" for one in view.firing),
        *(f"resolved {one.incident_id}" for one in view.resolved),
    )
    parts = (view.thread_key, interval.name, view.reason.value, key.channel.value, key.receiver, *content)
    return PlannedMessage(digest_of(*parts), key.channel, key.receiver, view)


def _receivers(config: Config) -> set[Receiver]:
    """Return everybody whom the configuration names."""
    return {
        (channel, name)
        for named in (*config.teams.values(), *config.routes)
        for field_name, channel in RECEIVER_LISTS.items()
        for name in getattr(named, field_name) or ()
    }


def _thread_key(group: GroupKey, interval: Interval) -> str:
    return digest_of(group.team, group.cluster, group.rule_id, interval.name)[:32]
