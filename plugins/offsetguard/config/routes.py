"""Section `routes`: who hears what, when, in which language; and what holds in the end for one piece of news."""

from dataclasses import dataclass
from datetime import datetime, time
from typing import Annotated, Literal

from offsetguard.config.fields import (
    ConnectionId,
    Glob,
    Line,
    MailAddress,
    Milliseconds,
    MillisecondsOrNone,
    Moment,
    Name,
    SlackChannelName,
    TimeOfDay,
    TimeZone,
)
from offsetguard.config.sections import KEYS_AS_IN_THE_FILE
from offsetguard.constraints import NO_OTHER_FIELDS, Count, Flag, NotEmpty, Number
from offsetguard.languages import Language
from offsetguard.receivers import Receiver
from offsetguard.severity import Severity

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")  # as datetime.weekday() counts


@dataclass(frozen=True, kw_only=True)
class QuietHoursEntry:
    """Hours in which what is less severe waits, in the route's zone; over midnight when `to` is not after `from`."""

    __pydantic_config__ = KEYS_AS_IN_THE_FILE

    days: Annotated[list[Day], NotEmpty()] | None = None  # days on which they begin; None: every day
    from_: TimeOfDay
    to: TimeOfDay
    severity_below: Severity = Severity.CRITICAL


@dataclass(frozen=True, kw_only=True)
class MaintenanceEntry:
    """A span in which nothing is told, however severe."""

    __pydantic_config__ = KEYS_AS_IN_THE_FILE

    from_: Moment
    to: Moment
    cluster: Glob = "*"
    consumer_group: Glob = "*"
    comment: Line = ""


@dataclass(frozen=True, kw_only=True)
class RouteEntry:
    """What holds for the news that the patterns match; for each field the first entry that sets it wins."""

    __pydantic_config__ = NO_OTHER_FIELDS

    team: Glob = "*"
    cluster: Glob = "*"
    consumer_group: Glob = "*"  # "*" also matches news that is about no group in particular
    rule: Glob = "*"
    severity: Severity = Severity.INFO  # at least
    mail: list[MailAddress] | None = None
    slack: list[SlackChannelName] | None = None
    slack_webhooks: list[ConnectionId] | None = None
    language: Language | None = None
    time_zone: TimeZone | None = None
    group_wait_ms: MillisecondsOrNone | None = None
    group_interval_ms: Milliseconds | None = None
    repeat_interval_ms: Milliseconds | None = None
    send_resolved: Flag | None = None
    quiet_hours: list[QuietHoursEntry] | None = None
    maintenance: list[MaintenanceEntry] | None = None
    escalate_after_repeats: Annotated[int, Number(ge=1)] | None = None
    escalate_after_ms: Milliseconds | None = None
    escalate_to: Name | None = None
    digest_above: Count | None = None


@dataclass(frozen=True, slots=True)
class QuietHours:
    """What is below `severity_below` waits from `starts` to `ends`, local time, on days that begin on `weekdays`.

    `ends` not after `starts`: they end on the next day.
    """

    weekdays: frozenset[int]  # 0 = Monday
    starts: time
    ends: time
    severity_below: Severity


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
    """What holds for one piece of news, with every field filled in; equal routes are the same object."""

    team: str  # that the news belongs to
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
