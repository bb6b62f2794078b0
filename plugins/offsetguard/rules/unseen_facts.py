"""What every rule says alike when brokers or the whole cluster were not seen: of what lies there nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence
from offsetguard.rules.gap_reasons import names
from offsetguard.rules.rule import CannotTell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetguard.facts import IntervalFacts
    from offsetguard.rules.rule import Rule

# fields of IntervalFacts that say what was not seen, or are not seen there; everything else comes from brokers
OF_THE_ROUND = frozenset({"gaps", "unseen_broker_names", "unseen_brokers", "cluster_unseen", "config_problem"})


def unseen_facts(rules: Iterable[Rule], facts: IntervalFacts, told: Iterable[CannotTell]) -> Iterator[CannotTell]:
    """Give an entry for each rule that needs what brokers tell and has not said so itself (`told`)."""
    hidden = facts.unseen_broker_names
    if not hidden and not facts.cluster_unseen:
        return
    said = {entry.rule_id for entry in told if entry.consumer_group is None and entry.broker_names == hidden}
    unseen = facts.cluster_unseen
    because = (
        Sentence("no_name_server_answered") if unseen else Sentence("gave_no_offsets", brokers=names(sorted(hidden)))
    )
    for rule in rules:
        if not OF_THE_ROUND.intersection(rule.needs) and rule.id not in said:
            yield CannotTell(rule.id, None, hidden, because)
