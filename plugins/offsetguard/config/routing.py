"""From the entries of `routes` to the one Route of a piece of news: per field the first entry that sets it wins."""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING, Any

from offsetguard.config.patterns import PatternIndex, matches
from offsetguard.config.routes import DAYS, Maintenance, QuietHours, Route, RouteEntry
from offsetguard.config.sections import field_names
from offsetguard.config.teams import RECEIVER_LISTS, receivers
from offsetguard.moments import moment_in
from offsetguard.records import record
from offsetguard.time_zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetguard.config.delivery import Delivery
    from offsetguard.config.routes import QuietHoursEntry
    from offsetguard.config.teams import Team
    from offsetguard.severity import Severity

MATCHED_BY = ("team", "cluster", "consumer_group", "rule", "severity")
DEFAULTS_IN_DELIVERY = (
    "language",
    "time_zone",
    "group_wait_ms",
    "group_interval_ms",
    "repeat_interval_ms",
    "send_resolved",
    "digest_above",
)
SET_BY_ROUTES = tuple(name for name in field_names(RouteEntry) if name not in MATCHED_BY)


@record
class RouteChoice:
    """A route, and which entry decided each field; a field that no entry sets has none: `delivery` or the team."""

    route: Route
    decided_by: Mapping[str, int]  # field -> position in `routes`
    receivers_by: Mapping[str, int]  # the same of the receivers, for `route.heard_by`


class Routing:
    """The routes of one configuration. Remembers what it found: the same is asked for thousands of groups."""

    def __init__(
        self, entries: Sequence[RouteEntry], teams: Mapping[str, Team], default_team: str, delivery: Delivery
    ) -> None:
        """Take the sections of the file."""
        self._entries = entries
        self._teams = teams
        self._default_team = default_team
        self._delivery = delivery
        self._by_group = PatternIndex([entry.consumer_group for entry in entries])
        self._about_no_group = [n for n, entry in enumerate(entries) if entry.consumer_group == "*"]
        self._near: dict[tuple[str, str | None], tuple[int, ...]] = {}
        self._chosen: dict[tuple[str, tuple[int, ...], str, Severity], RouteChoice] = {}
        self._choices: dict[tuple[str, tuple[int, ...], tuple[int, ...]], RouteChoice] = {}
        self._routes: dict[Route, Route] = {}

    def choose(
        self, team: str, cluster: str, *, rule_id: str, severity: Severity, consumer_group: str | None
    ) -> RouteChoice:
        """Return what holds for news about a group of a cluster, or about the cluster (`consumer_group` None)."""
        near = self._near.get((cluster, consumer_group))
        if near is None:
            near = self._near[cluster, consumer_group] = self._entries_near(cluster, consumer_group)
        key = (team, near, rule_id, severity)
        if key not in self._chosen:
            own = self._of_team(near, team, rule_id, severity)
            default = self._of_team(near, self._default_team, rule_id, severity)
            same = (team, own, default)
            if same not in self._choices:
                self._choices[same] = self._choice(team, own, default)
            self._chosen[key] = self._choices[same]
        return self._chosen[key]

    def _entries_near(self, cluster: str, consumer_group: str | None) -> tuple[int, ...]:
        found = self._about_no_group if consumer_group is None else self._by_group.matching(consumer_group)
        return tuple(n for n in found if matches(cluster, self._entries[n].cluster))

    def _of_team(self, near: Sequence[int], team: str, rule_id: str, severity: Severity) -> tuple[int, ...]:
        return tuple(
            n
            for n in near
            if matches(team, self._entries[n].team)
            and matches(rule_id, self._entries[n].rule)
            and severity.rank >= self._entries[n].severity.rank
        )

    def _choice(self, team: str, own: Sequence[int], default: Sequence[int]) -> RouteChoice:
        decided_by = self._deciders(own)
        values: dict[str, Any] = {name: getattr(self._entries[n], name) for name, n in decided_by.items()}
        heard_by, receivers_by, told = self._receivers(team, own, default)
        for name in DEFAULTS_IN_DELIVERY:
            values.setdefault(name, getattr(self._delivery, name))
        zone = zone_of(values["time_zone"])
        values["quiet_hours"] = tuple(map(quiet_hours, values.get("quiet_hours", ())))
        values["maintenance"] = tuple(
            Maintenance(
                moment_in(one.from_, zone), moment_in(one.to, zone), one.cluster, one.consumer_group, one.comment
            )
            for one in values.get("maintenance", ())
        )
        for name in RECEIVER_LISTS:
            values.pop(name, None)
        route = Route(team=team, heard_by=heard_by, receivers=told, **values)
        return RouteChoice(self._routes.setdefault(route, route), decided_by, receivers_by)

    def _deciders(self, positions: Sequence[int]) -> dict[str, int]:
        """Return for each field that an entry of these sets the first one that does."""
        found: dict[str, int] = {}
        for position in reversed(positions):
            found.update((name, position) for name in fields_set(self._entries[position]))
        return found

    def _receivers(
        self, team: str, own: Sequence[int], default: Sequence[int]
    ) -> tuple[str, dict[str, int], tuple[Any, ...]]:
        """Return who hears: the team, else the default team by its routes, else the default team's own list."""
        for heard_by, positions in ((team, own), (self._default_team, default), (self._default_team, ())):
            deciders = {name: n for name, n in self._deciders(positions).items() if name in RECEIVER_LISTS}
            lists = {
                name: getattr(self._entries[deciders[name]], name)
                if name in deciders
                else getattr(self._teams.get(heard_by), name, [])
                for name in RECEIVER_LISTS
            }
            told = receivers(lists)
            if told:
                return heard_by, deciders, told
        return self._default_team, {}, ()  # cannot be: a default team that nobody hears is refused


def fields_set(entry: RouteEntry) -> list[str]:
    """Return which fields of a route an entry sets."""
    return [name for name in SET_BY_ROUTES if getattr(entry, name) is not None]


def quiet_hours(entry: QuietHoursEntry) -> QuietHours:
    """Return quiet hours as they are compared with a clock."""
    days = DAYS if entry.days is None else entry.days
    return QuietHours(
        frozenset(map(DAYS.index, days)),
        time.fromisoformat(entry.from_),
        time.fromisoformat(entry.to),
        entry.severity_below,
    )
