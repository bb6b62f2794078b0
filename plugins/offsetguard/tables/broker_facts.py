"""Facts of brokers and of the whole cluster; sums over queues agree with those of groups and topics."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

from offsetguard.tables import snapshots
from offsetguard.tables.table import FACT_RETENTION, BrokerName, Int32, Lags, Table, columns_of, row_of


@dataclass(frozen=True, kw_only=True)
class QueueCounts:
    """What all queues of a broker, or of a cluster, have in all."""

    __slots__ = ()
    consumed_queue_count: Annotated[Int32 | None, "queues, each once for every group that has a row for it"] = None
    unknown_queue_count: Annotated[Int32 | None, "of these, queues without a max offset in this snapshot"] = None
    suspect_queue_count: Annotated[Int32 | None, "of these, those that are not provably healthy"] = None
    topic_queue_count: Annotated[Int32 | None, "queues of its topics; RocketMQ's own topics excepted"] = None
    message_count: Annotated[int | None, "messages kept in them"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts(QueueCounts, Lags, snapshots.RequestWaits, snapshots.HeldBackMessages, snapshots.KeepingSettings):
    """One broker replica; what queues have in all stands on the master's."""

    broker_name: BrokerName
    broker_id: snapshots.BrokerId
    listed: Annotated[bool, "the name server lists the replica"]
    answered: Annotated[
        bool | None,
        "the replica answered at least one request of this round; NULL = not listed",
    ] = None
    failure: snapshots.Failure = None
    _queue_counts: ClassVar = columns_of(QueueCounts)
    _lags: ClassVar = columns_of(Lags)
    slave_count: Annotated[Int32 | None, "master: slaves that the name server lists"] = None
    version: snapshots.Version = None
    role: snapshots.Role = None
    active: snapshots.Active = None
    boot_at: snapshots.BootAt = None
    address: Annotated[str | None, "ip:port as the name server lists it"] = None
    master_changed_at: snapshots.MasterChangedAt = None
    put_tps: snapshots.PutTps = None
    get_tps: Annotated[float | None, "messages handed out per second over the last minute"] = None
    commit_log_min_offset: snapshots.CommitLogMinOffset = None
    commit_log_max_offset: snapshots.CommitLogMaxOffset = None
    commit_log_growth: Annotated[
        int | None, "bytes written since the replica was last seen; NULL = not seen, or recreated"
    ] = None
    commit_log_growth_ms: Annotated[int | None, "time between these two looks, ms"] = None
    commit_log_disk_ratio: snapshots.CommitLogDiskRatio = None
    earliest_message_at: snapshots.EarliestMessageAt = None
    dispatch_behind_bytes: snapshots.DispatchBehindBytes = None
    slave_behind_bytes: Annotated[
        int | None,
        "slave: bytes of the master's commit log that it does not have yet; negative: it was ahead, as one is that is"
        " read after its master",
    ] = None
    replicated_at: snapshots.ReplicatedAt = None
    sync_failure_count: Annotated[
        int | None,
        "lines of its log that it could not take something over: of what has failed for two minutes, three times or "
        "more, and goes on; NULL = nothing has",
    ] = None
    sync_first_failed_at: Annotated[datetime | None, "time of the first of them"] = None
    sync_last_failed_at: Annotated[datetime | None, "time of the last of them"] = None
    sync_failed_what: Annotated[str | None, "what they name, e.g. CommitLog, ConsumerOffset, TopicConfig"] = None
    dropped_request_count: Annotated[
        int | None, "lines of its log within the look-back window of requests thrown away unserved; NULL = none"
    ] = None
    dropped_first_at: Annotated[datetime | None, "time of the first of them"] = None
    dropped_last_at: Annotated[datetime | None, "time of the last of them"] = None
    disk_unreadable_at: Annotated[
        datetime | None,
        "newest line of its log within that window that it cannot read how full its disk is; NULL = none",
    ] = None
    _waits: ClassVar = columns_of(snapshots.RequestWaits)
    _held_back: ClassVar = columns_of(snapshots.HeldBackMessages)
    _settings: ClassVar = columns_of(snapshots.KeepingSettings)
    access_message_in_memory_max_ratio: Annotated[
        Int32 | None, "percent of memory beyond which reads go to the slave"
    ] = None
    broker_permission: snapshots.BrokerPermission = None
    rocketmq_cluster: snapshots.RocketmqCluster = None
    read_at: snapshots.ReadAt = None


BROKER_FACTS = Table(
    "broker_facts",
    "one row per broker replica; what queues have in all stands on the master's row and is NULL on a slave's",
    ("cluster", "broker_name", "broker_id", "interval_start"),
    row_of(BrokerFacts),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts(QueueCounts, Lags):
    """The whole cluster: sums over its brokers, and what its groups have in all."""

    broker_count: Annotated[Int32 | None, "broker names, each with its master and slaves"] = None
    replica_count: Annotated[Int32 | None, "replicas that the name server lists; NULL = state files, nobody lists"] = (
        None
    )
    answered_replica_count: Annotated[Int32 | None, "of these, those that answered; NULL likewise"] = None
    topic_count: Annotated[
        Int32 | None, "topics with queues; RocketMQ's own excepted; NULL = a master did not answer"
    ] = None
    consumer_group_count: Annotated[Int32 | None, "consumer groups that a master knows; NULL likewise"] = None
    online_group_count: Annotated[
        Int32 | None, "of these, groups with a client online; NULL = of one of them it could not be seen, or likewise"
    ] = None
    _queue_counts: ClassVar = columns_of(QueueCounts)
    _lags: ClassVar = columns_of(Lags)
    put_tps: Annotated[
        float | None,
        "messages written per second over the last minute, over the masters that said",
    ] = None
    get_tps: Annotated[
        float | None, "messages handed out per second over the last minute, over the replicas that said"
    ] = None
    slave_get_tps: Annotated[float | None, "the slaves' part of it"] = None
    retry_growth: Annotated[
        int | None, "messages sent to retry topics since the round before, over the groups known"
    ] = None
    dead_letter_growth: Annotated[
        int | None, "messages sent to %DLQ% since the round before, over the groups known"
    ] = None
    max_disk_ratio: Annotated[float | None, "fullest disk of a commit log, 0..1"] = None
    max_slave_behind_bytes: Annotated[int | None, "greatest distance of a slave; negative: all are ahead"] = None


CLUSTER_FACTS = Table(
    "cluster_facts",
    "one row per cluster: the sums over its brokers, and what its groups have in all",
    ("cluster", "interval_start"),
    row_of(ClusterFacts),
    retention=FACT_RETENTION,
)
