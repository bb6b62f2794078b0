"""Invariants of `offset_moves` and `log_events`."""

from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES
from offsetguard_expectations.invariant import CORRECT_THE_CLOCKS, Invariant, ViolationMeans, shown

MOVE_LATENESS_TOLERANCE_S = 86_400  # one day: a late run reads events that are younger than its interval
LINE_LATENESS_TOLERANCE_S = 7_200  # a run that is this late reads lines that are younger than its interval

_MOVE = (
    "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || COALESCE(queue_id || '', '?')"
    " || ' (' || origin || ' ' || position || ' of ' || source || ')'"
)

OFFSETS_NOT_NEGATIVE = Invariant(
    id="OG-M11",
    title="Offsets and queue numbers of offset moves are not negative",
    violation="An offset move names a negative offset",
    table=OFFSET_MOVES,
    violation_means=ViolationMeans.CORRUPT,
    stops_publication=False,
    holds_when="position >= 0 AND COALESCE(queue_id, 0) >= 0 AND requested_offset >= 0 AND corrected_offset >= 0",
    example=f"{_MOVE} || ': requested ' || requested_offset || ', corrected to ' || corrected_offset",
    meaning=(
        "An OFFSET_MOVED_EVENT or a log line names an offset below 0. A client asked for a position that no queue can"
        " have: usually a tool of one's own that pulls without having looked up the offset."
    ),
    do_next="Look at the row in the table `quarantine`; find the client of that group that pulls at a negative offset.",
)
MOVE_NOT_IN_THE_FUTURE = Invariant(
    id="OG-M12",
    title="Offset moves are not from the future",
    violation="An offset move is from the future",
    table=OFFSET_MOVES,
    violation_means=ViolationMeans.CORRUPT,
    stops_publication=False,
    holds_when=f"unix_seconds(moved_at) <= {MOVE_LATENESS_TOLERANCE_S} + unix_seconds(interval_start)",
    example=f"{_MOVE} || ': moved at ' || {shown('moved_at')} || ', interval ' || interval_start",
    meaning=(
        "The event was stored (the line was written) more than a day after the interval that reads it: the broker's"
        " clock is wrong, or the time zone of the log is declared wrongly. A run that was delayed for hours stays below"
        " this and keeps its events."
    ),
    do_next=CORRECT_THE_CLOCKS,
)

LINE_NOT_IN_THE_FUTURE = Invariant(
    id="OG-E11",
    title="Log lines are not from the future",
    violation="Log lines are from the future",
    table=LOG_EVENTS,
    violation_means=ViolationMeans.CORRUPT,
    stops_publication=False,
    applies_when="at IS NOT NULL",
    holds_when=f"unix_seconds(at) <= {LINE_LATENESS_TOLERANCE_S} + unix_seconds(interval_start)",
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
    stops_publication=False,
    holds_when="position >= 0 AND kind <> '' AND COALESCE(queue_id, 0) >= 0",
    example="kind || ' in ' || file || ' of ' || source || ' at byte ' || position",
    meaning=(
        "A line before the begin of its file, of no kind, or about a queue below 0. Lines are told apart by their"
        " place, so such a row would be counted again with every reading."
    ),
    do_next="Look at the row in the table `quarantine`, and run `offsetguard parse-log` on that file.",
)
