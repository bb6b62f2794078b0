"""Usual traffic by hour of the week, folded hour by hour: nobody reads weeks of history to know what is usual.

When an hour has passed, the first interval after it knows how much was written (or committed) since the hour's first
minutes, from two counters. That figure joins the row of the same hour one week before and makes this week's row. So
each row holds all weeks before it, and only later intervals read it: a backfill changes its own rows and nothing newer.
A week that was not seen is skipped; after OLDEST_WEEKS without the hour, the baseline starts again.
`facts/traffic_baselines.sql` folds.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from offsetguard.tables.facts import Baseline

WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
OLDEST_WEEKS = 5  # how far back the row before is looked for
REMEMBERED_WEEKS = 8  # the newest week counts at least as one of so many: traffic grows, old habits fade
FIRST_MINUTES = timedelta(minutes=5)  # of an hour, in which its counter must have been seen


def unfold(after: Baseline, hour_tps: float) -> Baseline | None:
    """Return the baseline that became this one with that hour; None when there was none before."""
    if after.week_count <= 1:
        return None
    weight = max(1.0 / after.week_count, 1.0 / REMEMBERED_WEEKS)
    mean = (after.mean_tps - weight * hour_tps) / (1.0 - weight)
    variance = after.spread_tps * after.spread_tps / (1.0 - weight) - weight * (hour_tps - mean) ** 2
    return Baseline(max(0.0, mean), math.sqrt(max(0.0, variance)), after.week_count - 1)


def hour_of_week(moment: datetime) -> int:
    """Return 0 for Monday 00:00 to 00:59 UTC, up to 167."""
    utc = moment.astimezone(UTC)
    return utc.weekday() * 24 + utc.hour


def hour_that_passed(interval_start: datetime) -> datetime | None:
    """Return the start of the hour that has just passed; None unless the interval is the first one of an hour."""
    return None if interval_start.minute or interval_start.second else interval_start - HOUR


def earlier_rows(hour_start: datetime) -> list[datetime]:
    """Return the interval starts of rows that know the hour of the week of `hour_start`, newest first."""
    return [hour_start + HOUR - weeks * WEEK for weeks in range(1, OLDEST_WEEKS + 1)]


def hour_containing(interval_start: datetime) -> datetime:
    """Return the start of the hour that an interval lies in."""
    return interval_start.replace(minute=0, second=0, microsecond=0)
