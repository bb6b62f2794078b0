"""Inhibition: open trouble of a broker or a cluster mutes the incidents below it. Pure; the pairs are data.

Source: prometheus/alertmanager, inhibit/inhibit.go. Unlike there, what is muted is counted in the message of what
mutes it, and what was told before it was muted still tells of its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.incidents.muting import Mute, MuteReason
from offsetguard.rules.inhibitions import INHIBITIONS, NEVER_MUTED
from offsetguard.rules.subsumption import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetguard.incidents.incident import Incident
    from offsetguard.rules.inhibitions import Inhibition


_MUTING = frozenset(one.muting for one in INHIBITIONS)


def can_mute(incident: Incident) -> bool:
    """Whether an incident is of a kind that mutes others."""
    return incident.subject.rule_id in _MUTING


class Inhibitors:
    """The open incidents that mute others, highest first."""

    def __init__(self, open_incidents: Iterable[Incident], inhibitions: Sequence[Inhibition] = INHIBITIONS) -> None:
        """Find them once: thousands of incidents may ask."""
        found: list[tuple[int, Inhibition, Incident]] = []
        self._of_topics: dict[tuple[str, str | None, str | None], tuple[int, Inhibition, Incident]] = {}
        levels: dict[str, list[tuple[int, Inhibition]]] = {}
        for level, one in enumerate(inhibitions):
            levels.setdefault(one.muting, []).append((level, one))
        for incident in open_incidents:
            for level, one in levels.get(incident.subject.rule_id, ()):
                if not _mutes_at_all(incident, one):
                    continue
                if one.scope is Scope.TOPIC:  # there may be thousands, and each concerns few
                    self._of_topics[_topic_of(incident)] = (level, one, incident)
                else:
                    found.append((level, one, incident))
        self._found = sorted(found, key=lambda entry: (entry[0], entry[2].incident_id))
        self._lowest_level = {rule_id: entries[0][0] for rule_id, entries in levels.items()}

    def mute(self, incident: Incident) -> Mute | None:
        """Return what mutes an open incident; the highest, when several would."""
        if incident.subject.rule_id in NEVER_MUTED:
            return None
        own_level = self._lowest_level.get(incident.subject.rule_id)
        of_topic = self._of_topics.get(_topic_of(incident))
        for level, inhibition, source in (*self._found, *([] if of_topic is None else [of_topic])):
            if own_level is not None and own_level <= level:
                return None
            if _is_below(incident, source, inhibition):
                return Mute(MuteReason.INHIBITION, source.incident_id, source.evidence.summary)
        return None


def _mutes_at_all(source: Incident, inhibition: Inhibition) -> bool:
    """Only what is told to somebody may mute; trouble that is no more than INFO is told to nobody.

    What people keep back is left out by the audience, which knows who would hear of it.
    """
    said = not inhibition.variants or source.evidence.variant in inhibition.variants
    return said and source.is_open and source.evidence.severity.is_sent


def _is_below(incident: Incident, source: Incident, inhibition: Inhibition) -> bool:
    if incident.subject.cluster != source.subject.cluster:
        return False
    if inhibition.muted and incident.subject.rule_id not in inhibition.muted:
        return False
    if inhibition.scope is Scope.CLUSTER:
        return True
    if inhibition.scope is Scope.TOPIC:
        return _topic_of(incident) == _topic_of(source)
    brokers = incident.evidence.broker_names
    return bool(brokers) and brokers <= source.evidence.broker_names


def _topic_of(incident: Incident) -> tuple[str, str | None, str | None]:
    subject = incident.subject
    return subject.cluster, subject.consumer_group, subject.topic
