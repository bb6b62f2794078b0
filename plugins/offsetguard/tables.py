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


_S, _I4, _I8, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
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
        Column("origin", _S, "where the offsets come from: broker", nullable=False),
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
        *_CLIENT_SUMMARY,
        Column("declared_orderly", _B, "the configuration says that the group consumes orderly"),
        Column("lock_interval_ms", _I8, "declared client setting rocketmq.client.rebalance.lockInterval, ms"),
        Column("lock_max_live_time_ms", _I8, "declared broker setting rocketmq.broker.rebalance.lockMaxLiveTime, ms"),
    ),
)
CLIENT_SNAPSHOTS = Table(
    "client_snapshots",
    "one row per connected client of a group and broker that sees it",
    ("cluster", "consumer_group", "client_id", "broker_name", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        Column("client_id", _S, "client id, usually ip@instance", nullable=False),
        BROKER_NAME,
        Column("client_address", _S, "ip:port as the broker sees it"),
        Column("language", _S, "client language"),
        Column("version", _I4, "MQVersion ordinal of the client"),
        Column("subscriptions", ColumnType.STRING_LIST, "the group's subscriptions on this broker, `topic expression`"),
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
        Column("commit_log_disk_ratio", ColumnType.FLOAT64, "used share of the commit log's disk, 0..1"),
        Column("role", _S, "broker setting brokerRole: ASYNC_MASTER, SYNC_MASTER or SLAVE"),
        Column("slave_read_enable", _B, "broker setting slaveReadEnable"),
        Column("file_reserved_time_hours", _I4, "broker setting fileReservedTime, hours"),
        Column("delete_when", _S, "broker setting deleteWhen, hour of day"),
        Column("disk_max_used_space_ratio", _I4, "broker setting diskMaxUsedSpaceRatio, percent"),
        Column("read_at", _T, "when the broker answered"),
    ),
)
OFFSET_MOVES = Table(
    "offset_moves",
    "one row per OFFSET_MOVED_EVENT that a broker stored (4.x)",
    ("cluster", "event_broker_name", "event_offset"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("event_broker_name", _S, "broker that stored the event", nullable=False),
        Column("event_offset", _I8, "offset of the event in its topic: identifies it for ever", nullable=False),
        Column("moved_at", _T, "store time of the event", nullable=False),
        CONSUMER_GROUP,
        Column("client_id", _S, "the client that asked; NULL: the event does not say"),
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        Column("requested_offset", _I8, "offset that the client asked for", nullable=False),
        Column("corrected_offset", _I8, "offset that the broker sent it to", nullable=False),
        Column("origin", _S, "event", nullable=False),
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
    BROKER_SNAPSHOTS,
    OFFSET_MOVES,
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
    "offset moves of the look-back window, one row per (group, client, queue, requested offset)",
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
        Column("client_id", _S, "the client that asked; NULL: the event does not say"),
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        Column("requested_offset", _I8, "offset that the client asked for", nullable=False),
        Column("corrected_offset", _I8, "newest offset that the broker sent it to", nullable=False),
        Column("move_count", _I8, "how often within the window", nullable=False),
        Column("first_moved_at", _T, "first time within the window", nullable=False),
        Column("last_moved_at", _T, "last time within the window", nullable=False),
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
    BROKER_SNAPSHOTS,
    OFFSET_MOVES,
    QUEUE_FACTS,
    GROUP_FACTS,
    TOPIC_FACTS,
    OFFSET_MOVE_FACTS,
    INVARIANT_RESULTS,
    QUARANTINE,
)
