"""Which messages an interval gives: per (team, cluster, rule) the decision, and what each receiver of the team gets.

What was last told comes from the newest message in the outbox. Two things decide beside the set of incidents: an
incident that got worse than it was told counts as a new one, and one that was handed over to another team counts as
resolved for the first. Incidents of severity INFO are history only: nobody is told, and one that was told while it was
worse counts as resolved.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.incidents.decision import Decision, LastSent, NotificationReason, decide
from offsetguard.incidents.grouping import GroupKey, group_incidents
from offsetguard.pipeline.message_views import message_view
from offsetguard.rules.registry import rules_by_id
from offsetguard.rules.rule import Severity
from offsetguard.store import incidents as incident_store
from offsetguard.store import outbox
from offsetguard.store.outbox import Channel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from offsetguard.config import Config
    from offsetguard.incidents.incident import Incident
    from offsetguard.intervals import Interval
    from offsetguard.messages.view import MessageView
    from offsetguard.store.outbox import EnqueuedView


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """One message to one receiver."""

    idempotency_key: str
    channel: Channel
    receiver: str
    view: MessageView


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What was decided about the incidents of one (team, cluster, rule), and what follows."""

    key: GroupKey
    decision: Decision
    messages: tuple[PlannedMessage, ...] = ()  # none: nothing is sent, or the team wants no resolve notices


@dataclass(frozen=True, slots=True)
class _Told:
    """The newest message about a group of incidents."""

    at: datetime
    thread_key: str
    severities: Mapping[str, Severity]  # of what it said fires, by incident id
    resolved: frozenset[str]

    @classmethod
    def by(cls, enqueued: EnqueuedView) -> _Told:
        view = enqueued.view
        return cls(
            enqueued.enqueued_at,
            view.thread_key,
            {incident.incident_id: Severity(incident.severity) for incident in view.firing},
            frozenset(incident.incident_id for incident in view.resolved),
        )

    @property
    def last_sent(self) -> LastSent:
        return LastSent(self.at, frozenset(self.severities), self.resolved)


def plan(
    session: Session,
    cluster: str,
    interval: Interval,
    *,
    open_incidents: Iterable[Incident],
    resolved: Iterable[Incident],
    config: Config,
    now: datetime,
) -> tuple[GroupDecision, ...]:
    """Return the decision on every group of incidents of a cluster that fires, or that somebody was told of.

    `resolved`: those of this interval, which the database may not know yet. Reads only.
    """
    all_open = tuple(open_incidents)
    sent = (incident for incident in all_open if incident.evidence.severity.is_sent)
    groups = group_incidents(sent, lambda incident: _team(incident, config))
    told_keys = {GroupKey(team, cluster, rule_id) for team, rule_id in outbox.told_rules(session, cluster)}
    planner = _Planner(session, interval, config, now, {one.incident_id: one for one in (*all_open, *resolved)})
    return tuple(planner.decide(key, groups.get(key, ())) for key in sorted({*groups, *told_keys}))


@dataclass(frozen=True, slots=True)
class _Planner:
    session: Session
    interval: Interval
    config: Config
    now: datetime
    incidents: Mapping[str, Incident]  # of this interval, by id

    def decide(self, key: GroupKey, firing: Sequence[Incident]) -> GroupDecision:
        enqueued = outbox.newest_enqueued(self.session, team=key.team, cluster=key.cluster, rule_id=key.rule_id)
        told = None if enqueued is None else _Told.by(enqueued)
        ids = {incident.incident_id for incident in firing}
        gone = sorted(set(told.severities) - ids) if told else []
        delivery = self.config.delivery
        decision = decide(
            now=self.now,
            last_sent=told.last_sent if told else None,
            firing={_told_as(incident, told) for incident in firing},
            resolved=set(gone),
            repeat_interval_ms=delivery.repeat_interval_ms,
            send_resolved=delivery.send_resolved,
        )
        silent = decision.reason is NotificationReason.ALL_RESOLVED and not delivery.send_resolved
        if not decision.send or silent:
            return GroupDecision(key, decision)
        view = message_view(
            key,
            firing=firing,
            resolved=list(self._endings(gone)) if delivery.send_resolved else (),
            reason=decision.reason,
            interval_start=self.interval.start,
            thread_key=self._thread_key(key, told, ids),
            title=rule.title if (rule := rules_by_id().get(key.rule_id)) else key.rule_id,
            config=self.config,
        )
        return GroupDecision(key, decision, tuple(self._messages(view)))

    def _endings(self, ids: Sequence[str]) -> Iterator[tuple[Incident, str | None]]:
        """Give each incident that this team was told of and that fires no more, with how it ended for the team."""
        stored = incident_store.by_id(self.session, [one for one in ids if one not in self.incidents])
        for incident_id in ids:
            incident = self.incidents.get(incident_id) or stored.get(incident_id)
            if incident is not None:  # None: housekeeping removed it
                yield incident, self._still_open(incident) if incident.is_open else None

    def _still_open(self, incident: Incident) -> str:
        """Say why a team hears no more of an incident that goes on."""
        if not incident.evidence.severity.is_sent:
            return f"needs nobody any more: {incident.evidence.summary}"
        return f"handed over to team {_team(incident, self.config)}"

    def _thread_key(self, key: GroupKey, told: _Told | None, firing_ids: set[str]) -> str:
        """Go on with the thread while its spell lasts; a resolve notice ends it, or silence when none is wanted."""
        told_ids = set(told.severities) if told else set()
        goes_on = told_ids if self.config.delivery.send_resolved else told_ids & firing_ids
        if told is not None and goes_on:
            return told.thread_key
        return _digest(key.team, key.cluster, key.rule_id, self.interval.name)[:32]

    def _messages(self, view: MessageView) -> Iterator[PlannedMessage]:
        content = (
            *(f"firing {one.incident_id} {one.severity}" for one in view.firing),
            *(f"resolved {one.incident_id}" for one in view.resolved),
        )
        for channel, receiver in _receivers(view.team, self.config):
            parts = (view.thread_key, self.interval.name, view.reason.value, channel.value, receiver, *content)
            yield PlannedMessage(_digest(*parts), channel, receiver, view)


def _told_as(incident: Incident, told: _Told | None) -> str:
    """Return the id under which the decision knows an incident: a new one when it got worse than it was told."""
    told_severity = told.severities.get(incident.incident_id) if told else None
    if told_severity is not None and incident.evidence.severity.rank > told_severity.rank:
        return f"{incident.incident_id} {incident.evidence.severity.value}"
    return incident.incident_id


def _team(incident: Incident, config: Config) -> str:
    group = incident.subject.consumer_group
    return config.default_team if group is None else config.policy(incident.subject.cluster, group).team


def _receivers(team: str, config: Config) -> Iterator[tuple[Channel, str]]:
    """Give the team's receivers; a team that has none, or is gone, is heard by the default team."""
    found = config.teams.get(team)
    if found is None or not (found.mail or found.slack):
        found = config.teams[config.default_team]
    yield from ((Channel.MAIL, address) for address in dict.fromkeys(found.mail))
    yield from ((Channel.SLACK, name) for name in dict.fromkeys(found.slack))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
