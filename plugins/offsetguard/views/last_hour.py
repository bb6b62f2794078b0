"""What waited in each group over an hour, for the small pictures of the fleet.

It is kept in memory, and of each publication only the minute that it published is read: a page costs no history.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Engine

from offsetguard.lake.reading import FactReader, Source
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import GROUP_FACTS

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


class _Kept(NamedTuple):
    newest: PublishedInterval
    minutes: Mapping[str, np.ndarray[Any, Any]]  # by group its lags, oldest first; NaN: not known


class LastHours:
    """Reads of one workspace, from any number of threads. Raises PublishError as FactReader does."""

    def __init__(self, reader: FactReader, engine: Engine) -> None:
        self._reader, self._engine = reader, engine
        self._kept: dict[str, _Kept] = {}

    def __call__(self, newest: PublishedInterval) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return by group what waited in each minute of the hour that ends with a cluster's newest interval."""
        cluster, end, kept = newest.cluster, newest.interval.end, self._kept.get(newest.cluster)
        if kept is not None and kept.newest.run_id == newest.run_id:
            return kept.minutes
        since = first = end - _MINUTES * INTERVAL_LENGTH
        minutes: dict[str, np.ndarray[Any, Any]] = {}
        if kept is not None and first < kept.newest.interval.end <= end:
            # who publishes reads the clock before others see it: what was published a little before counts, too
            published = published_intervals.published_since(
                self._engine, cluster, kept.newest.published_at - INTERVAL_LENGTH
            )
            since = min((kept.newest.interval.end, *(one for one in published if one >= first)))
            minutes = _until(since, first, kept)
        found = self._reader.query(_LAGS, cluster, since, end, groups=Source(GROUP_FACTS, _COLUMNS))
        for row in found.to_pylist():
            lags = minutes.setdefault(row["consumer_group"], np.full(_MINUTES, np.nan))
            lags[np.array(row["places"]) + (since - first) // INTERVAL_LENGTH] = row["lags"]
        self._kept[cluster] = _Kept(newest, minutes)
        return minutes


def _until(since: datetime, first: datetime, kept: _Kept) -> dict[str, np.ndarray[Any, Any]]:
    """Return what is kept of [first, since), in its places of the hour that begins at `first`."""
    count = (since - first) // INTERVAL_LENGTH
    moved = _MINUTES - (kept.newest.interval.end - first) // INTERVAL_LENGTH
    if not kept.minutes:
        return {}
    hours = np.full((len(kept.minutes), _MINUTES), np.nan)
    hours[:, :count] = np.stack([*kept.minutes.values()])[:, moved : moved + count]
    is_known = ~np.isnan(hours).all(axis=1)
    return {group: lags for group, lags, known in zip(kept.minutes, hours, is_known, strict=True) if known}


def steps_of(minutes: np.ndarray[Any, Any] | None) -> Lags:
    """Return a group's hour in steps; none of a group that is not in it."""
    if minutes is None:
        return ()
    greatest = np.fmax.reduceat(minutes, range(0, _MINUTES, STEP))
    return tuple(None if np.isnan(one) else int(one) for one in greatest)


def trend_of(lags: Sequence[int | None]) -> Trend | None:
    """Return where it is going; None: of one of the ten minutes nothing is known."""
    before, late = ([one for one in part if one is not None] for part in (lags[-2 * _LATE : -_LATE], lags[-_LATE:]))
    if not before or not late:
        return None
    return Trend.RISING if min(late) > max(before) else Trend.FALLING if max(late) < min(before) else Trend.STEADY
