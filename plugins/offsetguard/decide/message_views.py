"""One receiver's notification of one interval, as a view: what fires, what ended and how, what it mutes.

Figures are formatted, evidence is capped, the worst stands first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.orm import Session

from offsetguard.catalogue import Catalogue, Sentence, catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.config import Config
from offsetguard.config.routes import Route
from offsetguard.decide.audience import Audience, Routed
from offsetguard.decide.outlooks import Outlooks
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.judge.registry import rule_title
from offsetguard.model.incident import Incident, worst_first
from offsetguard.model.notification import Acknowledgement, GroupKey, Mute, MuteReason, NotifiedIncident
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import (
    ACKNOWLEDGE,
    SILENCE,
    FigureView,
    IncidentView,
    MessageView,
    News,
    NotificationReason,
    QueueView,
    data_docs_url,
    group_url,
    incident_url,
)
from offsetguard.store import incidents as incident_store

QUEUES_SHOWN = 20
DETAILED_INCIDENTS = 50  # further ones are listed without their queues: 5,000 groups must not give 30 MB of mail
INCIDENTS_KEPT = 200  # further ones are only counted
PICTURED_INCIDENTS = 3  # with the curve of their lag, and forecasts


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """What a message says beside what it is about; everything has a default."""

    language: str = "en"
    time_zone: str = "UTC"
    outlooks: Outlooks | None = None  # None: no curves and no forecasts
    muted: Mapping[str, int] = field(default_factory=dict)  # firing incident id -> incidents that it mutes
    muted_when_resolved: Mapping[str, str] = field(default_factory=dict)  # resolved incident id -> what muted it then
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)  # by incident id
    news: Mapping[str, News] = field(default_factory=dict)  # by incident id
    goes_on_count: int = 0  # what its reader knows of, and is muted
    repeat_count: int = 0
    escalated_from: str | None = None
    late: bool = False


def message_view(
    key: GroupKey,
    *,
    firing: Sequence[Incident],
    resolved: Sequence[tuple[Incident, str | None]],
    reason: NotificationReason,
    interval_start: datetime,
    thread_key: str,
    config: Config,
    context: MessageContext,
) -> MessageView:
    """Return what one message says; `firing`: worst first; `resolved` comes with how each ended."""
    page_url = config.delivery.page_url
    locale = Locale.of(context.language, context.time_zone)
    one_of = _IncidentWriter(context, config, catalogue(locale))
    listed = firing or [one for one, _ in resolved]
    worst = min(listed, key=worst_first, default=None)  # None: housekeeping removed what ended
    groups = {one.subject.consumer_group for one in listed} - {None}
    return MessageView(
        team=key.team,
        cluster=key.cluster,
        rule_id=key.rule_id if worst is None else worst.shown_by,
        severity=(Severity.INFO if worst is None else worst.evidence.severity).value,
        title=_title(listed, key, locale),
        reason=reason,
        interval_start=interval_start,
        thread_key=thread_key,
        firing=tuple(one_of.incident(one, place=n) for n, one in enumerate(firing[:INCIDENTS_KEPT])),
        resolved=tuple(
            one_of.incident(one, place=n, ended=how or "") for n, (one, how) in enumerate(resolved[:INCIDENTS_KEPT])
        ),
        page_url=page_url,
        data_docs_url=None if page_url is None else data_docs_url(page_url, key.cluster),
        language=context.language,
        time_zone=context.time_zone,
        hidden_firing=max(0, len(firing) - INCIDENTS_KEPT),
        hidden_resolved=max(0, len(resolved) - INCIDENTS_KEPT),
        group_count=len(groups),
        muted_count=sum(context.muted.values()),
        goes_on_count=context.goes_on_count,
        repeat_count=context.repeat_count,
        escalated_from=context.escalated_from,
        late=context.late,
    )


@dataclass(frozen=True, slots=True)
class _IncidentWriter:
    """Writes incidents as one message shows them."""

    context: MessageContext
    config: Config
    words: Catalogue

    def incident(self, incident: Incident, *, place: int, ended: str | None = None) -> IncidentView:
        """`place`: in the message, from 0; `ended`: how, where it is over for its readers; may be empty."""
        evidence, subject, context = incident.evidence, incident.subject, self.context
        detailed = place < DETAILED_INCIDENTS
        outlooks = context.outlooks if ended is None and place < PICTURED_INCIDENTS else None
        said = IncidentWords(incident, self.words.locale)
        resolution = said.resolution or (ended and self.words.read(ended))
        acknowledged = context.acknowledged.get(incident.incident_id)
        page_url = self.config.delivery.page_url
        page = None if page_url is None else incident_url(page_url, incident.incident_id)
        group = subject.consumer_group
        about = group, subject.topic
        return IncidentView(
            incident_id=incident.incident_id,
            consumer_group=group,
            topic=subject.topic,
            severity=evidence.severity.value,
            news=context.news.get(incident.incident_id),
            state=incident.state,
            title=rule_title(incident.shown_by, self.words.locale.language),
            summary=said.summary,
            cause=said.cause,
            do_next=said.do_next,
            commands=said.commands,
            audited=evidence.audited,
            began_at=said.began_at,
            opened_at=incident.first_seen_at,
            last_seen_at=incident.newest_seen_at,
            resolved_at=incident.ended_at or (incident.newest_seen_at if resolution else None),
            resolution=resolution or None,
            seen_count=incident.seen_count,
            peak=said.peak,
            figures=said.figures(),
            queues=_as_lines(said.queues(QUEUES_SHOWN)) if detailed else (),
            changes=tuple(said.changes()) if detailed else (),
            queue_count=evidence.queue_count,
            stacks=tuple(said.stacks()) if detailed else (),
            explains=tuple(said.explains()) if detailed else (),
            explained_count=evidence.explained_count,
            cannot_tell=tuple(said.cannot_tell()) if detailed else (),
            cannot_tell_count=evidence.cannot_tell_count,
            lag_curve=outlooks.lag_curve(subject, evidence) if outlooks else (),
            drain_ms=outlooks.drain_ms(*about) if outlooks and "drain_low_ms" not in evidence.figures else None,
            loss_ms=outlooks.loss_ms(*about) if outlooks and "loss_low_ms" not in evidence.figures else None,
            muted_count=context.muted.get(incident.incident_id, 0),
            muted_when_resolved=self.words.read(context.muted_when_resolved.get(incident.incident_id, "")) or None,
            acknowledged_at=acknowledged.at if acknowledged else None,
            acknowledged_by=acknowledged.author if acknowledged else None,
            acknowledgement=(acknowledged.comment or None) if acknowledged else None,
            incident_url=page,
            group_url=page_url and group and group_url(page_url, subject.cluster, group),
            acknowledge_url=page and f"{page}#{ACKNOWLEDGE}",
            silence_url=page and f"{page}#{SILENCE}",
            console_url=self.config.delivery.console_address(subject.cluster, group, subject.topic),
        )


def _as_lines(queues: Iterable[QueueView]) -> tuple[QueueView, ...]:
    """Return one for all of a topic that have equal figures."""
    alike: dict[tuple[str, tuple[FigureView, ...]], list[QueueView]] = {}
    for one in queues:
        alike.setdefault((one.topic, one.figures), []).append(one)
    return tuple(some[0].model_copy(update={"alike_count": len(some) - 1}) for some in alike.values())


def _title(incidents: Sequence[Incident], key: GroupKey, locale: Locale) -> str:
    """Return what is wrong, by the rules in whose words they stand now: they were grouped by those that opened them."""
    rules = [one.shown_by for one in sorted(incidents, key=worst_first)] or [key.rule_id]
    title = rule_title(rules[0], locale.language)
    return title if len(set(rules)) == 1 else catalogue(locale).say("title_of_several", title=title)


@dataclass(frozen=True, slots=True)
class Notification:
    """What a message is made of."""

    group: GroupKey
    reason: NotificationReason
    thread_key: str
    repeat_count: int
    route: Route
    shown: Sequence[Routed]  # what fires and nothing mutes, worst first
    news: Mapping[str, News]  # by the id of what is shown
    goes_on: Mapping[str, NotifiedIncident]  # by id: what the receiver knows of, fires, and is muted
    gone: Sequence[str]  # ids of what the receiver knows of and fires no more for it

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for notifications that read the same in one interval."""
        shown = ((one.incident.incident_id, one.escalated_from) for one in self.shown)
        news = frozenset(self.news.items())
        same = (self.group, self.reason, self.thread_key, self.repeat_count, self.route, len(self.goes_on), news)
        return (*same, *shown, *self.gone)


