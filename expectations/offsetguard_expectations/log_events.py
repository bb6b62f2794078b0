"""Invariants of `log_events`: recognised lines of logs."""

from __future__ import annotations

from offsetguard.model.verdicts import Severity
from offsetguard.tables import LOG_EVENTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans

LATENESS_TOLERANCE_S = 7_200  # a run that is this late reads lines that are younger than its interval

TIME_NOT_IN_THE_FUTURE = Invariant(
    id="OG-E11",
    title="Log lines are not from the future",
    violation="Log lines are from the future",
    table=LOG_EVENTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    stops_publication=False,
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

PLACE_IS_KNOWN = Invariant(
    id="OG-E12",
    title="Log lines have a place in their file",
    violation="A log line has no place in its file",
    table=LOG_EVENTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    stops_publication=False,
    applies_when="TRUE",
    holds_when="position >= 0 AND kind <> '' AND COALESCE(queue_id, 0) >= 0",
    example="kind || ' in ' || file || ' of ' || source || ' at byte ' || position",
    meaning=(
        "A line before the begin of its file, of no kind, or about a queue below 0. Lines are told apart by their"
        " place, so such a row would be counted again with every reading."
    ),
    do_next="Look at the row in the table `quarantine`, and run `offsetguard parse-log` on that file.",
)

INVARIANTS = (TIME_NOT_IN_THE_FUTURE, PLACE_IS_KNOWN)
