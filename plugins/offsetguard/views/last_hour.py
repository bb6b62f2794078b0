"""What waited in each group over an hour, for the small pictures of the fleet.

It is kept in memory, and of each publication only the minute that it published is read: a page costs no history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine

from offsetguard.lake.reading import FactReader, Source, numbers_of
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import GROUP_FACTS

_Lags = np.ndarray[Any, Any]
Lags = tuple[int | None, ...]  # messages, of each two minutes the greatest, oldest first; None: not known
STEPS, STEP = 30, 2  # intervals
_MINUTES = STEPS * STEP
_LATE = 5  # steps: ten minutes
_COLUMNS = ("consumer_group", "interval_start", "effective_lag", "system_group")
# Of each group and minute what is known to wait.
_LAGS = """
SELECT consumer_group, list(place) AS places, list(lag) AS lags FROM (
  SELECT consumer_group, (epoch_us(interval_start) - epoch_us($since)) // 60000000 AS place,
    TRY_CAST(sum(effective_lag) AS BIGINT) AS lag
  FROM groups WHERE system_group IS NOT TRUE GROUP BY ALL HAVING lag IS NOT NULL
) GROUP BY ALL
"""


class Trend(StrEnum):
    """Where what waits is going: all that is known of the last ten minutes beside all of the ten before."""

    RISING = "rising"  # lies above it
    FALLING = "falling"  # lies below it
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Hour:
    """What waited in each minute of an hour, of some groups."""

    rows: Mapping[str, int] = field(default_factory=dict)  # by group
    lags: _Lags = field(default_factory=lambda: np.empty((0, _MINUTES)))  # of each row, oldest first; NaN: not known

    def steps(self, group: str) -> Lags:
        """Return a group's hour in steps; none of a group that is not in it."""
        if (row := self.rows.get(group)) is None:
            return ()
        greatest = np.fmax.reduceat(self.lags[row], range(0, _MINUTES, STEP))
        return tuple(None if np.isnan(one) else int(one) for one in greatest)


class _Kept(NamedTuple):
    newest: PublishedInterval
    hour: Hour


class LastHours:
    """Reads of one workspace, from any number of threads. Raises PublishError as FactReader does."""

    def __init__(self, reader: FactReader, engine: Engine) -> None:
        self._reader, self._engine = reader, engine
        self._kept: dict[str, _Kept] = {}

    def __call__(self, newest: PublishedInterval) -> Hour:
        """Return what waited in the hour that ends with a cluster's newest interval."""
        cluster, end, kept = newest.cluster, newest.interval.end, self._kept.get(newest.cluster)
        if kept is not None and kept.newest.run_id == newest.run_id:
            return kept.hour
        since = first = end - _MINUTES * INTERVAL_LENGTH
        hour = Hour()
        if kept is not None and first < kept.newest.interval.end <= end:
            # who publishes reads the clock before others see it: what was published a little before counts, too
            published = published_intervals.published_since(
                self._engine, cluster, kept.newest.published_at - INTERVAL_LENGTH
            )
            since = min((kept.newest.interval.end, *(one for one in published if one >= first)))
            hour = _until(since, first, kept)
        found = self._reader.query(_LAGS, cluster, since, end, groups=Source(GROUP_FACTS, _COLUMNS))
        hour = _with(hour, found, (since - first) // INTERVAL_LENGTH)
        self._kept[cluster] = _Kept(newest, hour)
        return hour


def _until(since: datetime, first: datetime, kept: _Kept) -> Hour:
    """Return what is kept of [first, since), in its places of the hour that begins at `first`."""
    count = (since - first) // INTERVAL_LENGTH
    moved = _MINUTES - (kept.newest.interval.end - first) // INTERVAL_LENGTH
    lags = np.full_like(kept.hour.lags, np.nan)
    lags[:, :count] = kept.hour.lags[:, moved : moved + count]
    known = np.flatnonzero(~np.isnan(lags).all(axis=1))
    groups = list(kept.hour.rows)
    return Hour({groups[row]: place for place, row in enumerate(known)}, lags[known])


def _with(hour: Hour, found: pa.Table, places: int) -> Hour:
    """Return an hour with rows of _LAGS, whose places begin so many later; thousands of groups at once."""
    names = found["consumer_group"].to_pylist()
    new = (name for name in names if name not in hour.rows)
    rows = {**hour.rows, **{name: row for row, name in enumerate(new, start=len(hour.rows))}}
    lags = np.full((len(rows), _MINUTES), np.nan)
    lags[: len(hour.rows)] = hour.lags
    of_group = np.fromiter((rows[name] for name in names), int, len(names))
    of_each = np.repeat(of_group, numbers_of(pc.list_value_length(found["places"])))
    at, waiting = (numbers_of(pc.list_flatten(found[name])) for name in ("places", "lags"))
    lags[of_each, at + places] = waiting
    return Hour(rows, lags)


def trend_of(lags: Sequence[int | None]) -> Trend | None:
    """Return where it is going; None: of one of the ten minutes nothing is known."""
    before, late = ([one for one in part if one is not None] for part in (lags[-2 * _LATE : -_LATE], lags[-_LATE:]))
    if not before or not late:
        return None
    return Trend.RISING if min(late) > max(before) else Trend.FALLING if max(late) < min(before) else Trend.STEADY
