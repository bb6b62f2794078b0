"""What log lines and clients say about rebalance locks, subscriptions and rebalances, as facts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from offsetguard.tables.columns import BrokerName, ConsumerGroup, QueueId, Topic
from offsetguard.tables.table import FACT_RETENTION, Int32, Table, row_of


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
