"""Invariants of what a round lands of itself and of logs: was it on time, whole, and next to the one before it.

Of `manifest`, `offset_moves` and `log_events`.
"""

from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.verdicts import Severity
from offsetguard.tables import LOG_EVENTS, MANIFEST, OFFSET_MOVES
from offsetguard_expectations.invariant import CORRECT_THE_CLOCKS, Invariant, ViolationMeans, shown

_INTERVAL_S = int(INTERVAL_LENGTH.total_seconds())
LATENESS_TOLERANCE_S = 600  # schedulers start rounds late: beyond ten minutes a snapshot says little of its interval

NO_INTERVAL_MISSING = Invariant(
    id="OG-I01",
    title="No interval is missing before this one",
    violation="Intervals are missing before this one",
    table=MANIFEST,
    applies_when="previous_interval_start IS NOT NULL",
    holds_when=f"unix_seconds(interval_start) - unix_seconds(previous_interval_start) <= {_INTERVAL_S}",
    example=(
        f"{shown('previous_interval_start')} || ' is the one before: '"
        f" || (unix_seconds(interval_start) - unix_seconds(previous_interval_start) - {_INTERVAL_S})"
        " || ' s without a snapshot'"
    ),
    meaning=(
        "Between this interval and the newest published one before it lie intervals without a snapshot: the scheduler"
        " stood still, the host was down, or rounds failed. What happened in between is unknown; windows and rates go"
        " over the gap and are coarser there."
    ),
    do_next="Look at the runs of `collect_and_judge` in that time. A moment that has passed cannot be collected again.",
)
ROUND_IN_TIME = Invariant(
    id="OG-I02",
    title="A snapshot is of its own interval",
    violation="The snapshot was taken at another time than its interval says",
    table=MANIFEST,
    holds_when=(
        f"unix_seconds(started_at) - unix_seconds(interval_start) BETWEEN 0 - {_INTERVAL_S} AND {LATENESS_TOLERANCE_S}"
    ),
    example="'interval ' || interval_start || ', round began at ' || started_at",
    meaning=(
        "The round began more than ten minutes after its interval, or before it: the scheduler is far behind, or our"
        " clock was set. The figures are those of the moment of reading, each with its time; lags in time are"
        " told for the end of the interval and are off by the difference."
    ),
    do_next="Look for a backlog in Airflow (`airflow jobs check`, pool slots), and at the clock of this host.",
)
ROUND_SHORT_ENOUGH = Invariant(
    id="OG-I03",
    title="A round ends within one interval",
    violation="The round took longer than an interval",
    table=MANIFEST,
    holds_when=f"unix_seconds(finished_at) - unix_seconds(started_at) BETWEEN 0 AND {_INTERVAL_S}",
    example="'began at ' || started_at || ', ended at ' || finished_at",
    meaning=(
        "Collecting took longer than the minute that it stands for, so offsets of one snapshot lie further apart than"
        " two snapshots should, and rounds will be left out. Or our clock was set back meanwhile (ended before it"
        " began)."
    ),
    do_next=(
        "Look in the manifest for brokers that time out; they cost the most. If all answer, the host is too small or"
        " too far away from the brokers."
    ),
)
EVERYTHING_SEEN = Invariant(
    id="OG-I04",
    title="Everything that was asked for was seen",
    violation="Something that was asked for was not seen",
    table=MANIFEST,
    holds_when="gap_count = 0 AND NOT cluster_unseen",
    example=(
        "gap_count || ' of ' || asked_count || ' requests gave nothing'"
        " || CASE WHEN cluster_unseen THEN '; no name server answered' ELSE '' END"
    ),
    meaning=(
        "Requests were refused, timed out or could not be read. What they would have told is unknown in this interval:"
        " the groups behind it are reported as unknown, never as healthy. `gaps.jsonl` beside the manifest names each"
        " one."
    ),
    do_next=(
        "Look at the findings `collection_incomplete`, `broker_unreachable` and `name_server_unreachable`, or at"
        " `gaps.jsonl`, for who did not answer, and why."
    ),
)
EVERY_MASTER_GAVE_OFFSETS = Invariant(
    id="OG-I05",
    title="Every listed master gave its offsets",
    violation="A master gave no offsets",
    table=MANIFEST,
    severity=Severity.CRITICAL,
    applies_when="master_count > 0",
    holds_when="unseen_masters IS NULL",
    example=f"{shown('unseen_masters')} || ' of ' || master_count || ' masters'",
    meaning=(
        "A master that the name server lists, or that the last round listed while no name server answers, gave no"
        " offsets. It may have answered other requests (then OG-S01 holds); the state of all queues on it is unknown."
    ),
    do_next="Check that the broker runs and that our address and account may ask it (`requests` in the manifest).",
)
NO_MASTER_VANISHED = Invariant(
    id="OG-I06",
    title="No master has vanished from the route",
    violation="A master has vanished from the route",
    table=MANIFEST,
    severity=Severity.CRITICAL,
    holds_when="missing_masters IS NULL",
    example="missing_masters || ' was listed by an earlier round and is not any more'",
    meaning=(
        "An earlier round of the last day saw a master that no name server lists now: the broker is down for longer"
        " than two minutes, or was taken away on purpose. Its queues are not in the figures at all."
    ),
    do_next="Start the broker again. If it was removed on purpose there is nothing to do: it is forgotten after a day.",
)
NOTHING_LANDED_TWICE = Invariant(
    id="OG-I07",
    title="Nothing landed twice",
    violation="Rows landed twice",
    table=MANIFEST,
    severity=Severity.INFO,
    applies_when="landed_count > 0",
    holds_when="duplicate_count = 0",
    example="duplicate_count || ' of ' || landed_count || ' rows repeat the key of another'",
    meaning=(
        "Several rows of the snapshot have one key. One of them is kept, the one that knows more, the same in every"
        " run. Usually two masters answer with one broker name, or an answer listed an entry twice."
    ),
    do_next="Look for two brokers with the same `brokerName` and `brokerId`: mqadmin's `clusterList` names them.",
)


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
