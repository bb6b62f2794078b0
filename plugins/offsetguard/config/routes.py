"""Sections `teams` and `routes`: who is notified of what, when, how, in which language.

From the entries of `routes` to the one Route of a notification: per field the first entry that sets it wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from functools import cached_property
from types import GenericAlias
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import Field, StrictBool, StrictInt, create_model

from offsetguard.catalogue.text import Language
from offsetguard.config import fields
from offsetguard.config.fields import (
    ConnectionId,
    ConsoleUrl,
    Count,
    Entry,
    Glob,
    Line,
    MailAddress,
    Milliseconds,
    MillisecondsOrNone,
    Moment,
    Name,
    Section,
    TimeOfDay,
    TimeZone,
    WebUrl,
    first_to_set,
    matcher,
    matches,
)
from offsetguard.model.intervals import moment_in, zone_of
from offsetguard.model.notification import DECLARED, LISTS_FOR_ALL, RECEIVER_LISTS, Channel, Receiver
from offsetguard.model.verdicts import Severity

SectionT = TypeVar("SectionT", bound=Section)


class Delivery(Section):
    """When and through what messages go out."""

    group_wait_ms: MillisecondsOrNone = 0  # from the first incident to the first message: more may come and fit in
    group_interval_ms: Milliseconds = 5 * 60_000  # from a message to the next one with something new about its cause
    repeat_interval_ms: Milliseconds = 4 * 3_600_000  # from a message to the next one with nothing new
    notify_within_ms: Milliseconds = 15 * 60_000  # older intervals are recorded as history and never sent
    send_resolved: StrictBool = True  # tell when it is over, with duration and peak
    language: Language = Language.EN  # of messages
    time_zone: TimeZone = "UTC"  # of times in messages
    digest_above: Count = 10  # more messages than this to one mail address or robot at once become one
    daily_report_at: TimeOfDay | None = None  # in the team's zone; without it: no daily report
    mail_connection: ConnectionId = "offsetguard_smtp"  # Airflow connection of type SMTP
    mail_from: MailAddress = "offsetguard@localhost"  # sender of mails
    slack_connection: ConnectionId = "offsetguard_slack"  # Airflow connection of type Slack API, with a bot token
    receivers_may_lead_inward: StrictBool = False  # `webhooks` of teams may name addresses of this host or network
    alertmanagers: list[ConnectionId] = []  # Airflow connections of Alertmanagers; each gets all that is open
    heartbeat_connection: ConnectionId | None = None  # with the address (password) that hears whether all is well
    silent_after_ms: Milliseconds = 10 * 60_000  # a cluster in which nothing was judged for so long is told
    undelivered_after_ms: Milliseconds = 15 * 60_000  # a due message that waits for so long is told
    page_url: WebUrl | None = None  # where readers reach the Airflow UI, for links
    console_url: ConsoleUrl | None = None  # of a group where its team acts, with {cluster}, {consumer_group}, {topic}

    @cached_property
    def receivers(self) -> tuple[Receiver, ...]:
        """Those that get all that is open: a default team that names nobody is told by them."""
        return receivers(self.model_dump(), LISTS_FOR_ALL)

    def console_address(self, cluster: str, consumer_group: str | None, topic: str | None) -> str | None:
        """Return the address of a group in the console; None without a template, or for what is about no group."""
        if self.console_url is None or consumer_group is None:
            return None
        names = {"cluster": cluster, "consumer_group": consumer_group, "topic": topic or ""}
        return self.console_url.format(**{name: quote(value, safe="") for name, value in names.items()})


def _with_receivers(section: type[SectionT]) -> type[SectionT]:
    """Give a section a list of receivers for each channel, and a team those whom it calls; in a route None is unset."""
    lists: dict[str, Any] = {}
    for one in (DECLARED[channel] for channel in RECEIVER_LISTS.values()):
        receivers = GenericAlias(list, getattr(fields, one.receiver))
        if issubclass(section, Entry):
            lists[one.receivers] = receivers | None, Field(None, description="instead of the team's own; [] is nobody")
        else:
            lists[one.receivers] = receivers, Field([], description=one.meaning)
            if one.mentions is not None:
                lists[one.mentions_list] = list[fields.Mention], Field([], description=one.mentions)
    return create_model(section.__name__, __base__=section, __doc__=section.__doc__, __module__=__name__, **lists)


@_with_receivers
class Team(Section):
    """Who is told, and how."""

    daily_report_at: TimeOfDay | None = None  # without it: as in `delivery`


def receivers(lists: Mapping[str, Any], channels: Mapping[str, Channel] = RECEIVER_LISTS) -> tuple[Receiver, ...]:
    """Return each receiver of the lists of a team or route once; `channels`: of which lists, in their order."""
    return tuple((channel, name) for field, channel in channels.items() for name in dict.fromkeys(lists[field]))


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")  # as datetime.weekday() counts


class QuietHours(Section):
    """Hours in which what is less severe waits, in the route's zone; over midnight when `to` is not after `from`."""

    days: Annotated[list[Day], Field(min_length=1)] | None = None  # days on which they begin; without it: every day
    from_: TimeOfDay = Field(alias="from")  # in quotes, by the route's clock
    to: TimeOfDay  # likewise; not after `from`: on the next day
    severity_below: Severity = Severity.CRITICAL  # what is not less severe is told at once all the same

    @cached_property
    def weekdays(self) -> frozenset[int]:
        """The days on which they begin; 0 = Monday."""
        return frozenset(map(DAYS.index, self.days or DAYS))

    @cached_property
    def starts(self) -> time:
        """When they begin, by the route's clock."""
        return time.fromisoformat(self.from_)

    @cached_property
    def ends(self) -> time:
        """When they end; not after `starts`: on the next day."""
        return time.fromisoformat(self.to)


