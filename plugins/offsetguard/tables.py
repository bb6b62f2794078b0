"""Every table, once: columns with type, unit and meaning, key and partition.

The collector's Parquet files (pyarrow), the Iceberg tables (Spark) and docs/tables.md are made from these constants.
LANDED tables are what a collection round writes; PUBLISHED tables are what Spark makes of them.
Every row carries `cluster` and `interval_start`: the transaction that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ColumnType(StrEnum):
    """The types that our tables use; each has one pyarrow and one Spark counterpart."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"  # UTC, microseconds
    STRING_LIST = "string list"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the meaning says the unit and when it is NULL."""

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = True
    formerly: str | None = None  # its name in release 0.1, whose tables and files are still read


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `key` identifies a row."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def __getitem__(self, column_name: str) -> Column:
        """Return a column by name; raises KeyError."""
        for column in self.columns:
            if column.name == column_name:
                return column
        raise KeyError(f"table {self.name} has no column {column_name}")


_S, _I4, _I8, _F, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
)

CLUSTER = Column("cluster", _S, "name of the cluster in config/offsetguard.yml", nullable=False)
INTERVAL_START = Column("interval_start", _T, "start of the interval that the row belongs to, UTC", nullable=False)
CONSUMER_GROUP = Column("consumer_group", _S, "consumer group", nullable=False)
TOPIC = Column("topic", _S, "topic; %RETRY% and %DLQ% keep their prefix", nullable=False)
BROKER_NAME = Column("broker_name", _S, "name shared by a master and its slaves", nullable=False)
QUEUE_ID = Column("queue_id", _I4, "number of the queue within (topic, broker)", nullable=False)

_OFFSETS = (
    Column("min_offset", _I8, "oldest message that the broker still keeps"),
    Column("max_offset", _I8, "broker offset: number of the next message to be written"),
    Column("consumer_offset", _I8, "committed: next to be consumed; NULL = never committed or not seen"),
    Column("pull_offset", _I8, "next to be pulled; NULL where the broker cannot tell (before 5.1)"),
    Column("last_timestamp", _T, "store time of message consumer_offset - 1; NULL = unknown (deleted or never)"),
    Column(
        "oldest_unconsumed_at", _T, "store time of the message at consumer_offset; NULL = nothing waits, or unknown"
    ),
)
_LAGS = (
    Column("lag", _I8, "max_offset - consumer_offset, messages"),
    Column("effective_lag", _I8, "max_offset - max(consumer_offset, min_offset), messages that can still be read"),
    Column("inflight", _I8, "pull_offset - consumer_offset, messages handed out and not yet committed"),
    Column("available", _I8, "max_offset - pull_offset, messages not yet handed out"),
    Column("lost", _I8, "max(0, min_offset - consumer_offset), messages deleted before they were consumed"),
    Column("lag_ms", _I8, "age of the oldest unconsumed message, ms; 0 = nothing waits; NULL = unknown"),
)
_CLIENT_SUMMARY = (
    Column("online_client_count", _I4, "connected clients of the group; 0 = offline; NULL = could not be seen"),
    Column("message_model", _S, "CLUSTERING or BROADCASTING; NULL = no client online to tell"),
    Column("consume_type", _S, "CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; NULL = unknown"),
)

QUEUE_SNAPSHOTS = Table(
    "queue_snapshots",
    "offsets of every consumer group in every queue of its topics",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        *_OFFSETS,
        Column("consumer_offset_read_at", _T, "when consumer_offset was read (always before pull and max)"),
        Column("pull_offset_read_at", _T, "when pull_offset was read"),
        Column("max_offset_read_at", _T, "when min_offset and max_offset were read"),
        Column("origin", _S, "where the offsets come from: broker, or state_file", nullable=False),
    ),
)
TOPIC_QUEUE_SNAPSHOTS = Table(
    "topic_queue_snapshots",
    "every queue of every topic, whether or not a group consumes it; RocketMQ's own topics excepted",
    ("cluster", "broker_name", "topic", "queue_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        Column("min_offset", _I8, "oldest message that the broker still keeps; NULL = not answered"),
        Column("max_offset", _I8, "number of the next message to be written; NULL = not answered"),
        Column("last_update_at", _T, "store time of the newest message; NULL = none"),
        Column("read_at", _T, "when the broker answered; NULL = it did not"),
    ),
)
TOPIC_SETTINGS = Table(
    "topic_settings",
    "settings of every topic on every master",
    ("cluster", "broker_name", "topic", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        BROKER_NAME,
        TOPIC,
        Column("topic_kind", _S, "normal, retry, dead_letter or system", nullable=False),
        Column("read_queue_nums", _I4, "queues that consumers read", nullable=False),
        Column("write_queue_nums", _I4, "queues that producers write", nullable=False),
        Column("perm", _I4, "2 = write, 4 = read, 6 = both", nullable=False),
        Column("orderly", _B, "the topic's order flag", nullable=False),
    ),
)
GROUP_SNAPSHOTS = Table(
    "group_snapshots",
    "one row per consumer group: settings, connections, and the lock settings that its owner declared",
    ("cluster", "consumer_group", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        Column("system_group", _B, "a group of RocketMQ's own; never judged", nullable=False),
        Column("retry_max_times", _I4, "retries before a message goes to %DLQ%"),
        Column("consume_enabled", _B, "false = the broker refuses the group's pulls"),
        Column("which_broker_when_consume_slowly", _I8, "broker id that is suggested for reads far behind the end"),
        *_CLIENT_SUMMARY,
        Column("declared_orderly", _B, "the configuration says that the group consumes orderly"),
        Column("lock_interval_ms", _I8, "declared client setting rocketmq.client.rebalance.lockInterval, ms"),
        Column("lock_max_live_time_ms", _I8, "declared broker setting rocketmq.broker.rebalance.lockMaxLiveTime, ms"),
        Column(
            "members_differ",
            _B,
            "the masters list different clients for the group; NULL = fewer than two masters could be compared",
        ),
        Column("retry_message_count", _I8, "messages kept in the group's retry topics; NULL = not seen"),
        Column("retry_max_offset", _I8, "sum of max offsets of the group's retry topics: grows with every retry"),
        Column("retry_growth", _I8, "retry_max_offset since the round before; NULL = no such round, or recreated"),
        Column("dead_letter_message_count", _I8, "messages kept in %DLQ% of the group; NULL = not seen"),
        Column("dead_letter_max_offset", _I8, "sum of max offsets of %DLQ%: grows with every dead letter"),
        Column("dead_letter_growth", _I8, "dead_letter_max_offset since the round before; NULL as for retry_growth"),
        Column(
            "consumption",
            _S,
            "classic: committed means consumed; pop: committed means handed out; NULL = could not be told",
        ),
        Column(
            "consumption_evidence",
            _S,
            "what told, e.g. retry_topic, pop_statistics, pop_table, running_info, remembered; NULL = nothing did",
        ),
        Column(
            "pop_available", _I8, "pop: messages not yet handed out, main and retry topics; NULL = classic or unknown"
        ),
        Column("pop_inflight", _I8, "pop: messages handed out and not acknowledged; NULL = classic or unknown"),
        Column("pop_inflight_origin", _S, "running_info or broker_metrics; NULL = pop_inflight is unknown"),
        Column("lite_topic_count", _I8, "lite topics (%LMQ%) with offsets of the group, folded into their parents"),
        Column("lite_lag", _I8, "messages that wait in those lite topics; NULL = none, or not asked in this round"),
        Column("suspect_reason", _S, "why the group was looked at in detail; NULL = provably healthy"),
        Column("in_detail", _B, "asked in detail in this round: pull offsets, rates, running info", nullable=False),
    ),
)
CLIENT_SNAPSHOTS = Table(
    "client_snapshots",
    "one row per connected client of a group and broker replica that sees it; running info where it was asked",
    ("cluster", "consumer_group", "client_id", "broker_name", "broker_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        Column("client_id", _S, "client id, usually ip@instance", nullable=False),
        BROKER_NAME,
        Column("broker_id", _I8, "replica that sees the client; 0 = master", nullable=False),
        Column("client_address", _S, "ip:port as the broker sees it"),
        Column("language", _S, "client language"),
        Column("version", _I4, "MQVersion ordinal of the client"),
        Column("subscriptions", ColumnType.STRING_LIST, "the group's subscriptions on this broker, `topic expression`"),
        Column("running_info_read_at", _T, "when the client's running info came; NULL = not asked, or refused"),
        Column("running_info_failure", _S, "why it did not come although it was asked"),
        Column("own_subscriptions", ColumnType.STRING_LIST, "what the client itself subscribes to, `topic expression`"),
        Column("orderly", _B, "the client consumes orderly (PROP_CONSUMEORDERLY)"),
        Column("client_version_name", _S, "PROP_CLIENT_VERSION, e.g. V4_9_7"),
        Column("consumer_start_at", _T, "PROP_CONSUMER_START_TIMESTAMP"),
        Column("thread_count", _I4, "PROP_THREADPOOL_CORE_SIZE: consume threads"),
        Column("max_reconsume_times", _I4, "maxReconsumeTimes; -1 = the default: 16, or endless for orderly"),
        Column("pull_threshold_for_queue", _I4, "cached messages per queue at which the client stops pulling"),
        Column("pull_threshold_size_for_queue_mib", _I4, "the same in MiB"),
        Column("held_queue_count", _I4, "queues that the client holds"),
        Column("locked_queue_count", _I4, "of these, locked ones (means something for orderly clients only)"),
        Column("cached_message_count", _I8, "messages that the client has pulled and not finished"),
        Column("cached_message_mib", _I8, "the same in MiB"),
        Column("pop_wait_ack_count", _I8, "pop: messages handed out to the client and not acknowledged"),
        Column("consume_ok_tps", _F, "messages finished per second, over its topics"),
        Column("consume_failed_tps", _F, "messages failed per second, over its topics"),
        Column("consume_rt_ms", _F, "mean time to consume a message, ms; the slowest topic's"),
        Column("pull_tps", _F, "messages pulled per second, over its topics"),
    ),
)
CLIENT_QUEUE_SNAPSHOTS = Table(
    "client_queue_snapshots",
    "what a client says of a queue that it holds (running info, of the clients that were asked)",
    ("cluster", "consumer_group", "client_id", "topic", "broker_name", "queue_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        Column("client_id", _S, "the client that holds the queue", nullable=False),
        TOPIC,
        BROKER_NAME,
        Column("queue_id", _I4, "number of the queue; -1 = all queues of the broker (pop)", nullable=False),
        Column("commit_offset", _I8, "what the client would commit; NULL = nothing yet"),
        Column("cached_message_count", _I8, "messages pulled and not finished"),
        Column("cached_message_mib", _I8, "the same in MiB"),
        Column("cached_min_offset", _I8, "oldest of them"),
        Column("cached_max_offset", _I8, "newest of them"),
        Column("transaction_message_count", _I8, "messages in an orderly listener's hands"),
        Column("dropped", _B, "the client is giving the queue up"),
        Column("locked", _B, "the client believes that it holds the rebalance lock"),
        Column("last_lock_at", _T, "last renewal of the lock; starts as the time at which the queue was taken"),
        Column("last_pull_at", _T, "last pull"),
        Column("last_consume_at", _T, "last message finished; starts as the time at which the queue was taken"),
        Column("pop_wait_ack_count", _I8, "pop: handed out and not acknowledged"),
        Column("last_pop_at", _T, "pop: last time messages were handed out"),
        Column("read_at", _T, "when the client answered", nullable=False),
    ),
)
BROKER_STATS = Table(
    "broker_stats",
    "rates that a replica counts itself; only the replica that served a pull counts it, so a group's rate is the sum",
    ("cluster", "broker_name", "broker_id", "stats_name", "stats_key", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        BROKER_NAME,
        Column("broker_id", _I8, "replica that counted; 0 = master", nullable=False),
        Column(
            "stats_name", _S, "e.g. GROUP_GET_NUMS, TOPIC_PUT_NUMS, SNDBCK_PUT_NUMS, GROUP_GET_LATENCY", nullable=False
        ),
        Column("stats_key", _S, "e.g. topic@group", nullable=False),
        Column("topic", _S, "topic of the key; NULL = it has none"),
        Column("consumer_group", _S, "group of the key; NULL = it has none"),
        Column("queue_id", _I4, "queue of the key; NULL = it has none"),
        Column("counted", _B, "false = nothing counted since the replica's start: the rates are 0", nullable=False),
        Column("tps", _F, "per second over the last minute; latencies: ms of all requests per second", nullable=False),
        Column("minute_sum", _I8, "sum over 10 to 60 s; use tps", nullable=False),
        Column("average", _F, "amount per time over the last minute; latencies: ms per request", nullable=False),
        Column("hour_sum", _I8, "sum over the last hour", nullable=False),
        Column("day_sum", _I8, "sum over the last day", nullable=False),
        Column("read_at", _T, "when the replica answered", nullable=False),
    ),
)
BROKER_SNAPSHOTS = Table(
    "broker_snapshots",
    "one row per broker replica that the name server lists",
    ("cluster", "broker_name", "broker_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        BROKER_NAME,
        Column("broker_id", _I8, "0 = master", nullable=False),
        Column("address", _S, "ip:port as the name server lists it", nullable=False),
        Column("answered", _B, "the replica answered at least one request of this round", nullable=False),
        Column("failure", _S, "why it did not answer; NULL = it did"),
        Column("version", _S, "broker version, e.g. V4_9_7"),
        Column("boot_at", _T, "when the broker was started"),
        Column("commit_log_min_offset", _I8, "oldest byte kept in the commit log"),
        Column("commit_log_max_offset", _I8, "next byte to be written to the commit log"),
        Column("commit_log_disk_ratio", _F, "used share of the commit log's disk, 0..1"),
        Column("dispatch_behind_bytes", _I8, "commit log not yet in the consume queues, bytes"),
        Column(
            "slave_behind_bytes", _I8, "slave: the master's commit_log_max_offset minus its own; NULL = not both seen"
        ),
        Column("put_tps", _F, "messages written per second over the last minute"),
        Column("get_found_tps", _F, "pulls that found messages per second over the last minute"),
        Column("get_transferred_tps", _F, "messages handed out per second over the last minute"),
        Column("page_cache_lock_time_ms", _I8, "how long the current write holds the page cache's lock, ms: busy"),
        Column("send_queue_size", _I8, "send requests that wait"),
        Column("pull_queue_size", _I8, "pull requests that wait"),
        Column("pull_queue_head_wait_ms", _I8, "how long the first of them waits, ms"),
        Column("earliest_message_at", _T, "store time of the oldest message kept"),
        Column("role", _S, "broker setting brokerRole: ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        Column("slave_read_enable", _B, "broker setting slaveReadEnable"),
        Column("file_reserved_time_hours", _I4, "broker setting fileReservedTime, hours"),
        Column("delete_when", _S, "broker setting deleteWhen, hour of day"),
        Column("disk_max_used_space_ratio", _I4, "broker setting diskMaxUsedSpaceRatio, percent"),
        Column("access_message_in_memory_max_ratio", _I4, "percent of memory beyond which reads are sent to the slave"),
        Column("broker_permission", _I4, "broker setting brokerPermission: 2 = write, 4 = read, 6 = both"),
        Column("active", _B, "5.x brokerActive: false = serves no writes; NULL before 5.x"),
        Column("read_at", _T, "when the broker answered"),
    ),
)
OFFSET_MOVES = Table(
    "offset_moves",
    "offsets that a broker corrected or that jumped: from events (4.x), broker logs, and differences of snapshots",
    ("cluster", "origin", "source", "position"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("origin", _S, "event, log or snapshot", nullable=False),
        Column(
            "source",
            _S,
            "event: broker that stored it; log: log source and file; snapshot: broker/topic/queue/group",
            nullable=False,
            formerly="event_broker_name",
        ),
        Column(
            "position",
            _I8,
            "event: offset in its topic; log: byte position in the file; snapshot: interval start, ms since 1970",
            nullable=False,
            formerly="event_offset",
        ),
        Column("moved_at", _T, "store time of the event; time of the log line; when the second offset was read", False),
        CONSUMER_GROUP,
        Column("client_id", _S, "the client that asked; a log line gives its address; NULL = the source does not say"),
        TOPIC,
        BROKER_NAME,
        Column("queue_id", _I4, "number of the queue; NULL: log lines do not say"),
        Column("requested_offset", _I8, "offset that the client asked for, or had committed before", nullable=False),
        Column(
            "corrected_offset",
            _I8,
            "offset that it was sent to; snapshot: committed since, or the oldest message kept if that had passed it",
            nullable=False,
        ),
    ),
)
LOG_EVENTS = Table(
    "log_events",
    "recognised lines of broker and client logs",
    ("cluster", "source", "file", "position"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("source", _S, "name of the log source in the configuration", nullable=False),
        Column("file", _S, "file name and identity, so that a rotated file keeps its own", nullable=False),
        Column("position", _I8, "byte position of the line's start in the uncompressed file", nullable=False),
        Column("kind", _S, "name of the pattern, see docs/logs.md", nullable=False),
        Column("at", _T, "time of the line; NULL = the line carries none"),
        Column("broker_name", _S, "broker that wrote the log; NULL = a client's log"),
        Column("broker_id", _I8, "its replica; 0 = master"),
        Column("consumer_group", _S, "group of the line; NULL = it names none"),
        Column("topic", _S, "topic of the line; NULL = it names none"),
        Column("queue_id", _I4, "queue of the line; NULL = it names none"),
        Column("client_id", _S, "client id or address of the line; NULL = it names none"),
        Column("fields_json", _S, "every field of the pattern, as JSON", nullable=False),
    ),
)
UNDECODABLE_RECORDS = Table(
    "undecodable_records",
    "what a broker sent and we could not read: kept with the reason, so that it can be read again after a fix",
    ("cluster", "interval_start", "source", "position"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("source", _S, "what was asked, e.g. OFFSET_MOVED_EVENT of broker-a", nullable=False),
        Column("position", _I8, "offset or running number within the source", nullable=False),
        Column("reason", _S, "what is wrong with it", nullable=False),
        Column("body_base64", _S, "the bytes, base64, at most 64 KiB of them", nullable=False),
    ),
)

LANDED = (
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    GROUP_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    CLIENT_QUEUE_SNAPSHOTS,
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    OFFSET_MOVES,
    LOG_EVENTS,
    UNDECODABLE_RECORDS,
)

QUEUE_FACTS = Table(
    "queue_facts",
    "suspect queues: everything that is not provably healthy",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        *_OFFSETS,
        *_LAGS,
        Column(
            "violated_invariants", ColumnType.STRING_LIST, "ids of the trouble invariants that the row breaks", False
        ),
    ),
)
GROUP_FACTS = Table(
    "group_facts",
    "one row per (consumer group, topic), over all its queues",
    ("cluster", "consumer_group", "topic", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        TOPIC,
        Column("topic_kind", _S, "normal, retry, dead_letter or system"),
        Column("queue_count", _I4, "queues of the topic that the group can read", nullable=False),
        Column("unknown_queue_count", _I4, "queues without a max offset in this snapshot", nullable=False),
        Column("never_committed_queue_count", _I4, "queues without a consumer offset", nullable=False),
        *_LAGS,
        *_CLIENT_SUMMARY,
        Column("declared_orderly", _B, "the configuration says that the group consumes orderly"),
        Column("lock_interval_ms", _I8, "declared, ms"),
        Column("lock_max_live_time_ms", _I8, "declared, ms"),
        Column("violated_invariants", ColumnType.STRING_LIST, "ids of the trouble invariants of the group row", False),
    ),
)
TOPIC_FACTS = Table(
    "topic_facts",
    "one row per topic, over all its queues and groups",
    ("cluster", "topic", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        TOPIC,
        Column("topic_kind", _S, "normal, retry, dead_letter or system"),
        Column("queue_count", _I4, "queues of the topic", nullable=False),
        Column("consumer_group_count", _I4, "groups with a row for the topic", nullable=False),
        Column("message_count", _I8, "sum of max_offset - min_offset: messages kept"),
        *_LAGS,
    ),
)
OFFSET_MOVE_FACTS = Table(
    "offset_move_facts",
    "offset moves of the look-back window, each counted once, one row per (group, client, queue, requested offset)",
    (
        "cluster",
        "consumer_group",
        "client_id",
        "topic",
        "broker_name",
        "queue_id",
        "requested_offset",
        "interval_start",
    ),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        Column("client_id", _S, "the client that asked: its id, or its address from a log line; NULL = not known"),
        TOPIC,
        BROKER_NAME,
        Column("queue_id", _I4, "number of the queue; NULL = only a log line tells of the move, and it does not say"),
        Column("requested_offset", _I8, "offset that the client asked for, or had committed before", nullable=False),
        Column("corrected_offset", _I8, "newest offset that it was sent to, or has committed since", nullable=False),
        Column("move_count", _I8, "how often within the window", nullable=False),
        Column("first_moved_at", _T, "first time within the window", nullable=False),
        Column("last_moved_at", _T, "last time within the window", nullable=False),
        Column("origin", _S, "what tells of it: event, else log, else snapshot", nullable=False),
    ),
)
INVARIANT_RESULTS = Table(
    "invariant_results",
    "one row per invariant and interval: what was checked and what was violated",
    ("cluster", "invariant_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("invariant_id", _S, "id, e.g. OG-Q01", nullable=False),
        Column("table_name", _S, "the table that was checked", nullable=False),
        Column("violation_means", _S, "corrupt or trouble", nullable=False),
        Column("rows_checked", _I8, "rows that the invariant applies to", nullable=False),
        Column("violations", _I8, "rows that violate it", nullable=False),
        Column("examples", ColumnType.STRING_LIST, "the first violating rows, as text", False),
    ),
)
QUARANTINE = Table(
    "quarantine",
    "rows left out of the facts because they cannot be right, with the reason",
    ("cluster", "table_name", "invariant_id", "row_key", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("table_name", _S, "table that the row was meant for", nullable=False),
        Column("invariant_id", _S, "the corrupt invariant that it breaks", nullable=False),
        Column("row_key", _S, "the row's key as text", nullable=False),
        Column("row_json", _S, "the whole row as JSON, so that it can be re-driven", nullable=False),
    ),
)

PUBLISHED = (
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    GROUP_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    CLIENT_QUEUE_SNAPSHOTS,
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    OFFSET_MOVES,
    LOG_EVENTS,
    QUEUE_FACTS,
    GROUP_FACTS,
    TOPIC_FACTS,
    OFFSET_MOVE_FACTS,
    INVARIANT_RESULTS,
    QUARANTINE,
)
