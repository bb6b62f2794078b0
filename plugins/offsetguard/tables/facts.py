"""What Spark makes of the snapshots: suspect queues, topics, offset moves."""

from __future__ import annotations

from dataclasses import replace

from offsetguard.tables.columns import (
    BASELINE,
    BROKER_NAME,
    CLUSTER,
    CONSUMER_GROUP,
    INTERVAL_START,
    LAGS,
    OFFSETS,
    QUEUE_ID,
    TOPIC,
)
from offsetguard.tables.state import FOLDED_COLUMNS
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
    "suspect queues: everything that is not provably healthy; and all of groups whose clients subscribe differently",
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
            "lag_ms_basis", _S, "how lag_ms is known: end_reached, measured, interpolated, extrapolated; NULL = not"
        ),
        Column(
            "holder_client_id", _S, "client that says it holds the queue, the newest if several; NULL = none said so"
        ),
        Column("holder_count", _I4, "clients that say they hold the queue; NULL = no client was asked"),
        Column("locked", _B, "the holder believes that it holds the rebalance lock; orderly clients only"),
        Column("cached_message_count", _I8, "messages that the holder has pulled and not finished"),
        Column("cached_min_offset", _I8, "oldest of them"),
        Column("cached_max_offset", _I8, "newest of them"),
        Column("cache_is_full", _B, "the holder has reached its pull threshold: it is slow and pulls no more"),
        Column("last_lock_at", _T, "the holder's last renewal of the lock"),
        Column("last_pull_at", _T, "the holder's last pull"),
        Column("last_consume_at", _T, "when the holder last finished a message of the queue"),
        Column("produce_tps", _F, "messages written per second between the newest two samples; NULL = not both seen"),
        Column("consume_tps", _F, "messages committed per second, likewise"),
        *(replace(column, nullable=True) for column in FOLDED_COLUMNS),
        Column(
            "violated_invariants", ColumnType.STRING_LIST, "ids of the trouble invariants that the row breaks", False
        ),
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
        Column("suspect_queue_count", _I4, "of the groups' queues, those that are not provably healthy"),
        Column("max_offset_total", _I8, "sum of max_offset: grows with every message; NULL = a queue was not seen"),
        Column("counted_at", _T, "when these max offsets were read; the oldest"),
        Column(
            "produce_tps", _F, "messages written per second since the topic was last seen; NULL = not seen, recreated"
        ),
        Column("put_tps", _F, "the same as its masters count it over the last minute; NULL = a master was not asked"),
        Column("last_update_at", _T, "store time of the newest message; NULL = none, or not seen"),
        Column("broker_count", _I4, "brokers whose settings name the topic; NULL = none was seen"),
        Column("read_queue_count", _I4, "queues that consumers read, over all brokers"),
        Column("write_queue_count", _I4, "queues that producers write, over all brokers"),
        Column("read_write_differ", _B, "a broker reads another number of queues than it writes"),
        Column("unreadable_queue_count", _I4, "queues that exist beyond the read queues: nobody consumes them"),
        Column("unreadable_message_count", _I8, "messages kept in them"),
        Column("unwritten_queue_count", _I4, "queues that consumers read and producers do not write"),
        Column("unwritten_message_count", _I8, "messages kept in them; NULL = none was seen"),
        Column(
            "unwritten_queues_used", _B, "a message was ever written to one of them; NULL = there are none, or not seen"
        ),
        Column("perm", _I4, "2 = write, 4 = read, 6 = both: what all brokers allow"),
        *BASELINE,
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
