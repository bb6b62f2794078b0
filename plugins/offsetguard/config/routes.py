"""Section `routes`: who hears what, when, in which language; and what holds in the end for one piece of news."""

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
from offsetguard.records import record
from offsetguard.severity import Severity

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")  # as datetime.weekday() counts


@record(kw_only=True)
class QuietHoursEntry:
    """Hours in which what is less severe waits, in the route's zone; over midnight when `to` is not after `from`."""

    __pydantic_config__ = KEYS_AS_IN_THE_FILE

    days: Annotated[list[Day], NotEmpty()] | None = None  # days on which they begin; without it: every day
    from_: TimeOfDay  # in quotes, by the route's clock
    to: TimeOfDay  # likewise; not after `from`: on the next day
    severity_below: Severity = Severity.CRITICAL  # what is not less severe is told at once all the same


@record(kw_only=True)
class MaintenanceEntry:
    """A span in which nothing is told, however severe."""

    __pydantic_config__ = KEYS_AS_IN_THE_FILE

    from_: Moment  # in quotes; by the route's clock, or with an offset: 2026-12-01T22:00+08:00
    to: Moment  # likewise; the first moment after it
    cluster: Glob = "*"  # glob on the cluster's name
    consumer_group: Glob = "*"  # glob; "*" also covers what is about no group in particular
    comment: Line = ""  # stands beside what was muted


@record(kw_only=True)
class RouteEntry:
    """What holds for the news that the patterns match; for each field the first entry that sets it wins."""

    __pydantic_config__ = NO_OTHER_FIELDS

    team: Glob = "*"  # glob on the team that owns the group; the default team for brokers and clusters
    cluster: Glob = "*"  # glob on the cluster's name
    consumer_group: Glob = "*"  # "*" also matches news that is about no group in particular
    rule: Glob = "*"  # glob on the rule's id, as at the foot of each message; daily_report: the daily report
    severity: Severity = Severity.INFO  # at least
    mail: list[MailAddress] | None = None  # instead of the team's own; [] is nobody by mail
    slack: list[SlackChannelName] | None = None  # likewise
    slack_webhooks: list[ConnectionId] | None = None  # likewise
    language: Language | None = None  # of messages
    time_zone: TimeZone | None = None  # of times in messages, and the clock of quiet hours and maintenance
    group_wait_ms: MillisecondsOrNone | None = None  # as in delivery
    group_interval_ms: Milliseconds | None = None  # as in delivery
    repeat_interval_ms: Milliseconds | None = None  # as in delivery
    send_resolved: Flag | None = None  # as in delivery
    quiet_hours: list[QuietHoursEntry] | None = None  # when less severe news waits
    maintenance: list[MaintenanceEntry] | None = None  # when nothing is told
    escalate_after_repeats: Annotated[int, Number(ge=1)] | None = None  # repeats that nobody acknowledged, or ...
    escalate_after_ms: Milliseconds | None = None  # ... time since it was first told, whichever comes first
    escalate_to: Name | None = None  # team that is told then, too; its own routes say how, and may lead further
    digest_above: Count | None = None  # as in delivery


@record
class QuietHours:
    """What is below `severity_below` waits from `starts` to `ends`, local time, on days that begin on `weekdays`.

    `ends` not after `starts`: they end on the next day.
    """

    weekdays: frozenset[int]  # 0 = Monday
    starts: time
    ends: time
    severity_below: Severity


@record
class Maintenance:
    """Nothing is told of what the patterns match from `starts_at` to `ends_at` (aware, exclusive)."""

    starts_at: datetime
    ends_at: datetime
    cluster: str
    consumer_group: str
    comment: str


@record
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
