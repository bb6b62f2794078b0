"""Intervals, which everything belongs to, and moments and time zones as people write them.

Moments: `2026-11-22T01:30:00+08:00`, `2026-11-22 01:30`, `2026-11-22`. Zones: `+08:00`, `UTC`, `Asia/Shanghai`.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from offsetguard.model.errors import ConfigError

INTERVAL_LENGTH = timedelta(minutes=1)
NAME_FORMAT = "%Y%m%dT%H%M%SZ"


class Interval(NamedTuple):
    """[start, start + 1 min), UTC. Every stage is a transaction on one of these."""

    start: datetime

    @classmethod
    def containing(cls, moment: datetime) -> "Interval":
        """Return the interval that an aware moment falls into."""
        utc = moment.astimezone(UTC)
        return cls(utc.replace(second=0, microsecond=0))

    @classmethod
    def from_name(cls, name: str) -> "Interval":
        """Read the folder name back, e.g. `20261121T103900Z`; raises ValueError."""
        return cls(datetime.strptime(name, NAME_FORMAT).replace(tzinfo=UTC))

    @property
    def end(self) -> datetime:
        """The first moment after the interval."""
        return self.start + INTERVAL_LENGTH

    @property
    def name(self) -> str:
        """Folder and branch name: `20261121T103900Z`."""
        return self.start.strftime(NAME_FORMAT)


Minute = tuple[str, Interval]  # an interval of a cluster


NOT_A_MOMENT = (
    "is not a moment: write '2026-11-22 01:30' (in quotes; with +08:00 or Z behind it where the zone differs)"
)


def local_moment(text: str) -> datetime:
    """Return the moment that a text means, without a zone where it names none; raises ConfigError."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} {NOT_A_MOMENT}") from error


def moment_in(text: str, zone: tzinfo) -> datetime:
    """Return the moment that a text means to a reader in `zone`, aware; raises ConfigError."""
    moment = local_moment(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


NOT_A_TIME_ZONE = "is not a time zone: write '+08:00' (in quotes), UTC, or a name such as Asia/Shanghai"
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")


def zone_of(name: str) -> tzinfo:
    """Return the zone that a name means; raises ConfigError where there is none such on this machine."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        length = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-length if sign == "-" else length)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"{name!r} {NOT_A_TIME_ZONE}") from error
