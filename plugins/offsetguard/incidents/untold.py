"""What no rule could tell about a group or a broker: it keeps open what it may hide, and stands beside what was found.

What concerns the whole cluster (a log that nobody reads, say) is not repeated beside every finding, nor is what lies
behind brokers that were not seen: the finding about those brokers says so for all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from offsetguard.incidents.incident import Incident
    from offsetguard.rules.rule import CannotTell, Finding


class Untold:
    """What the rules could not tell in one interval, by rule and by group."""

    def __init__(self, cannot_tell: Iterable[CannotTell] = (), unseen_broker_names: Set[str] = frozenset()) -> None:
        """Index the entries once: thousands of incidents may ask."""
        self._unseen_broker_names = unseen_broker_names
        self._by_rule: defaultdict[tuple[str, str | None], list[CannotTell]] = defaultdict(list)
        self._by_group: defaultdict[str | None, list[CannotTell]] = defaultdict(list)
        for entry in cannot_tell:
            self._by_rule[entry.rule_id, entry.consumer_group].append(entry)
            self._by_group[entry.consumer_group].append(entry)

    def beside(self, finding: Finding) -> tuple[CannotTell, ...]:
        """Return what readers of a finding should know: entries about its group, or about brokers that it is on."""
        own = self._by_group[finding.consumer_group] if finding.consumer_group is not None else []
        brokers = finding.all_broker_names - self._unseen_broker_names
        behind = [entry for entry in self._by_group[None] if entry.broker_names & brokers]
        return (*own, *behind)

    def hides(self, incident: Incident) -> str | None:
        """Return why the incident's own rule could not see whether it goes on; None when it could."""
        subject, brokers = incident.subject, incident.evidence.broker_names
        for group in {subject.consumer_group, None}:
            for entry in self._by_rule.get((subject.rule_id, group), ()):
                if not (entry.broker_names and brokers) or entry.broker_names & brokers:
                    return Sentence("cannot_be_told", because=entry.because)
        return None