class MaintenanceEntry(Section):
    """A span in which nothing is told, however severe."""

    from_: Moment = Field(alias="from")  # in quotes; by the route's clock, or with an offset: 2026-12-01T22:00+08:00
    to: Moment  # likewise; the first moment after it
    cluster: Glob = "*"  # glob on the cluster's name
    consumer_group: Glob = "*"  # glob; "*" also covers what is about no group in particular
    comment: Line = ""  # stands beside what was muted


@_with_receivers
class RouteEntry(Entry):
    """What holds for the notifications that the patterns match; for each field the first entry that sets it wins."""

    team: Glob = "*"  # glob on the team that owns the group; the default team for brokers and clusters
    cluster: Glob = "*"  # glob on the cluster's name
    consumer_group: Glob = "*"  # "*" also matches what is about no group in particular
    rule: Glob = "*"  # glob on the rule's id, as at the foot of each message; daily_report: the daily report
    severity: Severity = Severity.INFO  # at least
    language: Language | None = None  # of messages
    time_zone: TimeZone | None = None  # of times in messages, and the clock of quiet hours and maintenance
    group_wait_ms: MillisecondsOrNone | None = None  # as in delivery
    group_interval_ms: Milliseconds | None = None  # as in delivery
    repeat_interval_ms: Milliseconds | None = None  # as in delivery
    send_resolved: StrictBool | None = None  # as in delivery
    quiet_hours: list[QuietHours] | None = None  # when what is less severe waits
    maintenance: list[MaintenanceEntry] | None = None  # when nothing is told
    escalate_after_repeats: Annotated[StrictInt, Field(ge=1)] | None = None  # repeats that nobody acknowledged, or ...
    escalate_after_ms: Milliseconds | None = None  # ... time since it was first told, whichever comes first
    escalate_to: Name | None = None  # team that is told then, too; its own routes say how, and may lead further
    digest_above: Count | None = None  # as in delivery


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Nothing is told of what the patterns match from `starts_at` to `ends_at` (aware, exclusive)."""

    starts_at: datetime
    ends_at: datetime
    cluster: str
    consumer_group: str
    comment: str


@dataclass(frozen=True, slots=True)
class Route:
    """What holds for one notification, with every field filled in."""

    team: str  # that owns what it is about
    heard_by: str  # the team whose receivers they are: the default team where `team` has none
    receivers: tuple[Receiver, ...]  # never empty, each once
    language: Language
    time_zone: str
    group_wait_ms: int
    group_interval_ms: int
    repeat_interval_ms: int
    send_resolved: bool
    digest_above: int
    quiet_hours: tuple[QuietHours, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    escalate_after_repeats: int | None = None  # None: not by repeats
    escalate_after_ms: int | None = None  # None: not by time
    escalate_to: str | None = None  # None: nobody


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
RouteEntry.SETS = tuple(
    dict.fromkeys(one for one in (*RECEIVER_LISTS, *RouteEntry.key_names()) if one not in MATCHED_BY)
)


@dataclass(frozen=True, slots=True)
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
        self._matchers = [matcher(entry.consumer_group) for entry in entries]
        self._near: dict[tuple[str, str | None], tuple[int, ...]] = {}
        self._chosen: dict[tuple[str, tuple[int, ...], str, Severity], RouteChoice] = {}

    def choose(
        self, team: str, cluster: str, *, rule_id: str, severity: Severity, consumer_group: str | None
    ) -> RouteChoice:
        """Return what holds for notifications about a group, or about the cluster (`consumer_group` None)."""
        near = self._near.get((cluster, consumer_group))
        if near is None:
            near = self._near[cluster, consumer_group] = self._entries_near(cluster, consumer_group)
        key = (team, near, rule_id, severity)
        if key not in self._chosen:
            own = self._of_team(near, team, rule_id, severity)
            default = self._of_team(near, self._default_team, rule_id, severity)
            self._chosen[key] = self._choice(team, own, default)
        return self._chosen[key]

    def _entries_near(self, cluster: str, consumer_group: str | None) -> tuple[int, ...]:
        return tuple(
            n
            for n, (entry, match) in enumerate(zip(self._entries, self._matchers, strict=True))
            if (entry.consumer_group == "*" if consumer_group is None else match(consumer_group))
            and matches(cluster, entry.cluster)
        )

    def _of_team(self, near: Sequence[int], team: str, rule_id: str, severity: Severity) -> tuple[int, ...]:
        return tuple(
            n
            for n in near
            if matches(team, self._entries[n].team)
            and matches(rule_id, self._entries[n].rule)
            and severity.rank >= self._entries[n].severity.rank
        )

    def _choice(self, team: str, own: Sequence[int], default: Sequence[int]) -> RouteChoice:
        decided_by = first_to_set(self._entries, own)
        values: dict[str, Any] = {name: getattr(self._entries[n], name) for name, n in decided_by.items()}
        heard_by, receivers_by, found = self._receivers(team, own, default)
        for name in DEFAULTS_IN_DELIVERY:
            values.setdefault(name, getattr(self._delivery, name))
        zone = zone_of(values["time_zone"])
        values["quiet_hours"] = tuple(values.get("quiet_hours", ()))
        values["maintenance"] = tuple(
            Maintenance(
                moment_in(one.from_, zone), moment_in(one.to, zone), one.cluster, one.consumer_group, one.comment
            )
            for one in values.get("maintenance", ())
        )
        for name in RECEIVER_LISTS:
            values.pop(name, None)
        route = Route(team=team, heard_by=heard_by, receivers=found, **values)
        return RouteChoice(route, decided_by, receivers_by)

    def _receivers(
        self, team: str, own: Sequence[int], default: Sequence[int]
    ) -> tuple[str, dict[str, int], tuple[Any, ...]]:
        """Return who is notified: the team, else the default team by its routes or its own list, else who gets all."""
        for heard_by, positions in ((team, own), (self._default_team, default), (self._default_team, ())):
            deciders = {name: n for name, n in first_to_set(self._entries, positions).items() if name in RECEIVER_LISTS}
            lists = {
                name: getattr(self._entries[deciders[name]], name)
                if name in deciders
                else getattr(self._teams.get(heard_by), name, [])
                for name in RECEIVER_LISTS
            }
            found = receivers(lists)
            if found:
                return heard_by, deciders, found
        return self._default_team, {}, self._delivery.receivers  # never empty: a file that names nobody is refused
