"""What rules about retries and dead letters share: figures of a group, which stand on the row of each of its topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence
from offsetguard.rules.rule import CannotTell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.facts import GroupFacts, IntervalFacts

_OF_NO_GROUP = {"retry_growth": "retries_unknown", "dead_letter_growth": "dead_letters_unknown"}
_NOT_OF_GROUP = {"retry_growth": "retries_of_group_unknown", "dead_letter_growth": "dead_letters_of_group_unknown"}


def each_group(facts: IntervalFacts) -> Iterator[GroupFacts]:
    """Give one row of each consumer group, RocketMQ's own left out; any row has the group's own figures."""
    seen: set[str] = set()
    for group in facts.groups:
        if not group.system_group and group.consumer_group not in seen:
            seen.add(group.consumer_group)
            yield group


def growth_unknown(facts: IntervalFacts, rule_id: str, field: str) -> Iterator[CannotTell]:
    """Give what cannot be told because a growth is not known: once when there is no round before, else by group."""
    groups = list(each_group(facts))
    unknown = [group for group in groups if getattr(group, field) is None]
    if groups and len(unknown) == len(groups):
        yield CannotTell(rule_id, None, frozenset(), Sentence(_OF_NO_GROUP[field]))
        return
    for group in unknown:
        because = Sentence(_NOT_OF_GROUP[field], consumer_group=group.consumer_group)
        yield CannotTell(rule_id, group.consumer_group, frozenset(), because)
