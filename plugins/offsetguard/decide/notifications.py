"""One receiver's notification of one interval, as a view: what fires, what ended and how, what it mutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from offsetguard.catalogue import Sentence, catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.config import Config
from offsetguard.config.routes import Route
from offsetguard.decide.audience import Audience, Circumstances, Routed
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.decide.message_views import MessageContext, message_view
from offsetguard.decide.outlooks import Outlooks
from offsetguard.model.incident import Incident
from offsetguard.model.notification import GroupKey, Mute, MuteReason
from offsetguard.model.views import MessageView, NotificationReason
from offsetguard.store import incidents as incident_store


@dataclass(frozen=True, slots=True)
class Notification:
    """What a message is made of."""

    group: GroupKey
    reason: NotificationReason
    thread_key: str
    repeat_count: int
    route: Route
    shown: Sequence[Routed]  # what fires, worst first
    gone: Sequence[str]  # ids of what the receiver knows of and fires no more for it

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for notifications that read the same in one interval; routes and incidents are compared as objects."""
        shown = ((id(one.incident), one.escalated_from) for one in self.shown)
        return (self.group, self.reason, self.thread_key, self.repeat_count, id(self.route), *shown, *self.gone)


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

    def __init__(self, config: Config, given: Circumstances, audience: Audience, incidents: KnownIncidents) -> None:
        """`incidents`: for what ended."""
        self._config = config
        self._given = given
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
            interval_start=self._given.interval.start,
            thread_key=notification.thread_key,
            config=self._config,
            context=self._context(notification, [one for one, _ in endings], outlooks, late=late),
        )

    def _context(
        self, notification: Notification, ended: Sequence[Incident], outlooks: Outlooks | None, *, late: bool
    ) -> MessageContext:
        ids = [one.incident.incident_id for one in notification.shown]
        muted_by, acknowledged = self._audience.muted_by, self._given.acknowledged
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
        if not incident.evidence.severity.is_sent:
            locale = _locale(notification.route)
            return catalogue(locale).say("needs_nobody", summary=IncidentWords(incident, locale).summary)
        team = self._audience.team_of(incident)
        return Sentence("handed_over", team=team) if team != notification.group.team else Sentence("told_to_others")


def _locale(route: Route) -> Locale:
    return Locale.of(route.language, route.time_zone)
