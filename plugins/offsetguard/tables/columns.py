"""Columns that several tables share."""

from __future__ import annotations

from offsetguard.tables.table import Column, ColumnType

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

OFFSETS = (
    Column("min_offset", _I8, "oldest message that the broker still keeps"),
    Column("max_offset", _I8, "broker offset: number of the next message to be written"),
    Column("consumer_offset", _I8, "committed: next to be consumed; NULL = never committed or not seen"),
    Column("pull_offset", _I8, "next to be pulled; NULL where the broker cannot tell (before 5.1)"),
    Column("last_timestamp", _T, "store time of message consumer_offset - 1; NULL = unknown (deleted or never)"),
    Column(
        "oldest_unconsumed_at", _T, "store time of the message at consumer_offset; NULL = nothing waits, or unknown"
    ),
)
LAGS = (
    Column("lag", _I8, "max_offset - consumer_offset, messages"),
    Column("effective_lag", _I8, "max_offset - max(consumer_offset, min_offset), messages that can still be read"),
    Column("inflight", _I8, "pull_offset - consumer_offset, messages handed out and not yet committed"),
    Column("available", _I8, "max_offset - pull_offset, messages not yet handed out"),
    Column("lost", _I8, "max(0, min_offset - consumer_offset), messages deleted before they were consumed"),
    Column(
        "lag_ms",
        _I8,
        "age of the oldest message that can still be consumed, ms: told by the broker, else interpolated on the"
        " producer curve; 0 = nothing waits; NULL = unknown",
    ),
    Column("inflight_ms", _I8, "time over which the messages in flight were written, ms; NULL = unknown"),
    Column("available_ms", _I8, "age of the oldest message not yet handed out, ms; NULL = unknown"),
    Column("lost_ms", _I8, "time over which the lost messages were written, ms; 0 = none lost; NULL = unknown"),
)
CLIENT_SUMMARY = (
    Column("online_client_count", _I4, "connected clients of the group; 0 = offline; NULL = could not be seen"),
    Column("message_model", _S, "CLUSTERING or BROADCASTING; NULL = no client online to tell"),
    Column("consume_type", _S, "CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; NULL = unknown"),
)
BASELINE = (
    Column("baseline_tps", _F, "traffic at this hour of the week in earlier weeks, per second; NULL = none was seen"),
    Column("baseline_spread_tps", _F, "its standard deviation over these weeks"),
    Column("baseline_week_count", _I4, "weeks behind it"),
)
