"""What the judge reads: the published facts of one interval as typed records.

`published_facts.py` fills them from the Iceberg tables, `snapshot_facts.py` straight from a snapshot (`offsetguard
check`, without Spark). Field names and meanings are those of the columns in `tables/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from offsetguard.intervals import Interval
    from offsetguard.offsets import MessageQueue, QueueOffsets
    from offsetguard.queue_state import QueueState
    from offsetguard.verdicts import QueueVerdict, State


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
    cache_is_full: bool | None = None
    last_lock_at: datetime | None = None
    last_pull_at: datetime | None = None
    last_consume_at: datetime | None = None
    produce_tps: float | None = None  # between the newest two samples
    consume_tps: float | None = None
    window: QueueState | None = None  # None: published by an earlier release
    verdict: QueueVerdict | None = None  # given by `windows.judge_queues`; None: not judged yet


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
    suspect_queue_count: int | None = None
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None
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
class TopicFacts:
    """One topic over all its queues and groups; sums are None when nothing is known."""

    topic: str
    topic_kind: str | None
    queue_count: int
    consumer_group_count: int
    message_count: int | None
    lag: int | None = None
    effective_lag: int | None = None
    inflight: int | None = None
    available: int | None = None
    lost: int | None = None
    lag_ms: int | None = None
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None
    suspect_queue_count: int | None = None
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
class BrokerFacts:
    """One broker replica; what queues have in all stands on the master's."""

    broker_name: str
    broker_id: int
    listed: bool
    answered: bool | None
    failure: str | None = None
    consumed_queue_count: int | None = None
    unknown_queue_count: int | None = None
    suspect_queue_count: int | None = None
    topic_queue_count: int | None = None
    message_count: int | None = None
    lag: int | None = None
    effective_lag: int | None = None
    inflight: int | None = None
    available: int | None = None
    lost: int | None = None
    lag_ms: int | None = None
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None
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
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The whole cluster: sums over its brokers, and what its groups have in all."""

    broker_count: int
    replica_count: int
    answered_replica_count: int
    topic_count: int
    consumer_group_count: int
    online_group_count: int | None = None
    consumed_queue_count: int | None = None
    unknown_queue_count: int | None = None
    suspect_queue_count: int | None = None
    topic_queue_count: int | None = None
    message_count: int | None = None
    lag: int | None = None
    effective_lag: int | None = None
    inflight: int | None = None
    available: int | None = None
    lost: int | None = None
    lag_ms: int | None = None
    inflight_ms: int | None = None
    available_ms: int | None = None
    lost_ms: int | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    slave_get_tps: float | None = None
    retry_growth: int | None = None
    dead_letter_growth: int | None = None
    max_disk_ratio: float | None = None
    max_slave_behind_bytes: int | None = None


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
class LockWaitFacts:
    """One wait for a queue's rebalance lock within the look-back window."""

    consumer_group: str
    topic: str
    broker_name: str
    queue_id: int
    holder_client_id: str | None  # None: only a client's log tells of the wait
    waiter_client_id: str | None
    told_by: str  # broker or client
    refusal_count: int
    first_refused_at: datetime
    last_refused_at: datetime
    ended_at: datetime | None  # None: it still waits, or gave up
    ended_by: str | None  # expired or released
    next_holder_client_id: str | None
    waited_ms: int
    holder_online: bool | None = None  # at the interval; None: no holder is named, or the connections were not seen
    holder_start_at: datetime | None = None  # the process of that client id that is online


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """One (consumer group, topic) whose subscription changed, or whose members subscribe differently."""

    consumer_group: str
    topic: str
    refreshed_count: int = 0  # without another expression: noise
    changed_count: int = 0
    added_count: int = 0
    removed_count: int = 0
    first_changed_at: datetime | None = None
    last_changed_at: datetime | None = None
    changed_from: str | None = None
    changed_to: str | None = None
    changed_expressions: tuple[str, ...] = ()
    member_count: int = 0  # members whose own subscriptions were seen
    member_expressions: tuple[str, ...] = ()
    broker_expressions: tuple[str, ...] = ()
    losing_member_count: int | None = None  # None: what brokers hold was not seen
    losing_client_ids: tuple[str, ...] = ()
    unsubscribed_member_count: int = 0
    unsubscribed_client_ids: tuple[str, ...] = ()
    newest_member_start_at: datetime | None = None
    mismatch: bool = False


@dataclass(frozen=True, slots=True)
class OnlineGroupFacts:
    """A consumer group with clients online; one that broadcasts has no queue with an offset, and so no GroupFacts."""

    consumer_group: str
    message_model: str
    online_client_count: int | None


@dataclass(frozen=True, slots=True)
class LogLineFacts:
    """Lines of one kind that one log has about a group, within the look-back window."""

    consumer_group: str
    topic: str | None  # None: the lines name none
    kind: str
    source: str  # the log: one broker replica's, or one client's
    broker_name: str | None  # that wrote the lines, or that a client's lines are about
    queue_id: int | None
    line_count: int
    first_at: datetime
    last_at: datetime
    spell_line_count: int  # of the newest run of lines without a silence longer than 45 s
    spell_first_at: datetime
    client_ids: tuple[str, ...] = ()  # clients, or addresses, that the lines name; the first 20
    newest_fields_json: str = "{}"


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
    first_missed_at: datetime | None = None  # start of the first of the rounds in a row with one of its kind


@dataclass(frozen=True, slots=True)
class UnseenBrokerFacts:
    """A master that gave no offsets; its groups are those that the last round to see it saw there."""

    broker_name: str
    unseen_since: datetime | None  # start of the first round without it; None: not known
    consumer_groups: tuple[str, ...] = ()  # the first ones by name
    consumer_group_count: int | None = None  # all of them; None: not known


@dataclass(frozen=True, slots=True)
class TrafficHour:
    """What was written to a topic in the hour that has just passed, and in the same hour of earlier weeks."""

    topic: str
    hour_start_at: datetime
    hour_tps: float
    usual_tps: float  # mean of the earlier weeks
    usual_spread_tps: float  # their standard deviation
    week_count: int  # earlier weeks


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
    unseen_brokers: tuple[UnseenBrokerFacts, ...] = ()
    traffic_hours: tuple[TrafficHour, ...] = ()  # in the first interval of an hour
    cluster_unseen: bool = False  # no name server answered: nothing at all was seen
    logs_read: bool = False  # logs of brokers or clients: without lines they said nothing
    topics: tuple[TopicFacts, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()
    cluster_facts: ClusterFacts | None = None  # None: published by an earlier release, or nothing was seen
    lock_waits: tuple[LockWaitFacts, ...] = ()
    subscriptions: tuple[SubscriptionFacts, ...] = ()
    broker_marks: tuple[BrokerMark, ...] = ()  # oldest first; given by the judge: facts of one interval have none
    log_lines: tuple[LogLineFacts, ...] = ()
    online_groups: tuple[OnlineGroupFacts, ...] = ()
    config_problem: str | None = None  # given by the judge: what is wrong with the configuration file, by lines
    queue_states: Mapping[tuple[str, str], Mapping[State, int]] | None = field(default=None, compare=False)
    """By (consumer group, topic), how many suspect queues are in each state; None: not judged yet."""