class KnownIncidents:
    """Incidents by id: those of the interval, and of the database whatever is asked for besides."""

    def __init__(self, session: Session, of_the_interval: Iterable[Incident]) -> None:
        """`of_the_interval`: as they will be written."""
        self._session = session
        self._known = {one.incident_id: one for one in of_the_interval}

    def by_id(self, incident_ids: Sequence[str]) -> Mapping[str, Incident]:
        """Return at least the given ones that are still kept."""
        missing = [one for one in incident_ids if one not in self._known]
        self._known.update(incident_store.by_id(self._session, missing))
        return self._known


class Writer:
    """Writes the views of one interval; receivers of one team mostly read the same one."""

    def __init__(self, audience: Audience, incidents: KnownIncidents) -> None:
        """`incidents`: for what ended."""
        self._audience = audience
        self._incidents = incidents
        self._written: dict[tuple[object, ...], MessageView] = {}

    def view(self, notification: Notification, *, outlooks: Outlooks | None, late: bool) -> MessageView:
        """Return what the message says."""
        if notification.key not in self._written:
            self._written[notification.key] = self._write(notification, outlooks, late=late)
        return self._written[notification.key]

    def _write(self, notification: Notification, outlooks: Outlooks | None, *, late: bool) -> MessageView:
        endings = list(self._endings(notification))
        return message_view(
            notification.group,
            firing=[one.incident for one in notification.shown],
            resolved=endings,
            reason=notification.reason,
            interval_start=self._audience.given.interval.start,
            thread_key=notification.thread_key,
            config=self._audience.config,
            context=self._context(notification, [one for one, _ in endings], outlooks, late=late),
        )

    def _context(
        self, notification: Notification, ended: Sequence[Incident], outlooks: Outlooks | None, *, late: bool
    ) -> MessageContext:
        ids = [one.incident.incident_id for one in notification.shown]
        muted_by, acknowledged = self._audience.muted_by, self._audience.given.acknowledged
        mutes = {one.incident_id: self._audience.mute_of(one, notification.route) for one in ended if one.is_over}
        from_teams = {one.escalated_from for one in notification.shown}
        return MessageContext(
            language=notification.route.language.value,
            time_zone=notification.route.time_zone,
            outlooks=outlooks,
            muted={one: muted_by[one] for one in ids if one in muted_by},
            muted_when_resolved={
                one: self._mute_text(mute, notification.route) for one, mute in mutes.items() if mute is not None
            },
            acknowledged={one: acknowledged[one] for one in ids if one in acknowledged},
            news=notification.news,
            goes_on_count=len(notification.goes_on),
            repeat_count=notification.repeat_count,
            escalated_from=from_teams.pop() if len(from_teams) == 1 else None,
            late=late,
        )

    def _mute_text(self, mute: Mute, route: Route) -> str:
        """Return what mutes: of trouble above it the summary, in the reader's language."""
        above = self._incidents.by_id([mute.by]).get(mute.by) if mute.reason is MuteReason.INHIBITION else None
        return mute.text if above is None else IncidentWords(above, _locale(route)).summary

    def _endings(self, notification: Notification) -> Iterator[tuple[Incident, str | None]]:
        """Give each incident that this receiver knows of and that fires no more for it, with how it ended for it."""
        found = self._incidents.by_id(notification.gone)
        for incident_id in notification.gone:
            incident = found.get(incident_id)
            if incident is not None:  # None: housekeeping removed it
                yield incident, None if incident.is_over else self._still_open(incident, notification)

    def _still_open(self, incident: Incident, notification: Notification) -> str:
        """Say why a receiver is notified no more of an incident that goes on."""
        team = self._audience.team_of(incident)
        return Sentence("handed_over", team=team) if team != notification.group.team else Sentence("told_to_others")


def _locale(route: Route) -> Locale:
    return Locale.of(route.language, route.time_zone)
