"""Facts of brokers and of the whole cluster; sums over queues agree with those of groups and topics."""

from __future__ import annotations

from offsetguard.tables.columns import BROKER_NAME, CLUSTER, INTERVAL_START, LAGS
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_S, _I4, _I8, _F, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
)

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
        Column("broker_id", _I8, "0 = master", nullable=False),
        Column("listed", _B, "the name server lists the replica", nullable=False),
        Column("answered", _B, "the replica answered at least one request of this round; NULL = not listed"),
        Column("failure", _S, "why it did not answer; NULL = it did"),
        *_COUNTS,
        *LAGS,
        Column("slave_count", _I4, "master: slaves that the name server lists"),
        Column("version", _S, "broker version, e.g. V4_9_7"),
        Column("role", _S, "broker setting brokerRole: ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        Column("active", _B, "5.x brokerActive: false = serves no writes; NULL before 5.x"),
        Column("boot_at", _T, "when the broker was started"),
        Column("put_tps", _F, "messages written per second over the last minute"),
        Column("get_tps", _F, "messages handed out per second over the last minute"),
        Column("commit_log_min_offset", _I8, "oldest byte kept in the commit log"),
        Column("commit_log_max_offset", _I8, "next byte to be written to the commit log"),
        Column(
            "commit_log_growth", _I8, "bytes written since the replica was last seen; NULL = not seen, or recreated"
        ),
        Column("commit_log_growth_ms", _I8, "time between these two looks, ms"),
        Column("commit_log_disk_ratio", _F, "used share of the commit log's disk, 0..1"),
        Column("earliest_message_at", _T, "store time of the oldest message kept"),
        Column("dispatch_behind_bytes", _I8, "commit log not yet in the consume queues, bytes"),
        Column("slave_behind_bytes", _I8, "slave: bytes of the master's commit log that it does not have yet"),
        Column("page_cache_lock_time_ms", _I8, "how long the current write holds the page cache's lock, ms: busy"),
        Column("send_queue_size", _I8, "send requests that wait"),
        Column("send_queue_head_wait_ms", _I8, "how long the first of them waits, ms"),
        Column("pull_queue_size", _I8, "pull requests that wait"),
        Column("pull_queue_head_wait_ms", _I8, "how long the first of them waits, ms"),
        Column("clock_ahead_ms", _I8, "the replica's clock minus the collector's, to a second; negative = behind"),
        Column("slave_read_enable", _B, "broker setting slaveReadEnable"),
        Column("file_reserved_time_hours", _I4, "broker setting fileReservedTime, hours"),
        Column("delete_when", _S, "broker setting deleteWhen, hour of day"),
        Column("disk_max_used_space_ratio", _I4, "broker setting diskMaxUsedSpaceRatio, percent"),
        Column("disk_clean_forcibly_ratio", _I4, "5.x setting diskSpaceCleanForciblyRatio, percent; NULL before 5.x"),
        Column("clean_file_forcibly", _B, "broker setting cleanFileForciblyEnable"),
        Column("commit_log_file_bytes", _I8, "broker setting mappedFileSizeCommitLog: length of one commit-log file"),
        Column("commit_log_disk_bytes", _I8, "size of the commit log's disk, as far as the broker rounds it"),
        Column("access_message_in_memory_max_ratio", _I4, "percent of memory beyond which reads go to the slave"),
        Column("broker_permission", _I4, "broker setting brokerPermission: 2 = write, 4 = read, 6 = both"),
        Column("read_at", _T, "when the broker answered"),
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
