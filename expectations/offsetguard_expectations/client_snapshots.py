"""Invariants of `client_snapshots`: clients as brokers list them and as they describe themselves."""

from __future__ import annotations

from offsetguard.model.verdicts import Severity
from offsetguard.tables import CLIENT_SNAPSHOTS
from offsetguard_expectations.invariant import SKEW_TOLERANCE_S, Invariant, ViolationMeans, shown

_CLIENT = "client_id || ' of ' || consumer_group || ' on ' || broker_name"

CLOCK_NOT_AHEAD = Invariant(
    id="OG-C01",
    title="The clock of a client is not ahead of ours",
    violation="The clock of a client is ahead of ours",
    table=CLIENT_SNAPSHOTS,
    violation_means=ViolationMeans.TROUBLE,
    severity=Severity.INFO,
    applies_when="consumer_start_at IS NOT NULL AND running_info_read_at IS NOT NULL",
    holds_when=f"unix_seconds(consumer_start_at) <= {SKEW_TOLERANCE_S} + unix_seconds(running_info_read_at)",
    example=f"{_CLIENT} || ': started at ' || consumer_start_at || ', read at ' || running_info_read_at",
    meaning=(
        "By its own clock the client was started after we asked it. What it says of its last pull, its last message and"
        " its last lock renewal is wrong by as much, and a group that starts from a time (`consumeTimestamp`) starts"
        " elsewhere than its owner thinks."
    ),
    do_next="Correct the clock of that client's host (`chronyc tracking`).",
)
COUNTS_IN_RANGE = Invariant(
    id="OG-C13",
    title="Counts of clients are in their range",
    violation="A client reports counts that cannot be",
    table=CLIENT_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    stops_publication=False,
    applies_when="TRUE",
    holds_when=(
        "broker_id >= 0 AND COALESCE(thread_count, 0) >= 0 AND COALESCE(cached_message_count, 0) >= 0"
        " AND COALESCE(cached_message_mib, 0) >= 0 AND COALESCE(locked_queue_count, 0) >= 0"
        " AND COALESCE(locked_queue_count, 0) <= COALESCE(held_queue_count, locked_queue_count, 0)"
        " AND COALESCE(consume_ok_tps, 0) >= 0 AND COALESCE(consume_failed_tps, 0) >= 0"
    ),
    example=(
        f"{_CLIENT} || ': threads ' || {shown('thread_count')} || ', queues held ' || {shown('held_queue_count')}"
        f" || ', locked ' || {shown('locked_queue_count')} || ', cached ' || {shown('cached_message_count')}"
    ),
    meaning=(
        "A client counts fewer than 0 of something, or has locked more queues than it holds. The client counts wrongly,"
        " or its running info was misread by us."
    ),
    do_next="Look at the row in the table `quarantine` and at language and version of that client.",
)

INVARIANTS = (CLOCK_NOT_AHEAD, COUNTS_IN_RANGE)
