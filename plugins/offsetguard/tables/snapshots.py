"""What a collection round saw: offsets, settings, clients, rates, brokers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

from offsetguard.tables.table import (
    BrokerName,
    ClientSummary,
    ConsumerGroup,
    Int32,
    MessageQueueName,
    Offsets,
    Origin,
    QueueId,
    RefusedGroup,
    StoreTimes,
    Table,
    Topic,
    columns_of,
    row_of,
)


class _QueueSnapshots:
    consumer_group: ConsumerGroup
    _queue: ClassVar = columns_of(MessageQueueName)
    _offsets: ClassVar = columns_of(Offsets)
    _store_times: ClassVar = columns_of(StoreTimes)
    consumer_offset_read_at: Annotated[datetime | None, "when consumer_offset was read (always before pull and max)"]
    pull_offset_read_at: Annotated[datetime | None, "when pull_offset was read"]
    max_offset_read_at: Annotated[datetime | None, "when min_offset and max_offset were read"]
    origin: Origin


QUEUE_SNAPSHOTS = Table(
    "queue_snapshots",
    "offsets of every consumer group in every queue of its topics",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group", "interval_start"),
    row_of(_QueueSnapshots),
)


class _TopicQueueSnapshots:
    topic: Topic
    broker_name: BrokerName
    queue_id: QueueId
    min_offset: Annotated[int | None, "oldest message that the broker still keeps; NULL = not answered"]
    max_offset: Annotated[int | None, "number of the next message to be written; NULL = not answered"]
    last_update_at: Annotated[datetime | None, "store time of the newest message; NULL = none"]
    read_at: Annotated[datetime | None, "when the broker answered; NULL = it did not"]


TOPIC_QUEUE_SNAPSHOTS = Table(
    "topic_queue_snapshots",
    "every queue of every topic, whether or not a group consumes it; RocketMQ's own topics excepted",
    ("cluster", "broker_name", "topic", "queue_id", "interval_start"),
    row_of(_TopicQueueSnapshots),
)


class _TopicSettings:
    broker_name: BrokerName
    topic: Topic
    topic_kind: Annotated[str, "normal, retry, dead_letter or system"]
    read_queue_nums: Annotated[Int32, "queues that consumers read"]
    write_queue_nums: Annotated[Int32, "queues that producers write"]
    perm: Annotated[Int32, "2 = write, 4 = read, 6 = both"]
    orderly: Annotated[bool, "the topic's order flag"]


TOPIC_SETTINGS = Table(
    "topic_settings",
    "settings of every topic on every master",
    ("cluster", "broker_name", "topic", "interval_start"),
    row_of(_TopicSettings),
)


# What facts of groups carry on.
ConsumeEnabled = Annotated[bool | None, "false = a master refuses the group's pulls; true = none does"]
ConsumeBroadcastEnabled = Annotated[bool | None, "false = a master refuses its broadcasting clients; true = none does"]
ConsumeMessageOrderly = Annotated[
    bool | None, "5.x, gRPC and POP: false = a master hands its messages out in any order; true = none does"
]
WhichBrokerWhenConsumeSlowly = Annotated[int | None, "broker id that is suggested for reads far behind the end"]
DeclaredOrderly = Annotated[bool | None, "the configuration says that the group consumes orderly"]
MembersDifferSince = Annotated[datetime | None, "first of the rounds in a row that saw them differ; NULL = they do not"]
MissingMembers = Annotated[
    tuple[str, ...] | None,
    "`client_id broker_name`: the first 20 that a master lacks and another lists; NULL = none, or not known",
]
Departures = Annotated[
    tuple[str, ...] | None,
    "`seconds since 1970, clients of its host before, client_id` of the clients that were gone and others there, of"
    " the last 45 min, the newest 100; NULL = none is known",
]
StacksOfClient = Annotated[
    str | None,
    "what the threads of a client did while something of the group stood, JSON, at most 10 min old; NULL = not asked",
]
RetryMessageCount = Annotated[int | None, "messages kept in the group's retry topics; NULL = not seen"]
DeadLetterMessageCount = Annotated[int | None, "messages kept in %DLQ% of the group; NULL = not seen"]
OldestDeadLetterAt = Annotated[
    datetime | None, "store time of the oldest message kept in %DLQ% of the group; NULL = none is kept, or not told"
]
UncommittedAt = Annotated[
    datetime | None,
    "newest round that saw all masters' commits and none of the group; NULL = none did, as far as is remembered",
]
PopInflight = Annotated[int | None, "pop: messages handed out and not acknowledged; NULL = classic or unknown"]
PopInflightOrigin = Annotated[str | None, "running_info or broker_metrics; NULL = pop_inflight is unknown"]
SuspectReason = Annotated[str | None, "why the group was looked at in detail; NULL = provably healthy"]


ReplicatedAt = Annotated[
    datetime | None,
    "slave of 5.x that is 64 MiB or more from its master: when it last read from it, by its own clock; NULL = not"
    " asked, or it did not say",
]


class _GroupSnapshots:
    consumer_group: ConsumerGroup
    system_group: Annotated[bool, "a group of RocketMQ's own; never judged"]
    retry_max_times: Annotated[Int32 | None, "retries before a message goes to %DLQ%"]
    consume_enabled: ConsumeEnabled
    consume_broadcast_enabled: ConsumeBroadcastEnabled
    consume_message_orderly: ConsumeMessageOrderly
    _refused: ClassVar = columns_of(RefusedGroup)
    which_broker_when_consume_slowly: WhichBrokerWhenConsumeSlowly
    _client_summary: ClassVar = columns_of(ClientSummary)
    created_on: Annotated[tuple[str, ...] | None, "masters that have settings of the group; of those that said so"]
    declared_orderly: DeclaredOrderly
    lock_interval_ms: Annotated[int | None, "declared client setting rocketmq.client.rebalance.lockInterval, ms"]
    lock_max_live_time_ms: Annotated[
        int | None, "declared broker setting rocketmq.broker.rebalance.lockMaxLiveTime, ms"
    ]
    members_differ: Annotated[
        bool | None, "the masters list different clients for the group; NULL = fewer than two masters could be compared"
    ]
    members_differ_since: MembersDifferSince
    missing_members: MissingMembers
    departures: Departures
    client_stacks: StacksOfClient
    retry_message_count: RetryMessageCount
    retry_max_offset: Annotated[int | None, "sum of max offsets of the group's retry topics: grows with every retry"]
    retry_growth: Annotated[int | None, "retry_max_offset since the round before; NULL = no such round, or recreated"]
    dead_letter_message_count: DeadLetterMessageCount
    dead_letter_max_offset: Annotated[int | None, "sum of max offsets of %DLQ%: grows with every dead letter"]
    dead_letter_growth: Annotated[int | None, "dead_letter_max_offset since the round before; NULL as for retry_growth"]
    oldest_dead_letter_at: OldestDeadLetterAt
    uncommitted_at: UncommittedAt
    consumption: Annotated[
        str | None, "classic: committed means consumed; pop: committed means handed out; NULL = could not be told"
    ]
    consumption_evidence: Annotated[
        str | None,
        "what told, e.g. retry_topic, pop_statistics, pop_table, running_info, remembered; NULL = nothing did",
    ]
    pop_available: Annotated[
        int | None, "pop: messages not yet handed out, main and retry topics; NULL = classic or unknown"
    ]
    pop_inflight: PopInflight
    pop_inflight_origin: PopInflightOrigin
    pop_finished: Annotated[
        int | None,
        "pop: messages written to its topics, minus those available or in flight; the highest; NULL = unknown",
    ]
    pop_unfinished_since: Annotated[
        datetime | None,
        "pop: first of the rounds in a row that saw messages in flight, none finished; NULL = not so, unknown",
    ]
    lite_topic_count: Annotated[int | None, "lite topics (%LMQ%) with offsets of the group, folded into their parents"]
    lite_lag: Annotated[int | None, "messages that wait in those lite topics; NULL = none, or not asked in this round"]
    suspect_reason: SuspectReason
    in_detail: Annotated[bool, "asked in detail in this round: pull offsets, rates, running info"]


GROUP_SNAPSHOTS = Table(
    "group_snapshots",
    "one row per consumer group: settings, connections, and the lock settings that its owner declared",
    ("cluster", "consumer_group", "interval_start"),
    row_of(_GroupSnapshots),
)


class _ClientSnapshots:
    consumer_group: ConsumerGroup
    client_id: Annotated[str, "client id, usually ip@instance"]
    broker_name: BrokerName
    broker_id: Annotated[int, "replica that sees the client; 0 = master"]
    client_address: Annotated[str | None, "ip:port as the broker sees it"]
    connection_count: Annotated[Int32 | None, "connections of this client id: several for a moment when it reconnects"]
    language: Annotated[str | None, "client language"]
    version: Annotated[Int32 | None, "MQVersion ordinal of the client"]
    subscriptions: Annotated[tuple[str, ...] | None, "the group's subscriptions on this broker, `topic expression`"]
    running_info_read_at: Annotated[
        datetime | None, "when the client's running info came; NULL = not asked, or refused"
    ]
    running_info_failure: Annotated[str | None, "why it did not come although it was asked"]
    own_subscriptions: Annotated[tuple[str, ...] | None, "what the client itself subscribes to, `topic expression`"]
    orderly: Annotated[bool | None, "the client consumes orderly (PROP_CONSUMEORDERLY)"]
    client_version_name: Annotated[str | None, "PROP_CLIENT_VERSION, e.g. V4_9_7"]
    consumer_start_at: Annotated[datetime | None, "PROP_CONSUMER_START_TIMESTAMP"]
    thread_count: Annotated[Int32 | None, "PROP_THREADPOOL_CORE_SIZE: consume threads"]
    max_reconsume_times: Annotated[Int32 | None, "maxReconsumeTimes; -1 = the default: 16, or endless for orderly"]
    pull_threshold_for_queue: Annotated[Int32 | None, "cached messages per queue at which the client stops pulling"]
    pull_threshold_size_for_queue_mib: Annotated[Int32 | None, "the same in MiB"]
    held_queue_count: Annotated[Int32 | None, "queues that the client holds"]
    locked_queue_count: Annotated[Int32 | None, "of these, locked ones (means something for orderly clients only)"]
    cached_message_count: Annotated[int | None, "messages that the client has pulled and not finished"]
    cached_message_mib: Annotated[int | None, "the same in MiB"]
    pop_wait_ack_count: Annotated[int | None, "pop: messages handed out to the client and not acknowledged"]
    consume_ok_tps: Annotated[float | None, "messages finished per second, over its topics"]
    consume_failed_tps: Annotated[float | None, "messages failed per second, over its topics"]
    consume_rt_ms: Annotated[float | None, "mean time to consume a message, ms; the slowest topic's"]
    pull_tps: Annotated[float | None, "messages pulled per second, over its topics"]


CLIENT_SNAPSHOTS = Table(
    "client_snapshots",
    "one row per connected client of a group and broker replica that sees it; running info where it was asked",
    ("cluster", "consumer_group", "client_id", "broker_name", "broker_id", "interval_start"),
    row_of(_ClientSnapshots),
)


class _ClientQueueSnapshots:
    consumer_group: ConsumerGroup
    client_id: Annotated[str, "the client that holds the queue"]
    topic: Topic
    broker_name: BrokerName
    queue_id: Annotated[Int32, "number of the queue; -1 = all queues of the broker (pop)"]
    commit_offset: Annotated[int | None, "what the client would commit; NULL = nothing yet"]
    cached_message_count: Annotated[int | None, "messages pulled and not finished"]
    cached_message_mib: Annotated[int | None, "the same in MiB"]
    cached_min_offset: Annotated[int | None, "oldest of them"]
    cached_max_offset: Annotated[int | None, "newest of them"]
    transaction_message_count: Annotated[int | None, "messages in an orderly listener's hands"]
    dropped: Annotated[bool | None, "the client is giving the queue up"]
    locked: Annotated[bool | None, "the client believes that it holds the rebalance lock"]
    last_lock_at: Annotated[
        datetime | None, "last renewal of the lock; starts as the time at which the queue was taken"
    ]
    last_pull_at: Annotated[datetime | None, "last pull"]
    last_consume_at: Annotated[
        datetime | None, "last message finished; starts as the time at which the queue was taken"
    ]
    pop_wait_ack_count: Annotated[int | None, "pop: handed out and not acknowledged"]
    last_pop_at: Annotated[datetime | None, "pop: last time messages were handed out"]
    read_at: Annotated[datetime, "when the client answered"]


CLIENT_QUEUE_SNAPSHOTS = Table(
    "client_queue_snapshots",
    "what a client says of a queue that it holds (running info, of the clients that were asked)",
    ("cluster", "consumer_group", "client_id", "topic", "broker_name", "queue_id", "interval_start"),
    row_of(_ClientQueueSnapshots),
)


class _BrokerStats:
    broker_name: BrokerName
    broker_id: Annotated[int, "replica that counted; 0 = master"]
    stats_name: Annotated[str, "e.g. GROUP_GET_NUMS, TOPIC_PUT_NUMS, SNDBCK_PUT_NUMS, GROUP_GET_LATENCY"]
    stats_key: Annotated[str, "e.g. topic@group"]
    topic: Annotated[str | None, "topic of the key; NULL = it has none"]
    consumer_group: Annotated[str | None, "group of the key; NULL = it has none"]
    queue_id: Annotated[Int32 | None, "queue of the key; NULL = it has none"]
    counted: Annotated[bool, "false = nothing counted since the replica's start: the rates are 0"]
    tps: Annotated[float, "per second over the last minute; latencies: ms of all requests per second"]
    minute_sum: Annotated[int, "sum over 10 to 60 s; use tps"]
    average: Annotated[float, "amount per time over the last minute; latencies: ms per request"]
    hour_sum: Annotated[int, "sum over the last hour"]
    day_sum: Annotated[int, "sum over the last day"]
    counting_since: Annotated[
        datetime | None, "first of the rounds in a row that saw a rate above 0; NULL = the rate is 0"
    ]
    read_at: Annotated[datetime, "when the replica answered"]


BROKER_STATS = Table(
    "broker_stats",
    "rates that a replica counts itself; only the replica that served a pull counts it, so a group's rate is the sum",
    ("cluster", "broker_name", "broker_id", "stats_name", "stats_key", "interval_start"),
    row_of(_BrokerStats),
)


# What facts of replicas carry on.
BrokerId = Annotated[int, "0 = master"]
Failure = Annotated[str | None, "why it did not answer; NULL = it did"]
Version = Annotated[str | None, "broker version, e.g. V4_9_7"]
BootAt = Annotated[datetime | None, "when the broker was started"]
CommitLogMinOffset = Annotated[int | None, "oldest byte kept in the commit log"]
CommitLogMaxOffset = Annotated[int | None, "next byte to be written to the commit log"]
CommitLogDiskRatio = Annotated[float | None, "used share of the commit log's disk, 0..1"]
DispatchBehindBytes = Annotated[int | None, "commit log not yet in the consume queues, bytes"]
PutTps = Annotated[float | None, "messages written per second over the last minute"]
EarliestMessageAt = Annotated[datetime | None, "store time of the oldest message kept"]
Role = Annotated[str | None, "broker setting brokerRole: ASYNC_MASTER, SYNC_MASTER or SLAVE"]
BrokerPermission = Annotated[Int32 | None, "broker setting brokerPermission: 2 = write, 4 = read, 6 = both"]
Active = Annotated[bool | None, "5.x brokerActive: false = serves no writes; NULL before 5.x"]
MasterChangedAt = Annotated[
    datetime | None,
    "master: when it, a slave before, was first seen in another master's place; NULL = no other one is known",
]
RocketmqCluster = Annotated[str | None, "broker setting brokerClusterName: the cluster as RocketMQ's own tools name it"]
ReadAt = Annotated[datetime | None, "when the broker answered"]


@dataclass(frozen=True, kw_only=True)
class RequestWaits:
    """How busy a replica is, and its clock."""

    __slots__ = ()
    page_cache_lock_time_ms: Annotated[
        int | None, "how long the current write holds the page cache's lock, ms: busy"
    ] = None
    send_queue_size: Annotated[int | None, "send requests that wait"] = None
    send_queue_head_wait_ms: Annotated[int | None, "how long the first of them waits, ms"] = None
    pull_queue_size: Annotated[int | None, "pull requests that wait"] = None
    pull_queue_head_wait_ms: Annotated[int | None, "how long the first of them waits, ms"] = None
    clock_ahead_ms: Annotated[
        int | None, "the replica's clock minus the collector's, to a second; negative = behind"
    ] = None


@dataclass(frozen=True, kw_only=True)
class KeepingSettings:
    """What a replica keeps, for how long, and on what disk."""

    __slots__ = ()
    slave_read_enable: Annotated[bool | None, "broker setting slaveReadEnable"] = None
    file_reserved_time_hours: Annotated[Int32 | None, "broker setting fileReservedTime, hours"] = None
    delete_when: Annotated[str | None, "broker setting deleteWhen, hour of day"] = None
    disk_max_used_space_ratio: Annotated[Int32 | None, "broker setting diskMaxUsedSpaceRatio, percent"] = None
    disk_clean_forcibly_ratio: Annotated[
        Int32 | None, "5.x setting diskSpaceCleanForciblyRatio, percent; NULL before 5.x"
    ] = None
    clean_file_forcibly: Annotated[bool | None, "broker setting cleanFileForciblyEnable"] = None
    commit_log_file_bytes: Annotated[
        int | None, "broker setting mappedFileSizeCommitLog: length of one commit-log file"
    ] = None
    commit_log_disk_bytes: Annotated[int | None, "size of the commit log's disk, as far as the broker rounds it"] = None
    message_store_plug_in: Annotated[
        str | None, "broker setting messageStorePlugIn: classes, e.g. TieredMessageStore; NULL = none"
    ] = None


@dataclass(frozen=True, kw_only=True)
class HeldBackMessages:
    """What a master has taken and delivers to nobody yet: half, delayed and timer messages. Late is 2 min or more."""

    __slots__ = ()
    half_message_count: Annotated[
        int | None,
        "master: half messages that the broker's check has not passed, ended or not; NULL = not seen, or no check ever "
        "passed one",
    ] = None
    half_growing_since: Annotated[
        datetime | None, "round since which there are more and in no round fewer; NULL = it is not so, or not known"
    ] = None
    half_late_count: Annotated[
        int | None, "of these, stored 2 min ago or longer: the check has not come by; NULL = not known"
    ] = None
    half_late_growth: Annotated[int | None, "half_late_count minus that of the round before; negative: fewer"] = None
    half_late_since: Annotated[datetime | None, "first of the rounds in a row that saw late ones; NULL = none"] = None
    half_deleted_count: Annotated[
        int | None, "half messages that were deleted before the check passed them, until it does; NULL = not seen"
    ] = None
    half_deleted_growth: Annotated[int | None, "half_deleted_count minus that of the round before"] = None
    given_up_growth: Annotated[
        int | None,
        "transactions given up (TRANS_CHECK_MAX_TIME_TOPIC) since the round before; NULL = no such round, or recreated",
    ] = None
    delayed_message_count: Annotated[
        int | None, "master: messages with a delay level, retries among them, not delivered yet; NULL = not seen"
    ] = None
    delayed_late_count: Annotated[
        int | None, "of these, due 2 min ago or longer; 4.x: one too few per level at most; NULL = not known"
    ] = None
    delayed_late_growth: Annotated[int | None, "delayed_late_count minus that of the round before; negative: fewer"] = (
        None
    )
    delayed_late_since: Annotated[datetime | None, "first of the rounds in a row that saw late ones; NULL = none"] = (
        None
    )
    delayed_deleted_count: Annotated[
        int | None,
        "messages with a delay level that were deleted before they were delivered, until the level delivers again;"
        " NULL = not seen",
    ] = None
    delayed_deleted_growth: Annotated[int | None, "delayed_deleted_count minus that of the round before"] = None
    timer_message_count: Annotated[
        int | None, "5.x timerCongestNum: messages in the timer wheel; NULL before 5.x, or not seen"
    ] = None
    timer_unread_count: Annotated[
        int | None, "5.x timerOffsetBehind: timer messages that are not in the wheel yet; NULL as before"
    ] = None
    timer_behind_ms: Annotated[
        int | None, "5.x timerReadBehind: how late the wheel delivers, ms, to a second; NULL as before"
    ] = None


class _BrokerSnapshots:
    broker_name: BrokerName
    broker_id: BrokerId
    address: Annotated[str, "ip:port as the name server lists it"]
    answered: Annotated[bool, "the replica answered at least one request of this round"]
    failure: Failure
    version: Version
    boot_at: BootAt
    commit_log_min_offset: CommitLogMinOffset
    commit_log_max_offset: CommitLogMaxOffset
    commit_log_disk_ratio: CommitLogDiskRatio
    dispatch_behind_bytes: DispatchBehindBytes
    slave_behind_bytes: Annotated[
        int | None, "slave: the master's commit_log_max_offset minus its own; NULL = not both seen"
    ]
    replicated_at: ReplicatedAt
    put_tps: PutTps
    get_found_tps: Annotated[float | None, "pulls that found messages per second over the last minute"]
    get_transferred_tps: Annotated[float | None, "messages handed out per second over the last minute"]
    _waits: ClassVar = columns_of(RequestWaits)
    _held_back: ClassVar = columns_of(HeldBackMessages)
    given_up_max_offset: Annotated[
        int | None, "master: sum of max offsets of TRANS_CHECK_MAX_TIME_TOPIC: grows with each transaction given up"
    ]
    earliest_message_at: EarliestMessageAt
    role: Role
    _settings: ClassVar = columns_of(KeepingSettings)
    access_message_in_memory_max_ratio: Annotated[
        Int32 | None, "percent of memory beyond which reads are sent to the slave"
    ]
    broker_permission: BrokerPermission
    active: Active
    master_changed_at: MasterChangedAt
    rocketmq_cluster: RocketmqCluster
    read_at: ReadAt


BROKER_SNAPSHOTS = Table(
    "broker_snapshots",
    "one row per broker replica that the name server lists",
    ("cluster", "broker_name", "broker_id", "interval_start"),
    row_of(_BrokerSnapshots),
)
