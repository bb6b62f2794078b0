"""Invariants of `broker_snapshots` and `broker_stats`: who answered, and what replicas count."""

from offsetguard.model.verdicts import Severity
from offsetguard.tables import BROKER_SNAPSHOTS, BROKER_STATS
from offsetguard_expectations.invariant import CORRECT_THE_CLOCKS, SKEW_TOLERANCE_S, Invariant, ViolationMeans, shown

_REPLICA = "broker_name || ' (broker id ' || broker_id || ') at ' || address"

EVERY_MASTER_ANSWERED = Invariant(
    id="OG-S01",
    title="Every master answered",
    violation="A master did not answer",
    table=BROKER_SNAPSHOTS,
    severity=Severity.CRITICAL,
    applies_when="broker_id = 0",
    holds_when="answered",
    example=f"{_REPLICA} || ': ' || COALESCE(failure, 'no reason recorded')",
    meaning=(
        "A master that the name server lists gave no answer in this interval. Nothing is known about the queues on it,"
        " so the groups that read them are reported as unknown, never as healthy."
    ),
    do_next=(
        "Check that the broker runs and can be reached from the host of OffsetGuard at that address (the address that"
        " the broker registered: `brokerIP1` in `broker.conf`). If it runs, look for full queues in its `remoting.log`."
    ),
)
EVERY_SLAVE_ANSWERED = Invariant(
    id="OG-S03",
    title="Every slave answered",
    violation="A slave did not answer",
    table=BROKER_SNAPSHOTS,
    applies_when="broker_id <> 0",
    holds_when="answered",
    example=EVERY_MASTER_ANSWERED.example,
    meaning=(
        "A slave that the name server lists gave no answer in this interval. Offsets come from masters and are"
        " complete, but reads and fail-over that count on this slave may not work."
    ),
    do_next="Check that the slave runs, can be reached, and replicates; mqadmin's `brokerStatus` shows how far it is.",
)

AHEAD_TOLERANCE_BYTES = 1_073_741_824  # one commit log file: a slave may be read later than its master
SLAVE_NOT_AHEAD = Invariant(
    id="OG-S04",
    title="No slave is ahead of its master",
    violation="A slave has more in its commit log than its master",
    table=BROKER_SNAPSHOTS,
    severity=Severity.CRITICAL,
    applies_when="broker_id <> 0 AND slave_behind_bytes IS NOT NULL",
    holds_when=f"slave_behind_bytes >= 0 - {AHEAD_TOLERANCE_BYTES}",
    example=f"{_REPLICA} || ': ' || (0 - slave_behind_bytes) || ' bytes ahead of its master'",
    meaning=(
        "The commit log of a slave goes on for more than 1 GiB where its master's has ended. The master lost its newest"
        " messages (a crash without flush, a restored disk), or another master took the name: what groups consumed"
        " last may not exist any more. What is written between the reading of the two stays below 1 GiB."
    ),
    do_next=(
        "Compare `commitLogMaxOffset` of both (in mqadmin's `brokerStatus`) and the master's restart time before either"
        " is restarted; the slave may be the only copy of the newest messages."
    ),
)

COMMIT_LOG_IN_ORDER = Invariant(
    id="OG-S05",
    title="A commit log begins before it ends",
    violation="A commit log begins beyond its end",
    table=BROKER_SNAPSHOTS,
    severity=Severity.CRITICAL,
    applies_when="commit_log_min_offset IS NOT NULL AND commit_log_max_offset IS NOT NULL",
    holds_when="commit_log_min_offset <= commit_log_max_offset",
    example=f"{_REPLICA} || ': begins at byte ' || commit_log_min_offset || ', ends at ' || commit_log_max_offset",
    meaning=(
        "The broker's oldest byte is newer than its newest: its commit log was truncated or its files were taken away"
        " under it. Messages are lost, and queues will point at what is not there."
    ),
    do_next="Look into `store.log` of the broker and save its commit log folder, before it is restarted or repaired.",
)
CLOCK_NOT_AHEAD = Invariant(
    id="OG-S06",
    title="A broker was not started in the future",
    violation="A broker was started in the future",
    table=BROKER_SNAPSHOTS,
    applies_when="boot_at IS NOT NULL AND read_at IS NOT NULL",
    holds_when=f"unix_seconds(boot_at) <= {SKEW_TOLERANCE_S} + unix_seconds(read_at)",
    example=f"{_REPLICA} || ': started at ' || boot_at || ', read at ' || read_at",
    meaning=(
        "By its own clock the broker was started after we asked it: its clock is ahead of ours, or ours is behind."
        " Retention deletes by the broker's clock, and every age from it is wrong by the difference."
    ),
    do_next=CORRECT_THE_CLOCKS,
)
FIGURES_IN_RANGE = Invariant(
    id="OG-S11",
    title="Figures of brokers are in their range",
    violation="A broker reports figures that cannot be",
    table=BROKER_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    holds_when=(
        "broker_id >= 0 AND COALESCE(commit_log_disk_ratio, 0) BETWEEN 0 AND 1"
        " AND COALESCE(commit_log_min_offset, 0) >= 0 AND COALESCE(commit_log_max_offset, 0) >= 0"
        " AND COALESCE(put_tps, 0) >= 0 AND COALESCE(get_found_tps, 0) >= 0 AND COALESCE(get_transferred_tps, 0) >= 0"
    ),
    example=(
        f"{_REPLICA} || ': commit log ' || {shown('commit_log_min_offset')} || ' to '"
        f" || {shown('commit_log_max_offset')} || ', disk ratio ' || {shown('commit_log_disk_ratio')}"
        f" || ', messages per second written ' || {shown('put_tps')} || ', found ' || {shown('get_found_tps')}"
        f" || ', handed out ' || {shown('get_transferred_tps')}"
    ),
    meaning=(
        "A size, a share of a disk or a rate is outside of what it can be. The broker reports wrongly (a counter that"
        " ran over, a clock that was set back), or its answer was misread by us."
    ),
    do_next="Look at the row in the table `quarantine` and compare it with mqadmin's `brokerStatus` of that broker.",
)


RATES_NOT_NEGATIVE = Invariant(
    id="OG-R11",
    title="Rates and sums of replicas are not negative",
    violation="A replica reports a negative rate",
    table=BROKER_STATS,
    violation_means=ViolationMeans.CORRUPT,
    stops_publication=False,
    holds_when="tps >= 0 AND minute_sum >= 0 AND average >= 0 AND hour_sum >= 0 AND day_sum >= 0",
    example=(
        "stats_name || ' ' || stats_key || ' on ' || broker_name || ' (broker id ' || broker_id || '): ' || tps"
        " || ' per second, sums ' || minute_sum || ', ' || hour_sum || ', ' || day_sum || ', average ' || average"
    ),
    meaning=(
        "Replicas count what they were asked for and add it up, so nothing below 0 can be right. A counter that ran"
        " over, a clock of the replica that was set back within the last minute, or an answer that we misread."
    ),
    do_next="Look at the row in the table `quarantine`, and at the clock of that replica around that time.",
)
