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

INVARIANTS = (EVERY_MASTER_ANSWERED, EVERY_SLAVE_ANSWERED)
