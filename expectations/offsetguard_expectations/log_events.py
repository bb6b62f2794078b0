"""Invariants of `log_events`: recognised lines of logs."""

from __future__ import annotations

from offsetguard.tables import LOG_EVENTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans

LATENESS_TOLERANCE_S = 7_200  # a run that is this late reads lines that are younger than its interval

TIME_NOT_IN_THE_FUTURE = Invariant(
    id="OG-E11",
    title="Log lines are not from the future",
    violation="Log lines are from the future",
    table=LOG_EVENTS,
    violation_means=ViolationMeans.CORRUPT,
    applies_when="at IS NOT NULL",
    holds_when=f"unix_seconds(at) <= {LATENESS_TOLERANCE_S} + unix_seconds(interval_start)",
    example="kind || ' in ' || file || ' of ' || source || ' at byte ' || position || ': ' || at",
    meaning=(
        "A line of a log is more than two hours younger than the interval that reads it. Nearly always the time zone of"
        " the source is declared wrongly: brokers write GMT+8 wherever they run, 4.x clients the zone of their host."
        " All times of that source are wrong then, also the ones that only lie in the past."
    ),
    do_next="Correct `time_zone` of that log source in `config/offsetguard.yml`, or the clock of the host.",
)

INVARIANTS = (TIME_NOT_IN_THE_FUTURE,)
