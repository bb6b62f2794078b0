"""What brokers and clients wrote down themselves: offset moves, log lines; and what of it could not be read."""

from __future__ import annotations

from offsetguard.tables.columns import (
    BROKER_NAME,
    CLUSTER,
    CONSUMER_GROUP,
    INTERVAL_START,
    TOPIC,
)
from offsetguard.tables.table import Column, ColumnType, Table

_S, _I4, _I8, _F, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
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
