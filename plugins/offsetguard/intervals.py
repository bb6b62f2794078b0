"""An interval: the span of time that one collection round stands for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

INTERVAL_LENGTH = timedelta(minutes=1)
_NAME_FORMAT = "%Y%m%dT%H%M%SZ"


class Interval(NamedTuple):
    """[start, start + 1 min), UTC. Every stage is a transaction on one of these."""

    start: datetime

    @classmethod
    def containing(cls, moment: datetime) -> Interval:
        """Return the interval that an aware moment falls into."""
        utc = moment.astimezone(UTC)
        return cls(utc.replace(second=0, microsecond=0))

    @classmethod
    def from_name(cls, name: str) -> Interval:
        """Read the folder name back, e.g. `20261121T103900Z`; raises ValueError."""
        return cls(datetime.strptime(name, _NAME_FORMAT).replace(tzinfo=UTC))

    @property
    def end(self) -> datetime:
        """The first moment after the interval."""
        return self.start + INTERVAL_LENGTH

    @property
    def name(self) -> str:
        """Folder and branch name: `20261121T103900Z`."""
        return self.start.strftime(_NAME_FORMAT)
