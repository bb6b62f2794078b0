"""All invariants. To find one by its id (`OG-Q03`), look in docs/invariants.md, which is made from this tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard_expectations import (
    broker_snapshots,
    broker_stats,
    client_queue_snapshots,
    group_snapshots,
    log_events,
    offset_moves,
    queue_snapshots,
    topic_queue_snapshots,
)

if TYPE_CHECKING:
    from offsetguard_expectations.invariant import Invariant

ALL: tuple[Invariant, ...] = (
    *broker_snapshots.INVARIANTS,
    *topic_queue_snapshots.INVARIANTS,
    *queue_snapshots.INVARIANTS,
    *group_snapshots.INVARIANTS,
    *client_queue_snapshots.INVARIANTS,
    *broker_stats.INVARIANTS,
    *offset_moves.INVARIANTS,
    *log_events.INVARIANTS,
)
