"""Section `judgement`: spans of time that the rules look at, and what brokers may be off by."""

from typing import Annotated

from offsetguard.config.fields import Milliseconds
from offsetguard.constraints import NO_OTHER_FIELDS, Number
from offsetguard.records import record


@record(kw_only=True)
class Judgement:
    """Spans of time that the rules look at, and what brokers may be off by."""

    __pydantic_config__ = NO_OTHER_FIELDS

    offset_move_window_ms: Milliseconds = 30 * 60_000  # how far back moved offsets of a group are counted together
    traffic_weeks: Annotated[int, Number(ge=2, le=52)] = 3  # earlier weeks without which no traffic is called unusual
    log_window_ms: Milliseconds = 30 * 60_000  # of log lines about rebalance locks and subscriptions
    clock_skew_ms: Annotated[int, Number(ge=2_000)] = 10_000  # a broker's clock that is off by more is wrong
    slave_behind_ms: Milliseconds = 60_000  # a slave lacks at least so much of what its master writes: a finding
    disk_full_within_ms: Milliseconds = 4 * 3_600_000  # a disk from which files go by force within it: a finding
