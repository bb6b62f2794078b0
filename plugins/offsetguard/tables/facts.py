"""What Spark makes of the snapshots: suspect queues, groups, topics, offset moves."""

from __future__ import annotations

from offsetguard.tables.columns import (
    BROKER_NAME,
    CLIENT_SUMMARY,
    CLUSTER,
    CONSUMER_GROUP,
    INTERVAL_START,
    LAGS,
    OFFSETS,
    QUEUE_ID,
    TOPIC,
)
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_S, _I4, _I8, _F, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
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
        *OFFSETS,
        *LAGS,
        Column(
            "violated_invariants", ColumnType.STRING_LIST, "ids of the trouble invariants that the row breaks", False
        ),
    ),
    retention=FACT_RETENTION,
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
        *LAGS,
        *CLIENT_SUMMARY,
        Column("declared_orderly", _B, "the configuration says that the group consumes orderly"),
        Column("lock_interval_ms", _I8, "declared, ms"),
        Column("lock_max_live_time_ms", _I8, "declared, ms"),
        Column("violated_invariants", ColumnType.STRING_LIST, "ids of the trouble invariants of the group row", False),
    ),
    retention=FACT_RETENTION,
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
        *LAGS,
    ),
    retention=FACT_RETENTION,
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
    retention=FACT_RETENTION,
)
