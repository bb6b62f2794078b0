"""All invariants. To find one by its id (`OG-Q03`), look in docs/invariants.md, which is made from this tuple."""

from __future__ import annotations

from offsetguard_expectations import (
    broker_snapshots,
    broker_stats,
    client_queue_snapshots,
    client_snapshots,
    fact_tables,
    group_snapshots,
    levels,
    log_events,
    manifest,
    offset_moves,
    queue_snapshots,
    queue_state,
    topic_queue_snapshots,
    topic_settings,
)
from offsetguard_expectations.agreement import Agreement
from offsetguard_expectations.invariant import Invariant

Check = Invariant | Agreement  # what the gate has a result for

ROW_INVARIANTS: tuple[Invariant, ...] = (
    *manifest.INVARIANTS,
    *broker_snapshots.INVARIANTS,
    *topic_settings.INVARIANTS,
    *topic_queue_snapshots.INVARIANTS,
    *queue_snapshots.INVARIANTS,
    *group_snapshots.INVARIANTS,
    *client_snapshots.INVARIANTS,
    *client_queue_snapshots.INVARIANTS,
    *broker_stats.INVARIANTS,
    *offset_moves.INVARIANTS,
    *log_events.INVARIANTS,
    *queue_state.INVARIANTS,
    *fact_tables.INVARIANTS,
)
AGREEMENTS: tuple[Agreement, ...] = levels.AGREEMENTS
_CHECKS: tuple[Check, ...] = (*ROW_INVARIANTS, *AGREEMENTS)
_TABLES = list(dict.fromkeys(check.table.name for check in _CHECKS))
ALL: tuple[Check, ...] = tuple(sorted(_CHECKS, key=lambda check: _TABLES.index(check.table.name)))
