"""Facts of brokers and of the whole cluster; sums over queues agree with those of groups and topics."""

from __future__ import annotations

from offsetguard.tables.columns import BROKER_NAME, CLUSTER, INTERVAL_START, LAGS
from offsetguard.tables.snapshots import BROKER_SNAPSHOTS
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_I4, _I8, _F, _B = (ColumnType.INT32, ColumnType.INT64, ColumnType.FLOAT64, ColumnType.BOOLEAN)

_COUNTS = (
    Column("consumed_queue_count", _I4, "queues, each once for every group that has a row for it"),
    Column("unknown_queue_count", _I4, "of these, queues without a max offset in this snapshot"),
    Column("suspect_queue_count", _I4, "of these, those that are not provably healthy"),
    Column("topic_queue_count", _I4, "queues of its topics; RocketMQ's own topics excepted"),
    Column("message_count", _I8, "messages kept in them"),
)

BROKER_FACTS = Table(
    "broker_facts",
    "one row per broker replica; what queues have in all stands on the master's row and is NULL on a slave's",
    ("cluster", "broker_name", "broker_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        BROKER_NAME,
        BROKER_SNAPSHOTS["broker_id"],
        Column("listed", _B, "the name server lists the replica", nullable=False),
        Column("answered", _B, "the replica answered at least one request of this round; NULL = not listed"),
        BROKER_SNAPSHOTS["failure"],
        *_COUNTS,
        *LAGS,
        Column("slave_count", _I4, "master: slaves that the name server lists"),
        *BROKER_SNAPSHOTS.columns_named("version", "role", "active", "boot_at", "put_tps"),
        Column("get_tps", _F, "messages handed out per second over the last minute"),
        *BROKER_SNAPSHOTS.columns_named("commit_log_min_offset", "commit_log_max_offset"),
        Column(
            "commit_log_growth", _I8, "bytes written since the replica was last seen; NULL = not seen, or recreated"
        ),
        Column("commit_log_growth_ms", _I8, "time between these two looks, ms"),
        *BROKER_SNAPSHOTS.columns_named("commit_log_disk_ratio", "earliest_message_at", "dispatch_behind_bytes"),
        Column("slave_behind_bytes", _I8, "slave: bytes of the master's commit log that it does not have yet"),
        *BROKER_SNAPSHOTS.columns_named(
            "page_cache_lock_time_ms",
            "send_queue_size",
            "send_queue_head_wait_ms",
            "pull_queue_size",
            "pull_queue_head_wait_ms",
            "clock_ahead_ms",
            "slave_read_enable",
            "file_reserved_time_hours",
            "delete_when",
            "disk_max_used_space_ratio",
            "disk_clean_forcibly_ratio",
            "clean_file_forcibly",
            "commit_log_file_bytes",
            "commit_log_disk_bytes",
        ),
        Column("access_message_in_memory_max_ratio", _I4, "percent of memory beyond which reads go to the slave"),
        *BROKER_SNAPSHOTS.columns_named("broker_permission", "rocketmq_cluster", "read_at"),
    ),
    retention=FACT_RETENTION,
)
CLUSTER_FACTS = Table(
    "cluster_facts",
    "one row per cluster: the sums over its brokers, and what its groups have in all",
    ("cluster", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("broker_count", _I4, "broker names, each with its master and slaves", nullable=False),
        Column("replica_count", _I4, "replicas that the name server lists", nullable=False),
        Column("answered_replica_count", _I4, "of these, those that answered", nullable=False),
        Column("topic_count", _I4, "topics with queues; RocketMQ's own excepted", nullable=False),
        Column("consumer_group_count", _I4, "consumer groups that a master knows", nullable=False),
        Column("online_group_count", _I4, "of these, groups with a client online; NULL = could not be seen"),
        *_COUNTS,
        *LAGS,
        Column("put_tps", _F, "messages written per second over the last minute, over the masters that said"),
        Column("get_tps", _F, "messages handed out per second over the last minute, over the replicas that said"),
        Column("slave_get_tps", _F, "the slaves' part of it"),
        Column("retry_growth", _I8, "messages sent to retry topics since the round before, over the groups known"),
        Column("dead_letter_growth", _I8, "messages sent to %DLQ% since the round before, over the groups known"),
        Column("max_disk_ratio", _F, "fullest disk of a commit log, 0..1"),
        Column("max_slave_behind_bytes", _I8, "greatest distance of a slave"),
    ),
    retention=FACT_RETENTION,
)
