"""Topics, and what was usual of their traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.facts.queues import QueueSums

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class TopicFacts(QueueSums):
    """One topic over all its queues and groups; sums are None when nothing is known."""

    topic: str
    topic_kind: str | None
    queue_count: int
    consumer_group_count: int
    message_count: int | None
    max_offset_total: int | None = None
    counted_at: datetime | None = None
    produce_tps: float | None = None
    put_tps: float | None = None
    last_update_at: datetime | None = None
    broker_count: int | None = None
    read_queue_count: int | None = None
    write_queue_count: int | None = None
    read_write_differ: bool | None = None
    unreadable_queue_count: int | None = None
    unreadable_message_count: int | None = None
    unwritten_queue_count: int | None = None
    unwritten_message_count: int | None = None
    unwritten_queues_used: bool | None = None
    perm: int | None = None
    baseline_tps: float | None = None
    baseline_spread_tps: float | None = None
    baseline_week_count: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficHour:
    """What was written to a topic in the hour that has just passed, and in the same hour of earlier weeks."""

    topic: str
    hour_start_at: datetime
    hour_tps: float
    usual_tps: float  # mean of the earlier weeks
    usual_spread_tps: float  # their standard deviation
    week_count: int  # earlier weeks
