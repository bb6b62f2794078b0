"""Invariants of `broker_snapshots`: who answered in this interval."""

from __future__ import annotations

from offsetguard.tables import BROKER_SNAPSHOTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans

_REPLICA = "broker_name || ' (broker id ' || broker_id || ') at ' || address"

EVERY_MASTER_ANSWERED = Invariant(
    id="OG-S01",
    title="Every master answered",
    violation="A master did not answer",
    table=BROKER_SNAPSHOTS,
    violation_means=ViolationMeans.TROUBLE,
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
    violation_means=ViolationMeans.TROUBLE,
    applies_when="broker_id <> 0",
    holds_when="answered",
    example=EVERY_MASTER_ANSWERED.example,
    meaning=(
        "A slave that the name server lists gave no answer in this interval. Offsets come from masters and are"
        " complete, but reads and fail-over that count on this slave may not work."
    ),
    do_next="Check that the slave runs, can be reached, and replicates: `mqadmin brokerStatus -b ADDRESS`.",
)

AHEAD_TOLERANCE_BYTES = 1_073_741_824  # one commit log file: a slave may be read later than its master
SLAVE_NOT_AHEAD = Invariant(
    id="OG-S04",
    title="No slave is ahead of its master",
    violation="A slave has more in its commit log than its master",
    table=BROKER_SNAPSHOTS,
    violation_means=ViolationMeans.TROUBLE,
    applies_when="broker_id <> 0 AND slave_behind_bytes IS NOT NULL",
    holds_when=f"slave_behind_bytes >= 0 - {AHEAD_TOLERANCE_BYTES}",
    example=f"{_REPLICA} || ': ' || (0 - slave_behind_bytes) || ' bytes ahead of its master'",
    meaning=(
        "The commit log of a slave goes on for more than 1 GiB where its master's has ended. The master lost its newest"
        " messages (a crash without flush, a restored disk), or another master took the name: what groups consumed"
        " last may not exist any more. What is written between the reading of the two stays below 1 GiB."
    ),
    do_next=(
        "Compare `commitLogMaxOffset` of both (`mqadmin brokerStatus`) and the master's restart time before either is"
        " restarted; the slave may be the only copy of the newest messages."
    ),
)

INVARIANTS = (EVERY_MASTER_ANSWERED, EVERY_SLAVE_ANSWERED, SLAVE_NOT_AHEAD)
