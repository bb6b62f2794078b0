"""One suspect queue of a consumer group, and what several queues have in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from offsetguard.offsets import MessageQueue, QueueOffsets
    from offsetguard.queue_state import QueueState
    from offsetguard.verdicts import QueueVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSums:
    """The columns LAGS of `tables/columns.py`, and how many queues are suspect; None: nothing is known.

    Sums are over what is known; ages are the greatest known.
    """

    suspect_queue_count: int | None = None
    lag: int | None = None
    effective_lag: int | None = None
    inflight: int | None = None
    available: int | None = None
    lost: int | None = None
    lag_ms: int | None = None
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One suspect queue of one consumer group."""

    consumer_group: str
    message_queue: MessageQueue
    offsets: QueueOffsets
    last_timestamp: datetime | None
    lag_ms: int | None
    violated_invariants: tuple[str, ...] = ()
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None
    lag_ms_basis: str | None = None  # end_reached, measured, interpolated, extrapolated
    holder_client_id: str | None = None  # who says that it holds the queue; the figures below are the holder's
    holder_count: int | None = None
    locked: bool | None = None
    cached_message_count: int | None = None
    cached_min_offset: int | None = None
    cached_max_offset: int | None = None
    cache_is_full: bool | None = None
    last_lock_at: datetime | None = None
    last_pull_at: datetime | None = None
    last_consume_at: datetime | None = None
    produce_tps: float | None = None  # between the newest two samples
    consume_tps: float | None = None
    window: QueueState | None = None  # None: published by an earlier release
    verdict: QueueVerdict | None = None  # given by `windows.judge_queues`; None: not judged yet
