"""What an interval's findings do to the open incidents: opened, seen again, resolved, or unknown.

    (nothing) --found--> open --found--> open --not found--> resolved
                          |  ^
              not visible |  | found
                          v  |
                         open, unknown          not found and visible again --> resolved

Where a rule wants calm (`calm_ms`), an incident that is not found stays open until the calm has lasted so long.
What is found and explained by another finding goes on where it is open, and opens nothing where it is not.

Pure: incidents and facts in, incidents out. The caller sees to it that only newer intervals come here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.incidents.incident import Incident, Subject
from offsetguard.incidents.untold import Untold
from offsetguard.incidents.visibility import GroupRows, resolution, unseen_because

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetguard.facts import IntervalFacts
    from offsetguard.rules.rule import CannotTell, Finding, Rule


@dataclass(frozen=True, slots=True)
class Changes:
    """The incidents after the interval, each in exactly one place."""

    opened: tuple[Incident, ...] = ()
    seen_again: tuple[Incident, ...] = ()
    unknown: tuple[Incident, ...] = ()  # still open; their evidence could not be seen
    calm: tuple[Incident, ...] = ()  # still open: not found, but not for as long as their rules want
    resolved: tuple[Incident, ...] = ()

    @property
    def open(self) -> tuple[Incident, ...]:
        """Everything that fires after the interval."""
        return (*self.opened, *self.seen_again, *self.unknown, *self.calm)

    @property
    def all(self) -> tuple[Incident, ...]:
        """Everything that is to be written."""
        return (*self.open, *self.resolved)


def advance(
    open_incidents: Iterable[Incident],
    findings: Iterable[Finding],
    facts: IntervalFacts,
    rules: Mapping[str, Rule],
    *,
    cannot_tell: Iterable[CannotTell] = (),
    wider: Iterable[Finding] = (),
) -> Changes:
    """Return what becomes of the open incidents of the facts' cluster, and what the findings open.

    `rules`: by id, those that looked; an incident of a rule that does not exist any more is resolved.
    `cannot_tell`: what they could not tell; an incident that this may hide stays open.
    `wider`: findings that open nothing here and may explain open incidents: those outside of a pattern of groups.
    Seeing an incident again in the interval that it was last seen in changes nothing.
    """
    found = {Subject.of(finding): finding for finding in findings}
    explained = {
        Subject(facts.cluster, one.rule_id, one.consumer_group, one.topic)
        for finding in (*found.values(), *wider)
        for one in finding.explains
    }
    untold = Untold(cannot_tell, facts.unseen_broker_names)
    rows = GroupRows(facts.groups)
    seen_again: list[Incident] = []
    unknown: list[Incident] = []
    calm: list[Incident] = []
    resolved: list[Incident] = []
    for incident in open_incidents:
        finding = found.pop(incident.subject, None)
        again = incident.last_seen_at < facts.interval.start
        if finding is not None:
            beside = untold.beside(finding)
            seen_again.append(incident.seen_again(finding, facts.interval, beside) if again else incident)
            continue
        if incident.subject in explained:
            seen_again.append(incident.explained(facts.interval) if again else incident)
            continue
        rule = rules.get(incident.subject.rule_id)
        if rule is not None and facts.interval.start - incident.last_seen_at < timedelta(milliseconds=rule.calm_ms):
            calm.append(incident)
            continue
        because = unseen_because(incident, rule, facts, rows) or untold.hides(incident)
        if because is not None:
            unknown.append(incident.unseen(facts.interval, because))
        else:
            resolved.append(incident.ended(facts.interval, resolution(incident, rule, rows)))
    opened = (Incident.opened_by(finding, facts.interval, untold.beside(finding)) for finding in found.values())
    return Changes(tuple(opened), tuple(seen_again), tuple(unknown), tuple(calm), tuple(resolved))
