"""What brokers and clients wrote down: offset moves, log lines, what could not be read; and facts of these lines."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from offsetguard.tables.table import FACT_RETENTION, BrokerName, ConsumerGroup, Int32, QueueId, Table, Topic, row_of


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWaitFacts:
    """One wait for a queue's rebalance lock within the look-back window."""

    consumer_group: ConsumerGroup
    topic: Topic
    broker_name: BrokerName
    queue_id: QueueId
    holder_client_id: Annotated[
        str | None, "the client that held the lock; NULL = only a client's log tells of the wait"
    ] = None
    waiter_client_id: Annotated[
        str | None, "the client that was refused; NULL = only its own log tells, without its id"
    ] = None
    told_by: Annotated[str, "broker or client: whose log"]
    refusal_count: Annotated[
        int, "how often the lock was refused within the window; 0 = a client got an expired lock at once"
    ]
    first_refused_at: Annotated[datetime, "first refusal of this wait within the window, or else ended_at"]
    last_refused_at: Annotated[datetime, "last refusal of this wait, or else ended_at"]
    ended_at: Annotated[
        datetime | None, "when some client got the lock; NULL = not seen: it still waits, or gave up"
    ] = None
    ended_by: Annotated[
        str | None, "expired (the holder had not renewed it) or released; NULL = not seen, or the log does not say"
    ] = None
    next_holder_client_id: Annotated[str | None, "who got the lock; NULL = not seen, or the log does not say"] = None
    waited_ms: Annotated[int, "ended_at, or else last_refused_at, - first_refused_at, ms"]
    holder_online: Annotated[
        bool | None,
        "the holder is among the group's clients in this interval; NULL = not named, or the clients were not seen",
    ] = None
    holder_start_at: Annotated[
        datetime | None, "when the client that has the holder's id now was started; NULL = not online, or not told"
    ] = None
    holder_asked_at: Annotated[
        datetime | None, "when the holder itself asked for a lock last, within the window; NULL = no line says so"
    ] = None


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
    row_of(LockWaitFacts),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFacts:
    """One (consumer group, topic) whose subscription changed, or whose members subscribe differently."""

    consumer_group: ConsumerGroup
    topic: Topic
    refreshed_count: Annotated[
        int, "log lines of a change without another expression: noise of rebalances; of the replica that wrote most"
    ] = 0
    changed_count: Annotated[int, "the same with another expression"] = 0
    added_count: Annotated[int, "log lines of a topic that the group newly subscribes to"] = 0
    removed_count: Annotated[int, "log lines of a topic that no member subscribes to any more"] = 0
    first_changed_at: Annotated[datetime | None, "first change to another expression; NULL = none in the window"] = None
    last_changed_at: Annotated[datetime | None, "last change to another expression; NULL = none in the window"] = None
    changed_from: Annotated[str | None, "expression before the last change; NULL = none, or not known"] = None
    changed_to: Annotated[str | None, "expression after the last change; NULL = none, or not known"] = None
    changed_expressions: Annotated[tuple[str, ...], "every expression before or after a change, sorted"] = ()
    member_count: Annotated[Int32, "members whose own subscriptions were seen in this interval"] = 0
    member_expressions: Annotated[tuple[str, ...], "what these members subscribe to, each expression once, sorted"] = ()
    broker_expressions: Annotated[tuple[str, ...], "what the brokers hold for the whole group, each once, sorted"] = ()
    losing_member_count: Annotated[
        Int32 | None,
        "members with an expression that no broker holds: they skip messages; NULL = not known what brokers hold",
    ] = None
    losing_client_ids: Annotated[tuple[str, ...], "the first 20 of them, sorted"] = ()
    unsubscribed_member_count: Annotated[
        Int32, "members seen that do not subscribe to the topic at all: queues given to them are not consumed"
    ] = 0
    unsubscribed_client_ids: Annotated[tuple[str, ...], "the first 20 of them, sorted"] = ()
    newest_member_start_at: Annotated[
        datetime | None, "when the youngest member seen was started; NULL = not known"
    ] = None
    mismatch: Annotated[bool, "the members seen do not all subscribe to the same"] = False


SUBSCRIPTION_FACTS = Table(
    "subscription_facts",
    "groups and topics whose subscription changed in the look-back window, or whose members subscribe differently",
    ("cluster", "consumer_group", "topic", "interval_start"),
    row_of(SubscriptionFacts),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLineFacts:
    """Lines of one kind that one log has about a group, within the look-back window."""

    consumer_group: ConsumerGroup
    topic: Annotated[str | None, "topic of the lines; NULL = they name none"] = None
    kind: Annotated[str, "name of the pattern, see docs/logs.md; code 25 has one kind in all versions"]
    source: Annotated[str, "log source that told: one broker replica's, or one client's"]
    broker_name: Annotated[
        str | None, "broker that wrote the lines, or that a client's lines are about; NULL = not named"
    ] = None
    queue_id: Annotated[Int32 | None, "queue of the lines; NULL = they name none"] = None
    line_count: Annotated[int, "lines within the window"]
    first_at: Annotated[datetime, "first of them"]
    last_at: Annotated[datetime, "last of them"]
    spell_line_count: Annotated[int, "lines of the newest run without a silence longer than 45 s"]
    spell_first_at: Annotated[datetime, "first line of that run"]
    client_ids: Annotated[tuple[str, ...], "the first 20 clients, or addresses, that the lines name, sorted"] = ()
    newest_fields_json: Annotated[str, "every field of the last line, as JSON"] = "{}"


LOG_LINE_FACTS = Table(
    "log_line_facts",
    "log lines of the look-back window about a group: rebalances, resets, refused pulls, full caches; counted",
    ("cluster", "consumer_group", "topic", "kind", "source", "broker_name", "queue_id", "interval_start"),
    row_of(LogLineFacts),
    retention=FACT_RETENTION,
)
