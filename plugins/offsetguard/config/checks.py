"""What a file that can be read says and cannot mean: problems, and notes that one should know.

Checked are entries that never take effect, patterns that match nothing, receivers that stand twice, teams that are
never notified, and time windows that mute nothing or everything; what entries say together: `contradictions.py`.
"""

import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import TypeVar

from offsetguard.config.contradictions import contradictions
from offsetguard.config.fields import matches
from offsetguard.config.file import ConfigFile, Problem, did_you_mean
from offsetguard.config.groups import GroupPolicy
from offsetguard.config.routes import QuietHours, RouteEntry, receivers
from offsetguard.config.yaml_lines import Path
from offsetguard.model.intervals import moment_in, zone_of
from offsetguard.model.notification import DECLARED, RECEIVER_LISTS
from offsetguard.model.verdicts import Severity

EntryT = TypeVar("EntryT", "GroupPolicy", "RouteEntry")
_OR_IGNORE = "; correct it, or ignore this until the group has started once"
_DAY, _WEEK = 24 * 60, 7 * 24 * 60  # minutes


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found: problems, which cannot be meant, and notes, which one should know."""

    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]


def check_file(file: ConfigFile, rule_ids: Collection[str], now: datetime) -> Checked:
    """Check what can be checked without asking anybody."""
    problems = [
        *shadowed(file),
        *unknown_rules(file, rule_ids),
        *groups_of_others(file),
        *contradictions(file, rule_ids),
        *wrong_windows(file),
        *receivers_named_twice(file),
        *teams_of_nothing(file),
    ]
    notes = [*limits_of_receivers(file), *windows_of_the_past(file, now)]
    problems, notes = (sorted(found, key=lambda one: one.line) for found in (problems, notes))
    return Checked(tuple(problems), tuple(notes))


def shadowed(file: ConfigFile) -> Iterator[Problem]:
    """Yield what stands below something that always wins, in `groups` and in `routes`."""
    config = file.config
    for position, field, above in _shadowed(config.groups, _covers_groups):
        line = file.document.line(("groups", above))
        what = (
            f"never takes effect: groups[{above}] in line {line} ({config.groups[above].match!r}) matches the "
            "same groups and sets it first; move the special case above the general one"
        )
        yield file.problem(("groups", position, field), what)
    for position, field, above in _shadowed(config.routes, _covers_incidents):
        line = file.document.line(("routes", above))
        what = (
            f"never takes effect: routes[{above}] in line {line} matches the same incidents and sets it first; "
            "move the special case above the general one"
        )
        yield file.problem(("routes", position, field), what)


def _shadowed(entries: Sequence[EntryT], covers: Callable[[EntryT, EntryT], bool]) -> Iterator[tuple[int, str, int]]:
    """Yield (position, field, position of the entry above that always wins)."""
    for position, entry in enumerate(entries):
        above = [n for n, earlier in enumerate(entries[:position]) if covers(earlier, entry)]
        for field in entry.fields_set():
            first = next((n for n in above if field in entries[n].fields_set()), None)
            if first is not None:
                yield position, field, first


def _covers_groups(earlier: GroupPolicy, later: GroupPolicy) -> bool:
    return _all_matched(earlier.match, later.match) and _all_matched(earlier.cluster, later.cluster)


def _covers_incidents(earlier: RouteEntry, later: RouteEntry) -> bool:
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


def receivers_named_twice(file: ConfigFile) -> Iterator[Problem]:
    """Yield entries of receiver lists that stand in the same list before: they are told once all the same."""
    for where, names in _lists(file):
        for position, name in enumerate(names):
            if name in names[:position]:
                yield file.problem((*where, position), f"{name!r} stands here twice; it is told once")


def teams_of_nothing(file: ConfigFile) -> Iterator[Problem]:
    """Yield teams that own no groups and that nothing is escalated to."""
    config = file.config
    heard = {config.default_team, *(entry.team for entry in config.groups)}
    heard |= {entry.escalate_to for entry in config.routes}
    for team in config.teams:
        if team not in heard:
            what = "never hears anything: no entry of `groups` gives it groups, and no route escalates to it"
            yield file.problem(("teams", team), what)


def limits_of_receivers(file: ConfigFile) -> Iterator[Problem]:
    """Yield notes: what channels that are used cannot do, and teams that leave hearing to the default team."""
    config = file.config
    for name, team in config.teams.items():
        if not receivers(team.model_dump()):
            hears = f"the default team ({config.default_team}) hears what is its own"
            if name == config.default_team:
                hears = f"what it should hear stands in {', '.join(one for _, one in config.delivery.receivers)} alone"
            yield file.problem(("teams", name), f"has nobody to tell: {hears}")
    for where, names in _lists(file):
        note = DECLARED[RECEIVER_LISTS[str(where[-1])]].note
        if note is not None and names:
            yield file.problem(where, note)


def _lists(file: ConfigFile) -> Iterator[tuple[Path, list[str]]]:
    for field in RECEIVER_LISTS:
        for name, team in file.config.teams.items():
            yield ("teams", name, field), getattr(team, field)
        for position, entry in enumerate(file.config.routes):
            yield ("routes", position, field), getattr(entry, field) or []


def wrong_windows(file: ConfigFile) -> Iterator[Problem]:
    """Yield the time windows of routes that cannot be meant."""
    for position, entry in enumerate(file.config.routes):
        windows = entry.quiet_hours or []
        if _covers_the_week(windows):
            what = "cover the whole week: nothing that is less than critical would ever be told"
            yield file.problem(("routes", position, "quiet_hours"), what)
        for number, window in enumerate(windows):
            if window.severity_below is not Severity.CRITICAL:
                what = "mutes nothing: what is less than warning is never told; write critical, or leave it out"
                yield file.problem(("routes", position, "quiet_hours", number, "severity_below"), what)
        for number, (starts, ends) in enumerate(_maintenance(file, position)):
            if ends <= starts:
                where = ("routes", position, "maintenance", number, "to")
                yield file.problem(where, "is not after `from`: this maintenance never happens")


def windows_of_the_past(file: ConfigFile, now: datetime) -> Iterator[Problem]:
    """Yield maintenance that is over."""
    for position, _ in enumerate(file.config.routes):
        for number, (starts, ends) in enumerate(_maintenance(file, position)):
            if starts < ends <= now:
                yield file.problem(("routes", position, "maintenance", number), "is over; the entry can be removed")


def _maintenance(file: ConfigFile, position: int) -> Iterator[tuple[datetime, datetime]]:
    entry = file.config.routes[position]
    zone = zone_of(entry.time_zone or file.config.delivery.time_zone)
    for window in entry.maintenance or ():
        yield moment_in(window.from_, zone), moment_in(window.to, zone)


def _covers_the_week(windows: Iterable[QuietHours]) -> bool:
    quiet = {
        (weekday * _DAY + minute) % _WEEK
        for window in windows
        if window.severity_below is Severity.CRITICAL
        for weekday in window.weekdays
        for minute in range(_minute(window.starts), _minute(window.ends) + _DAY * (window.ends <= window.starts))
    }
    return len(quiet) == _WEEK


def _minute(at: time) -> int:
    return at.hour * 60 + at.minute
