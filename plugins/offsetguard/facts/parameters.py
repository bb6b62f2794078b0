"""What `facts/*.sql` ask for besides rows: the interval, how far to look back, limits. Each is defined elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from offsetguard.log_kinds import SILENCE
from offsetguard.rebalance_lock import LOCK_SILENCE

if TYPE_CHECKING:
    from datetime import datetime

    from offsetguard.config.judgement import Judgement
    from offsetguard.intervals import Interval

# What is said is landed by the round that reads it; a broker's clock may be ahead of ours by this much.
_CLOCK_SKEW = timedelta(minutes=10)
_MOST_CLIENTS = 20  # that a list of their ids names
_MICROSECOND = timedelta(microseconds=1)


def parameters_of(judgement: Judgement, interval: Interval, now: datetime) -> dict[str, Any]:
    """Return the parameters of facts about an interval. `now`: ages count up to it, windows end there."""
    logs = now - timedelta(milliseconds=judgement.log_window_ms)
    moves = now - timedelta(milliseconds=judgement.offset_move_window_ms)
    return {
        "interval_start": interval.start,
        "now": now,
        "log_since": logs,
        "oldest_log_interval": logs - _CLOCK_SKEW,
        "moves_since": moves,
        "oldest_move_interval": moves - _CLOCK_SKEW,
        "lock_silence_us": LOCK_SILENCE // _MICROSECOND,
        "log_silence_us": SILENCE // _MICROSECOND,
        "most_clients": _MOST_CLIENTS,
    }
