"""Time zones as people write them: `+08:00`, `UTC`, `Asia/Shanghai`."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo

from offsetguard.model.errors import ConfigError

NOT_A_TIME_ZONE = "is not a time zone: write '+08:00' (in quotes), UTC, or a name such as Asia/Shanghai"
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")


def zone_of(name: str) -> tzinfo:
    """Return the zone that a name means; raises ConfigError where there is none such on this machine."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        length = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-length if sign == "-" else length)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 most commands name no zone

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"{name!r} {NOT_A_TIME_ZONE}") from error
