"""Who is notified of which open incident in an interval, and what mutes it for whom.

One incident is routed to the receivers of its team's route and, once it was escalated, to those of the teams that its
escalation reached. Mutes are looked for in the order of `MuteReason`; the first one that holds is the one. Trouble
that is itself silenced, in maintenance or in quiet hours, unknown to everybody, mutes nothing below it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.config.routes import Route
from offsetguard.decide.incidents.muting import Inhibitors, can_mute, maintenance_mute, quiet_mute, silence_mute
from offsetguard.decide.incidents.timing import NEVER_NOTIFIED, Step, level_due, steps
from offsetguard.model.incident import EventKind, Incident, IncidentEvent, worst_first
from offsetguard.model.intervals import Interval, zone_of
from offsetguard.model.notification import (
    Acknowledgement,
    GroupKey,
    Mute,
    MuteReason,
    NotificationKey,
    Notified,
    NotifiedIncident,
    Silence,
)
from offsetguard.model.verdicts import Severity

_ABOVE = frozenset({MuteReason.INHIBITION, MuteReason.UNTIL_SEEN})


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides beside the incidents: as it was read in the judge's transaction."""

    interval: Interval
    now: datetime  # silences and quiet hours are about people: they follow the clock
    silences: Sequence[Silence]
    acknowledged: Mapping[str, Acknowledgement]  # by incident id
    notified: Mapping[NotificationKey, Notified]


@dataclass(frozen=True, slots=True)
class Routed:
    """One open incident on its way to one receiver."""

    incident: Incident
    route: Route  # of the receiver's team
    mute: Mute | None
    escalated_from: str | None = None  # the team that did not react; None: the receiver's own incident


