"""What log lines and clients say about rebalance locks, subscriptions and rebalances, as facts."""

from __future__ import annotations

from offsetguard.tables.columns import BROKER_NAME, CLUSTER, CONSUMER_GROUP, INTERVAL_START, QUEUE_ID, TOPIC
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_S, _I4, _I8, _B, _T, _L = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
    ColumnType.STRING_LIST,
)

LOCK_WAIT_FACTS = Table(
    "lock_wait_facts",
    "waits for a queue's rebalance lock in the look-back window: an orderly queue that stands still meanwhile",
    (
        "cluster",
        "consumer_group",
        "topic",
        "broker_name",
        "queue_id",
        "holder_client_id",
        "waiter_client_id",
        "first_refused_at",
        "interval_start",
    ),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        Column("holder_client_id", _S, "the client that held the lock; NULL = only a client's log tells of the wait"),
        Column("waiter_client_id", _S, "the client that was refused; NULL = only its own log tells, without its id"),
        Column("told_by", _S, "broker or client: whose log", nullable=False),
        Column(
            "refusal_count",
            _I8,
            "how often the lock was refused within the window; 0 = a client got an expired lock at once",
            nullable=False,
        ),
        Column(
            "first_refused_at", _T, "first refusal of this wait within the window, or else ended_at", nullable=False
        ),
        Column("last_refused_at", _T, "last refusal of this wait, or else ended_at", nullable=False),
        Column("ended_at", _T, "when some client got the lock; NULL = not seen: it still waits, or gave up"),
        Column(
            "ended_by",
            _S,
            "expired (the holder had not renewed it) or released; NULL = not seen, or the log does not say",
        ),
        Column("next_holder_client_id", _S, "who got the lock; NULL = not seen, or the log does not say"),
        Column("waited_ms", _I8, "ended_at, or else last_refused_at, - first_refused_at, ms", nullable=False),
        Column(
            "holder_online",
            _B,
            "the holder is among the group's clients in this interval; NULL = not named, or the clients were not seen",
        ),
        Column(
            "holder_start_at",
            _T,
            "when the client that has the holder's id now was started; NULL = not online, or not told",
        ),
    ),
    retention=FACT_RETENTION,
)
SUBSCRIPTION_FACTS = Table(
    "subscription_facts",
    "groups and topics whose subscription changed in the look-back window, or whose members subscribe differently",
    ("cluster", "consumer_group", "topic", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        TOPIC,
        Column(
            "refreshed_count",
            _I8,
            "log lines of a change without another expression: noise of rebalances; of the replica that wrote most",
            nullable=False,
        ),
        Column("changed_count", _I8, "the same with another expression", nullable=False),
        Column("added_count", _I8, "log lines of a topic that the group newly subscribes to", nullable=False),
        Column("removed_count", _I8, "log lines of a topic that no member subscribes to any more", nullable=False),
        Column("first_changed_at", _T, "first change to another expression; NULL = none in the window"),
        Column("last_changed_at", _T, "last change to another expression; NULL = none in the window"),
        Column("changed_from", _S, "expression before the last change; NULL = none, or not known"),
        Column("changed_to", _S, "expression after the last change; NULL = none, or not known"),
        Column("changed_expressions", _L, "every expression before or after a change, sorted", nullable=False),
        Column("member_count", _I4, "members whose own subscriptions were seen in this interval", nullable=False),
        Column("member_expressions", _L, "what these members subscribe to, each expression once, sorted", False),
        Column("broker_expressions", _L, "what the brokers hold for the whole group, each once, sorted", False),
        Column(
            "losing_member_count",
            _I4,
            "members with an expression that no broker holds: they skip messages; NULL = not known what brokers hold",
        ),
        Column("losing_client_ids", _L, "the first 20 of them, sorted", nullable=False),
        Column(
            "unsubscribed_member_count",
            _I4,
            "members seen that do not subscribe to the topic at all: queues given to them are not consumed",
            nullable=False,
        ),
        Column("unsubscribed_client_ids", _L, "the first 20 of them, sorted", nullable=False),
        Column("newest_member_start_at", _T, "when the youngest member seen was started; NULL = not known"),
        Column("mismatch", _B, "the members seen do not all subscribe to the same", nullable=False),
    ),
    retention=FACT_RETENTION,
)
LOG_LINE_FACTS = Table(
    "log_line_facts",
    "log lines of the look-back window about a group: rebalances, resets, refused pulls, full caches; counted",
    ("cluster", "consumer_group", "topic", "kind", "source", "broker_name", "queue_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        Column("topic", _S, "topic of the lines; NULL = they name none"),
        Column(
            "kind", _S, "name of the pattern, see docs/logs.md; code 25 has one kind in all versions", nullable=False
        ),
        Column("source", _S, "log source that told: one broker replica's, or one client's", nullable=False),
        Column("broker_name", _S, "broker that wrote the lines, or that a client's lines are about; NULL = not named"),
        Column("queue_id", _I4, "queue of the lines; NULL = they name none"),
        Column("line_count", _I8, "lines within the window", nullable=False),
        Column("first_at", _T, "first of them", nullable=False),
        Column("last_at", _T, "last of them", nullable=False),
        Column("spell_line_count", _I8, "lines of the newest run without a silence longer than 45 s", nullable=False),
        Column("spell_first_at", _T, "first line of that run", nullable=False),
        Column("client_ids", _L, "the first 20 clients, or addresses, that the lines name, sorted", nullable=False),
        Column("newest_fields_json", _S, "every field of the last line, as JSON", nullable=False),
    ),
    retention=FACT_RETENTION,
)
