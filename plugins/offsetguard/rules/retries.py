"""What rules about retries and dead letters share: figures of a group, which stand on the row of each of its topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.rules.rule import CannotTell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.facts import GroupFacts, IntervalFacts


def each_group(facts: IntervalFacts) -> Iterator[GroupFacts]:
    """Give one row of each consumer group, RocketMQ's own left out; any row has the group's own figures."""
    seen: set[str] = set()
    for group in facts.groups:
        if not group.system_group and group.consumer_group not in seen:
            seen.add(group.consumer_group)
            yield group


def growth_unknown(facts: IntervalFacts, rule_id: str, field: str, what: str) -> Iterator[CannotTell]:
    """Give what cannot be told because a growth is not known: once when there is no round before, else by group."""
    groups = list(each_group(facts))
    unknown = [group for group in groups if getattr(group, field) is None]
    if groups and len(unknown) == len(groups):
        because = f"{what} are known of no group: that takes two rounds that saw their topics on every broker."
        yield CannotTell(rule_id, None, frozenset(), because)
        return
    for group in unknown:
        because = f"{what} of {group.consumer_group} are not known: not every broker told of them in both rounds."
        yield CannotTell(rule_id, group.consumer_group, frozenset(), because)
