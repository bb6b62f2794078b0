"""What `facts/*.sql` ask for besides rows: the interval, how far to look back, limits. Each is defined elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from offsetguard.config.groups import Judgement
from offsetguard.facts.traffic_baselines import (
    FIRST_MINUTES,
    HOUR,
    REMEMBERED_WEEKS,
    earlier_rows,
    hour_containing,
    hour_of_week,
)
from offsetguard.model.rocketmq import LOCK_SILENCE, SILENCE
from offsetguard.tables.queue_state import MISSED_PARTS, WINDOW

KEPT_FOR = timedelta(hours=24)  # a queue without samples
# What is said is landed by the round that reads it; a broker's clock may be ahead of ours by this much.
_CLOCK_SKEW = timedelta(minutes=10)
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
        "oldest_move_interval": ends_at - move_window - _CLOCK_SKEW,
        "lock_silence_us": LOCK_SILENCE // _MICROSECOND,
        "log_silence_us": SILENCE // _MICROSECOND,
        "last_seen_since": interval_start - _COMPARED_WITHIN,
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
