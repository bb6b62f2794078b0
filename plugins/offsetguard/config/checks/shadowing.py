"""Fields of the configuration that can never take effect, because an entry above says the same field first."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from offsetguard.config.file import ConfigFile, Problem
from offsetguard.config.groups import GroupPolicy
from offsetguard.config.groups import fields_set as fields_of_policy
from offsetguard.config.routes import RouteEntry
from offsetguard.config.routes import fields_set as fields_of_route

EntryT = TypeVar("EntryT", "GroupPolicy", "RouteEntry")


def shadowed(file: ConfigFile) -> Iterator[Problem]:
    """Yield what stands below something that always wins, in `groups` and in `routes`."""
    config = file.config
    for position, field, above in _shadowed(config.groups, fields_of_policy, _covers_groups):
        line = file.document.line(("groups", above))
        what = (
            f"never takes effect: groups[{above}] in line {line} ({config.groups[above].match!r}) matches the "
            "same groups and sets it first; move the special case above the general one"
        )
        yield file.problem(("groups", position, field), what)
    for position, field, above in _shadowed(config.routes, fields_of_route, _covers_news):
        line = file.document.line(("routes", above))
        what = (
            f"never takes effect: routes[{above}] in line {line} matches the same news and sets it first; "
            "move the special case above the general one"
        )
        yield file.problem(("routes", position, field), what)


def _shadowed(
    entries: Sequence[EntryT], fields_set: Callable[[EntryT], list[str]], covers: Callable[[EntryT, EntryT], bool]
) -> Iterator[tuple[int, str, int]]:
    """Yield (position, field, position of the entry above that always wins)."""
    for position, entry in enumerate(entries):
        above = [n for n, earlier in enumerate(entries[:position]) if covers(earlier, entry)]
        for field in fields_set(entry):
            first = next((n for n in above if field in fields_set(entries[n])), None)
            if first is not None:
                yield position, field, first


def _covers_groups(earlier: GroupPolicy, later: GroupPolicy) -> bool:
    return _all_matched(earlier.match, later.match) and _all_matched(earlier.cluster, later.cluster)


def _covers_news(earlier: RouteEntry, later: RouteEntry) -> bool:
    return (
        _all_matched(earlier.team, later.team)
        and _all_matched(earlier.cluster, later.cluster)
        and _all_matched(earlier.consumer_group, later.consumer_group)
        and _all_matched(earlier.rule, later.rule)
        and earlier.severity.rank <= later.severity.rank
    )


def _all_matched(wide: str, narrow: str) -> bool:
    """Say whether everything that `narrow` matches is matched by `wide`; False where that is not plain to see.

    Matching the one pattern's text with the other is sound while `wide` has no wildcard but * and `narrow` no [...]:
    then only a * can have swallowed a wildcard.
    """
    return wide == narrow or (not set("?[") & set(wide) and "[" not in narrow and fnmatch.fnmatchcase(narrow, wide))
