"""What the judge reads: the published facts of one interval as typed records.

`published_facts.py` fills them from the Iceberg tables, `snapshot_facts.py` straight from a snapshot (`offsetguard
check`, without Spark). Field names and meanings are those of the columns in `tables/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from offsetguard.intervals import Interval
    from offsetguard.offsets import MessageQueue, QueueOffsets


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One suspect queue of one consumer group."""

    consumer_group: str
    message_queue: MessageQueue
    offsets: QueueOffsets
    last_timestamp: datetime | None
    lag_ms: int | None
    violated_invariants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One (consumer group, topic) over all its queues; sums are None when no queue is known."""

    consumer_group: str
    topic: str
    topic_kind: str | None
    queue_count: int
    unknown_queue_count: int
    never_committed_queue_count: int
    lag: int | None
    effective_lag: int | None
    inflight: int | None
    available: int | None
    lost: int | None
    lag_ms: int | None
    online_client_count: int | None
    message_model: str | None
    declared_orderly: bool | None = None
    lock_interval_ms: int | None = None
    lock_max_live_time_ms: int | None = None
    violated_invariants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetMoveFacts:
    """Moves of one (group, client, queue, requested offset) within the look-back window."""

    consumer_group: str
    client_id: str | None  # or its address
    topic: str
    broker_name: str
    queue_id: int | None  # None: a log line, and nothing else, tells of the move
    requested_offset: int
    corrected_offset: int
    move_count: int
    first_moved_at: datetime
    last_moved_at: datetime
    origin: str = "event"  # event, log or snapshot


@dataclass(frozen=True, slots=True)
class InvariantResult:
    """What one invariant found in the interval."""

    invariant_id: str
    table_name: str
    violation_means: str
    rows_checked: int
    violations: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectionGap:
    """Something that was asked for and not seen: a broker, or requests to one."""

    address: str
    broker_name: str | None  # None: a name server
    broker_id: int | None
    what: str  # e.g. "GET_TOPIC_STATS_INFO orders"
    outcome: str  # refused, timed_out, unreachable, connection_lost, undecodable
    reason: str


@dataclass(frozen=True, slots=True)
class IntervalFacts:
    """Everything that the rules may look at, for one cluster and interval. `now` is the interval's end."""

    cluster: str
    interval: Interval
    now: datetime
    queues: tuple[QueueFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    offset_moves: tuple[OffsetMoveFacts, ...] = ()
    invariant_results: tuple[InvariantResult, ...] = ()
    gaps: tuple[CollectionGap, ...] = ()
    unseen_broker_names: frozenset[str] = field(default_factory=frozenset)  # masters that gave no offsets
    cluster_unseen: bool = False  # no name server answered: nothing at all was seen