class Audience:
    """The receivers of a cluster's open incidents; made once per interval."""

    def __init__(self, config: Config, given: Circumstances, open_incidents: Iterable[Incident]) -> None:
        """`open_incidents`: all of the cluster; those of severity INFO go to nobody who does not know of them."""
        self.config = config
        self.given = given
        self._known_as = _worst_known(given.notified.values())
        sent = [one for one in open_incidents if one.evidence.severity.is_sent or one.incident_id in self._known_as]
        unnotified = {one.incident_id for one in sent if can_mute(one) and self._is_unnotified(one)}
        self._inhibitors = Inhibitors(one for one in sent if one.incident_id not in unnotified)
        self._unnotified = Inhibitors(one for one in sent if one.incident_id in unnotified)
        self.escalated: list[Incident] = []  # with their new levels
        self.history: list[IncidentEvent] = []
        self.muted_by: Counter[str] = Counter()  # incident id -> how many it mutes
        self.routed: defaultdict[NotificationKey, list[Routed]] = defaultdict(list)
        for incident in sorted(sent, key=worst_first):
            self._route(incident)

    def team_of(self, incident: Incident) -> str:
        """Return the team that an incident belongs to."""
        return self.config.team_of(incident.subject.cluster, incident.subject.consumer_group)

    def route_of(self, team: str, incident: Incident) -> Route:
        """Return how a team is notified of an incident; of one that is INFO by now, as it was while it was worse."""
        subject, severity = incident.subject, incident.evidence.severity
        return self.config.route(
            team,
            subject.cluster,
            rule_id=incident.shown_by,
            severity=severity if severity.is_sent else self._known_as.get(incident.incident_id, severity),
            consumer_group=subject.consumer_group,
        )

    def mute_of(self, incident: Incident, route: Route, before: MuteReason | None = None) -> Mute | None:
        """Return what mutes an incident on a route, whoever looks after it; `before`: what did so an interval ago."""
        return self._mute_from_above(incident, before) or self._mute_by_people(incident, route)

    def _mute_of_open(self, incident: Incident, route: Route, before: MuteReason | None) -> Mute | None:
        mute = self.mute_of(incident, route, before)
        if mute is not None or incident.evidence.severity.is_sent:
            return mute
        return Mute(MuteReason.NEEDS_NOBODY, "", Sentence("needs_nobody"))

    def _concerns(self, incident: Incident, key: NotificationKey) -> bool:
        """Whether a receiver is to hear of an incident, or knows of it from when it was worse."""
        return incident.evidence.severity.is_sent or self._known(incident, key) is not None

    def _mute_by_people(self, incident: Incident, route: Route) -> Mute | None:
        given, hours = self.given, route.quiet_hours
        return (
            maintenance_mute(incident, route.maintenance, given.interval.start)
            or silence_mute(incident, given.silences, given.now)
            or (quiet_mute(incident, hours, zone_of(route.time_zone), given.now) if hours else None)
        )

    def _is_unnotified(self, incident: Incident) -> bool:
        """Whether nobody of its own team is or was notified of an incident: it cannot speak for what lies below it."""
        team = self.team_of(incident)
        route = self.route_of(team, incident)
        known = any(self._known(incident, key) is not None for key in _keys(team, incident, route))
        return not known and self._mute_by_people(incident, route) is not None

    def _route(self, incident: Incident) -> None:
        team = self.team_of(incident)
        route = self.route_of(team, incident)
        own = _keys(team, incident, route)
        before = self._muted_before(incident, own)
        mute = self._mute_of_open(incident, route, before)
        if mute is not None and mute.reason is MuteReason.INHIBITION:
            self.muted_by[mute.by] += 1
        self._keep_history(incident, mute, before)
        for key in own:
            if self._concerns(incident, key):
                self.routed[key].append(Routed(incident, route, mute or self._acknowledgement(incident, key)))
        chain = steps(team, lambda name: self.route_of(name, incident)) if route.escalate_to else ()
        if not chain:
            return
        incident = self._escalated(incident, chain, own, muted=mute is not None)
        reached = set(own)
        for step in chain[: incident.escalation_level]:
            further = self.route_of(step.team, incident)
            for key in _keys(team, incident, further):
                if key not in reached and self._concerns(incident, key):
                    reached.add(key)
                    kept = self._mute_of_open(incident, further, before) or self._acknowledgement(incident, key)
                    self.routed[key].append(Routed(incident, further, kept, step.from_team))

    def _mute_from_above(self, incident: Incident, before: MuteReason | None) -> Mute | None:
        """Return the inhibition, or the wait that follows it: until an interval has shown the incident again."""
        mute = self._inhibitors.mute(incident)
        if mute is not None or before not in _ABOVE:
            return mute
        if self._unnotified.mute(incident) is not None:
            return None  # the trouble goes on, and nobody hears of it any more
        unseen = incident.unknown_since is not None or incident.good_count > 0
        return Mute(MuteReason.UNTIL_SEEN, "", Sentence("muted_until_seen")) if unseen else None

    def _acknowledgement(self, incident: Incident, key: NotificationKey) -> Mute | None:
        """Return the mute of an acknowledgement; it ends when the incident is worse than last notified."""
        acknowledgement = self.given.acknowledged.get(incident.incident_id)
        if acknowledgement is None:
            return None
        known = self._known(incident, key)
        if known is not None:
            worse = known.is_less_than(incident.evidence.severity, incident.evidence.stage)
            if worse or acknowledgement.at < known.severity_notified_at:
                return None
        author = acknowledgement.author
        return Mute(MuteReason.ACKNOWLEDGED, author, Sentence("muted_by_acknowledgement", author=author))

    def _escalated(
        self, incident: Incident, chain: tuple[Step, ...], own: Sequence[NotificationKey], *, muted: bool
    ) -> Incident:
        """Raise the level of an incident by one when that is due; the next level may be due in the next interval."""
        if muted or any(self._acknowledgement(incident, key) is not None for key in own):
            return incident
        reached = self._known_to_last_team(incident, chain, own)
        if not reached:
            return incident
        level = level_due(
            chain,
            level=incident.escalation_level,
            repeats=max(known.repeats for known in reached),
            first_notified_at=min(known.first_notified_at for known in reached),
            interval=self.given.interval,
        )
        if level == incident.escalation_level:
            return incident
        incident = replace(incident, escalation_level=level)
        step = chain[level - 1]
        self.escalated.append(incident)
        self._happened(
            incident, EventKind.ESCALATED, Sentence("event_escalated", from_team=step.from_team, team=step.team)
        )
        return incident

    def _known_to_last_team(
        self, incident: Incident, chain: tuple[Step, ...], own: Sequence[NotificationKey]
    ) -> list[NotifiedIncident]:
        """Return how the team that the next step leads from knows an incident: by receivers that none before it has."""
        level = min(incident.escalation_level, len(chain))
        before: set[NotificationKey] = set()
        reached = set(own)
        for step in chain[:level]:
            further = {*_keys(own[0].group.team, incident, self.route_of(step.team, incident))} - reached - before
            if further:  # empty: the step added nobody, and those before it go on to count
                before |= reached
                reached = further
        return [known for key in reached if (known := self._known(incident, key)) is not None]

    def _known(self, incident: Incident, key: NotificationKey) -> NotifiedIncident | None:
        """Return how a receiver knows an incident; None: it does not."""
        return self.given.notified.get(key, NEVER_NOTIFIED).firing.get(incident.incident_id)

    def _muted_before(self, incident: Incident, own: Iterable[NotificationKey]) -> MuteReason | None:
        known = (self.given.notified.get(key, NEVER_NOTIFIED).muted.get(incident.incident_id) for key in own)
        return next((reason for reason in known if reason is not None), None)

    def _keep_history(self, incident: Incident, mute: Mute | None, before: MuteReason | None) -> None:
        if mute is not None and mute.reason is not before:
            self._happened(incident, EventKind.MUTED, mute.text)
        elif mute is None and before not in (None, MuteReason.ACKNOWLEDGED):
            self._happened(incident, EventKind.UNMUTED, Sentence("event_unmuted"))

    def _happened(self, incident: Incident, kind: EventKind, text: str) -> None:
        at = min(self.given.interval.end, self.given.now)
        self.history.append(IncidentEvent(incident.incident_id, at, kind, text))


def _worst_known(notified: Iterable[Notified]) -> dict[str, Severity]:
    """Return by incident id the worst severity that any receiver knows."""
    known: dict[str, Severity] = {}
    for last in notified:
        for incident_id, one in last.firing.items():
            known[incident_id] = max(known.get(incident_id, one.severity), one.severity, key=lambda worst: worst.rank)
    return known


def _keys(team: str, incident: Incident, route: Route) -> list[NotificationKey]:
    group = GroupKey(team, incident.subject.cluster, incident.subject.rule_id)
    return [NotificationKey(group, channel, receiver) for channel, receiver in route.receivers]
