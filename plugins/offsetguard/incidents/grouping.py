"""Incidents that belong into one message: those of one (team, cluster, rule)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.incidents.incident import Incident, worst_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """What one message is about."""

    team: str
    cluster: str
    rule_id: str


def group_incidents(
    incidents: Iterable[Incident], team_of: Callable[[Incident], str]
) -> dict[GroupKey, tuple[Incident, ...]]:
    """Return the incidents of each message, worst first; groups in the order of their keys."""
    grouped: defaultdict[GroupKey, list[Incident]] = defaultdict(list)
    for incident in incidents:
        subject = incident.subject
        grouped[GroupKey(team_of(incident), subject.cluster, subject.rule_id)].append(incident)
    return {key: tuple(sorted(grouped[key], key=worst_first)) for key in sorted(grouped)}
