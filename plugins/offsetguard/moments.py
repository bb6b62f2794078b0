"""Moments as people write them: `2026-11-22T01:30:00+08:00`, `2026-11-22 01:30`, `2026-11-22`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from offsetguard.errors import ConfigError

if TYPE_CHECKING:
    from datetime import tzinfo

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
