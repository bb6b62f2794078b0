"""What an interval's findings do to the open incidents: opened, seen again, resolved, or unknown.

    (nothing) --found--> open --found--> open --not found--> resolved
                          |  ^
              not visible |  | found
                          v  |
                         open, unknown          not found and visible again --> resolved

Pure: incidents and facts in, incidents out. The caller sees to it that only newer intervals come here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.incidents.incident import Incident, Subject
from offsetguard.incidents.visibility import GroupRows, resolution, unseen_because

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetguard.facts import IntervalFacts
    from offsetguard.rules.rule import Finding, Rule


@dataclass(frozen=True, slots=True)
class Changes:
    """The incidents after the interval, each in exactly one place."""

    opened: tuple[Incident, ...] = ()
    seen_again: tuple[Incident, ...] = ()
    unknown: tuple[Incident, ...] = ()  # still open; their evidence could not be seen
    resolved: tuple[Incident, ...] = ()

    @property
    def open(self) -> tuple[Incident, ...]:
        """Everything that fires after the interval."""
        return (*self.opened, *self.seen_again, *self.unknown)

    @property
    def all(self) -> tuple[Incident, ...]:
        """Everything that is to be written."""
        return (*self.open, *self.resolved)


def advance(
    open_incidents: Iterable[Incident],
    findings: Iterable[Finding],
    facts: IntervalFacts,
    rules: Mapping[str, Rule],
) -> Changes:
    """Return what becomes of the open incidents of the facts' cluster, and what the findings open.

    `rules`: by id, those that looked; an incident of a rule that does not exist any more is resolved.
    Seeing an incident again in the interval that it was last seen in changes nothing.
    """
    found = {Subject.of(finding): finding for finding in findings}
    rows = GroupRows(facts.groups)
    seen_again: list[Incident] = []
    unknown: list[Incident] = []
    resolved: list[Incident] = []
    for incident in open_incidents:
        finding = found.pop(incident.subject, None)
        if finding is not None:
            again = incident.last_seen_at < facts.interval.start
            seen_again.append(incident.seen_again(finding, facts.interval) if again else incident)
            continue
        rule = rules.get(incident.subject.rule_id)
        because = unseen_because(incident, rule, facts, rows)
        if because is not None:
            unknown.append(incident.unseen(facts.interval, because))
        else:
            resolved.append(incident.ended(facts.interval, resolution(incident, rule, rows)))
    opened = (Incident.opened_by(finding, facts.interval) for finding in found.values())
    return Changes(tuple(opened), tuple(seen_again), tuple(unknown), tuple(resolved))
