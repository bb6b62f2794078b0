"""Broker replicas, their commit logs over days, and the whole cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.facts.queues import QueueSums

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesInAll(QueueSums):
    """What all queues of a broker, or of a cluster, have in all."""

    consumed_queue_count: int | None = None
    unknown_queue_count: int | None = None
    topic_queue_count: int | None = None
    message_count: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerFacts(QueuesInAll):
    """One broker replica; what queues have in all stands on the master's."""

    broker_name: str
    broker_id: int
    listed: bool
    answered: bool | None
    failure: str | None = None
    slave_count: int | None = None
    version: str | None = None
    role: str | None = None
    active: bool | None = None
    boot_at: datetime | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    commit_log_min_offset: int | None = None
    commit_log_max_offset: int | None = None
    commit_log_growth: int | None = None
    commit_log_growth_ms: int | None = None
    commit_log_disk_ratio: float | None = None
    earliest_message_at: datetime | None = None
    dispatch_behind_bytes: int | None = None
    slave_behind_bytes: int | None = None
    page_cache_lock_time_ms: int | None = None
    send_queue_size: int | None = None
    send_queue_head_wait_ms: int | None = None
    pull_queue_size: int | None = None
    pull_queue_head_wait_ms: int | None = None
    clock_ahead_ms: int | None = None
    slave_read_enable: bool | None = None
    file_reserved_time_hours: int | None = None
    delete_when: str | None = None
    disk_max_used_space_ratio: int | None = None
    disk_clean_forcibly_ratio: int | None = None
    clean_file_forcibly: bool | None = None
    commit_log_file_bytes: int | None = None
    commit_log_disk_bytes: int | None = None
    access_message_in_memory_max_ratio: int | None = None
    broker_permission: int | None = None
    rocketmq_cluster: str | None = None
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """How far a master's commit log reached at a moment of the last days: about one an hour (`store.broker_marks`)."""

    broker_name: str
    at: datetime
    commit_log_min_offset: int
    commit_log_max_offset: int
    earliest_message_at: datetime | None
    disk_ratio: float | None


@dataclass(frozen=True, slots=True)
class ClusterFacts(QueuesInAll):
    """The whole cluster: sums over its brokers, and what its groups have in all."""

    broker_count: int
    replica_count: int
    answered_replica_count: int
    topic_count: int
    consumer_group_count: int
    online_group_count: int | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    slave_get_tps: float | None = None
    retry_growth: int | None = None
    dead_letter_growth: int | None = None
    max_disk_ratio: float | None = None
    max_slave_behind_bytes: int | None = None
