"""What `facts/*.sql` ask for besides rows: the interval, how far to look back, limits. Each is defined elsewhere.

Usual traffic by hour of the week, folded hour by hour: nobody reads weeks of history to know what is usual.

When an hour has passed, the first interval after it knows how much was written (or committed) since the hour's first
minutes, from two counters. That figure joins the row of the same hour one week before and makes this week's row. So
each row holds all weeks before it, and only later intervals read it: a backfill changes its own rows and nothing newer.
A week that was not seen is skipped; after OLDEST_WEEKS without the hour, the baseline starts again.
`facts/traffic_baselines.sql` folds.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.config.groups import Judgement
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.rocketmq import LEAST_SYNC_LINES, LOCK_SILENCE, SILENCE, SYNC_LASTS, SYNC_SILENCE
from offsetguard.tables.facts import Baseline
from offsetguard.tables.queue_state import MISSED_PARTS, WINDOW

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


KEPT_FOR = timedelta(hours=24)  # a queue without samples
# What is said is landed by the round that reads it; a broker's clock may be ahead of ours by this much.
_CLOCK_SKEW = timedelta(minutes=10)
_TRACE = timedelta(minutes=10)  # a move that was told shows in offsets by the next round, some of which may be missed
_COMPARED_WITHIN = timedelta(minutes=10)  # a counter that is older is not compared with
_MOST_CLIENTS = 20  # that a list of their ids names
_MICROSECOND = timedelta(microseconds=1)


def parameters_of(judgement: Judgement, interval_start: datetime, ends_at: datetime) -> dict[str, Any]:
    """Return the parameters of facts about an interval.

    `ends_at`: its end; of several moments the first one's, and the start is that of the last one's interval.
    """
    log_window = timedelta(milliseconds=judgement.log_window_ms)
    move_window = timedelta(milliseconds=judgement.offset_move_window_ms)
    hour = hour_containing(interval_start)
    weeks = earlier_rows(hour)
    passed = interval_start - HOUR
    weeks_before = earlier_rows(passed)
    return fold_parameters(interval_start) | {
        "log_window_us": log_window // _MICROSECOND,
        "oldest_log_interval": ends_at - log_window - _CLOCK_SKEW,
        "move_window_us": move_window // _MICROSECOND,
        "told_move_window_us": (move_window + _TRACE) // _MICROSECOND,
        "oldest_move_interval": ends_at - move_window - _TRACE - _CLOCK_SKEW,
        "lock_silence_us": LOCK_SILENCE // _MICROSECOND,
        "log_silence_us": SILENCE // _MICROSECOND,
        "least_sync_lines": LEAST_SYNC_LINES,
        "sync_lasts_us": SYNC_LASTS // _MICROSECOND,
        "sync_silence_us": SYNC_SILENCE // _MICROSECOND,
        "oldest_compared": ends_at - INTERVAL_LENGTH - _COMPARED_WITHIN,
        "compared_within_us": _COMPARED_WITHIN // _MICROSECOND,
        "hour_of_week": hour_of_week(hour),
        "oldest_baseline": weeks[-1],
        "newest_baseline": weeks[0],
        "hour_start": passed,
        "hour_first_until": passed + FIRST_MINUTES,
        "passed_hour_of_week": hour_of_week(passed),
        "oldest_week_before": weeks_before[-1],
        "newest_week_before": weeks_before[0],
        "remembered_weeks": REMEMBERED_WEEKS,
        "most_clients": _MOST_CLIENTS,
    }


def fold_parameters(
    interval_start: datetime, *, first_interval_start: datetime | None = None, window: timedelta = WINDOW
) -> dict[str, Any]:
    """Return the parameters of the fold up to an interval; of many, from the first one on."""
    return {
        "interval_start": interval_start,
        "first_interval_start": first_interval_start,
        "window_us": window // _MICROSECOND,
        "missed_us": window // MISSED_PARTS // _MICROSECOND,
        "kept_for_us": KEPT_FOR // _MICROSECOND,
    }
