"""Patterns that nothing matches: rules that do not exist, groups that belong to others, groups that were not seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from offsetguard.config.fields import matches
from offsetguard.config.file import ConfigFile, Problem, did_you_mean

_OR_IGNORE = "; correct it, or ignore this until the group has started once"


def unknown_rules(file: ConfigFile, rule_ids: Collection[str]) -> Iterator[Problem]:
    """Yield routes whose `rule` no rule is called like."""
    for position, entry in enumerate(file.config.routes):
        if not any(matches(rule_id, entry.rule) for rule_id in rule_ids):
            hint = did_you_mean(entry.rule, rule_ids) or "; docs/rules.md lists them all"
            yield file.problem(("routes", position, "rule"), f"no rule is called {entry.rule!r}{hint}")


def groups_of_others(file: ConfigFile) -> Iterator[Problem]:
    """Yield routes about one group and a team that this group does not belong to, in any cluster."""
    config = file.config
    for position, entry in enumerate(config.routes):
        group = entry.consumer_group
        if entry.team == "*" or set("*?[") & set(group):
            continue
        owners = {config.policy(name, group).team for name in config.clusters if matches(name, entry.cluster)}
        if not any(matches(owner, entry.team) for owner in owners):
            what = f"never matches: consumer group {group!r} belongs to team {' or '.join(sorted(owners))} (`groups`)"
            yield file.problem(("routes", position, "team"), what)


def groups_not_seen(file: ConfigFile, seen: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    """Yield patterns of `groups` and `routes` that no consumer group matches.

    `seen`: cluster -> its groups, of the clusters that were seen whole; a pattern that is also about others is left.
    """
    patterns = [
        *((("groups", n, "match"), entry.match, entry.cluster) for n, entry in enumerate(file.config.groups)),
        *(
            (("routes", n, "consumer_group"), entry.consumer_group, entry.cluster)
            for n, entry in enumerate(file.config.routes)
        ),
    ]
    for where, pattern, cluster_pattern in patterns:
        clusters = [name for name in file.config.clusters if matches(name, cluster_pattern)]
        if pattern == "*" or not all(name in seen for name in clusters):
            continue
        known = frozenset[str]().union(*(seen[name] for name in clusters))
        if not any(matches(name, pattern) for name in known):
            what = f"no consumer group of {', '.join(clusters)} matches {pattern!r}"
            yield file.problem(where, what + (did_you_mean(pattern, known) or _OR_IGNORE))
