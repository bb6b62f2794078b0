"""Consumer groups: with a topic, and who is online."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.facts.queues import QueueSums

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class GroupFacts(QueueSums):
    """One (consumer group, topic) over all its queues; sums are None when no queue is known."""

    consumer_group: str
    topic: str
    topic_kind: str | None
    queue_count: int
    unknown_queue_count: int
    never_committed_queue_count: int
    online_client_count: int | None
    message_model: str | None
    declared_orderly: bool | None = None
    lock_interval_ms: int | None = None
    lock_max_live_time_ms: int | None = None
    violated_invariants: tuple[str, ...] = ()
    consume_type: str | None = None
    # rates, over every replica that was seen
    broker_count: int | None = None
    produce_tps: float | None = None
    consume_tps: float | None = None
    get_tps: float | None = None
    master_get_tps: float | None = None
    slave_get_tps: float | None = None
    unseen_rate_count: int | None = None
    reads_moved_to_slave: bool | None = None
    slave_read_broker_names: tuple[str, ...] | None = None  # brokers on which they moved
    slave_read_since: datetime | None = None  # or earlier
    send_back_tps: float | None = None
    filtered: bool | None = None
    hit_ratio: float | None = None
    consumer_offset_total: int | None = None
    counted_at: datetime | None = None
    # what the clients that were asked say
    told_client_count: int | None = None
    holding_client_count: int | None = None
    idle_client_count: int | None = None
    held_queue_count: int | None = None
    locked_queue_count: int | None = None
    full_cache_queue_count: int | None = None
    cached_message_count: int | None = None
    renewal_gap_ms: int | None = None
    thread_count: int | None = None
    orderly: bool | None = None
    parallelism: int | None = None
    max_reconsume_times: int | None = None
    consume_ok_tps: float | None = None
    consume_failed_tps: float | None = None
    consume_rt_ms: float | None = None
    newest_client_start_at: datetime | None = None
    client_versions: tuple[str, ...] | None = None
    doubled_client_ids: tuple[str, ...] | None = None
    subscription_expressions: tuple[str, ...] | None = None
    subscriptions_differ: bool | None = None
    # of the whole group
    system_group: bool | None = None
    retry_max_times: int | None = None
    consume_enabled: bool | None = None
    which_broker_when_consume_slowly: int | None = None
    members_differ: bool | None = None
    members_differ_since: datetime | None = None  # or earlier
    missing_members: tuple[str, ...] | None = None  # `client_id broker_name`: who is missing where
    retry_message_count: int | None = None
    retry_growth: int | None = None
    dead_letter_message_count: int | None = None
    dead_letter_growth: int | None = None
    consumption: str | None = None  # classic or pop
    consumption_evidence: str | None = None
    pop_available: int | None = None
    pop_inflight: int | None = None
    pop_inflight_origin: str | None = None
    pop_unfinished_since: datetime | None = None  # something was in flight at every look since, nothing was finished
    lite_topic_count: int | None = None
    lite_lag: int | None = None
    suspect_reason: str | None = None
    in_detail: bool | None = None
    # commits at this hour of the week in earlier weeks
    baseline_tps: float | None = None
    baseline_spread_tps: float | None = None
    baseline_week_count: int | None = None


@dataclass(frozen=True, slots=True)
class OnlineGroupFacts:
    """A consumer group with clients online; one that broadcasts has no queue with an offset, and so no GroupFacts."""

    consumer_group: str
    message_model: str
    online_client_count: int | None
