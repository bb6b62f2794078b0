"""Sums and growth of figures of which some are unknown (None)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

Number = TypeVar("Number", int, float)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def sum_of_known(values: Iterable[Number | None]) -> Number | None:
    """Sum over the values that are known; None when none is (as SQL's SUM)."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def epoch_ms(moment: datetime | None) -> int | None:
    """Return whole milliseconds since 1970, rounded down (as Spark's unix_millis)."""
    return None if moment is None else (moment - _EPOCH) // _MILLISECOND


def milliseconds_between(earlier: datetime | None, later: datetime | None) -> int | None:
    """Return the time from one moment to another in whole ms; None when one is unknown."""
    start, end = epoch_ms(earlier), epoch_ms(later)
    return None if start is None or end is None else end - start


def growth(now: int | None, before: int | None) -> int | None:
    """Return by how much a counter grew; None when a side is unknown or it went back (recreated)."""
    return None if now is None or before is None or now < before else now - before


def per_second(grown: int | None, since_ms: int | None) -> float | None:
    """Return a growth per second; None when it is unknown or no time has passed."""
    if grown is None or since_ms is None or since_ms <= 0:
        return None
    return float(grown) * 1000.0 / float(since_ms)
