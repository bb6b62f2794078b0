"""What brokers and clients wrote down themselves: offset moves, log lines; and what of it could not be read."""

from datetime import datetime
from typing import Annotated

from offsetguard.tables.columns import BrokerName, ConsumerGroup, Topic
from offsetguard.tables.table import Int32, Table, row_of


class _OffsetMoves:
    origin: Annotated[str, "event, log, reset (an order in a log, reckoned for each queue) or snapshot"]
    source: Annotated[
        str,
        "event: broker that stored it; log: log source and file; reset: those/group/topic/queue; "
        "snapshot: broker/topic/queue/group",
    ]
    position: Annotated[
        int,
        "event: offset in its topic; log, reset: byte position in the file; snapshot: interval start, ms since 1970",
    ]
    moved_at: Annotated[datetime, "store time of the event; time of the log line; when the second offset was read"]
    consumer_group: ConsumerGroup
    client_id: Annotated[
        str | None, "the client that asked; a log line gives its address; NULL = the source does not say"
    ]
    topic: Topic
    broker_name: BrokerName
    queue_id: Annotated[Int32 | None, "number of the queue; NULL: log lines do not say"]
    requested_offset: Annotated[int, "offset that the client asked for, had committed, or had reached before"]
    corrected_offset: Annotated[
        int,
        "offset that it was sent or set to; snapshot: committed since, or the oldest message kept if that had passed",
    ]
    nearest_start_at: Annotated[
        datetime | None,
        "snapshot: when its broker, or a client of the group, was started, whichever lay nearest; NULL = none is known",
    ]


OFFSET_MOVES = Table(
    "offset_moves",
    "offsets that a broker corrected or that jumped: from events (4.x), broker logs, and differences of snapshots",
    ("cluster", "origin", "source", "position"),
    row_of(_OffsetMoves),
)


class _LogEvents:
    source: Annotated[str, "name of the log source in the configuration"]
    file: Annotated[str, "file name and identity, so that a rotated file keeps its own"]
    position: Annotated[int, "byte position of the line's start in the uncompressed file"]
    kind: Annotated[str, "name of the pattern, see docs/logs.md"]
    at: Annotated[datetime | None, "time of the line; NULL = the line carries none"]
    broker_name: Annotated[str | None, "broker that wrote the log; NULL = a client's log"]
    broker_id: Annotated[int | None, "its replica; 0 = master"]
    consumer_group: Annotated[str | None, "group of the line; NULL = it names none"]
    topic: Annotated[str | None, "topic of the line; NULL = it names none"]
    queue_id: Annotated[Int32 | None, "queue of the line; NULL = it names none"]
    client_id: Annotated[str | None, "client id or address of the line; NULL = it names none"]
    fields_json: Annotated[str, "every field of the pattern, as JSON"]


LOG_EVENTS = Table(
    "log_events",
    "recognised lines of broker and client logs",
    ("cluster", "source", "file", "position"),
    row_of(_LogEvents),
)


class _UndecodableRecords:
    source: Annotated[str, "what was asked, e.g. OFFSET_MOVED_EVENT of broker-a"]
    position: Annotated[int, "offset or running number within the source"]
    reason: Annotated[str, "what is wrong with it"]
    body_base64: Annotated[str, "the bytes, base64, at most 64 KiB of them"]


UNDECODABLE_RECORDS = Table(
    "undecodable_records",
    "what a broker sent and we could not read: kept with the reason, so that it can be read again after a fix",
    ("cluster", "interval_start", "source", "position"),
    row_of(_UndecodableRecords),
)
