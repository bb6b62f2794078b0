"""What Spark makes of snapshots: suspect queues, topics, offset moves, usual traffic; and what the gate found in it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

from offsetguard.tables.queue_state import Folded
from offsetguard.tables.table import (
    FACT_RETENTION,
    BrokerName,
    ConsumerGroup,
    Int32,
    Lags,
    LagTimes,
    MessageQueueName,
    Offsets,
    StoreTimes,
    Table,
    Topic,
    UsualTraffic,
    columns_of,
    nullable,
    row_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures(StoreTimes, LagTimes):
    """One suspect queue of one consumer group: `QueueFacts` without its name, its offsets and its window."""

    consumer_group: ConsumerGroup
    _queue: ClassVar = columns_of(MessageQueueName)
    _offsets: ClassVar = columns_of(Offsets)
    _store_times: ClassVar = columns_of(StoreTimes)
    _lags: ClassVar = columns_of(Lags)  # the counts of them are formulas of the offsets
    lag_ms_basis: Annotated[
        str | None, "how lag_ms is known: end_reached, measured, interpolated, extrapolated; NULL = not"
    ] = None
    holder_client_id: Annotated[
        str | None, "client that says it holds the queue, the newest if several; NULL = none said so"
    ] = None
    holder_count: Annotated[Int32 | None, "clients that say they hold the queue; NULL = none says so"] = None
    locked: Annotated[bool | None, "the holder believes that it holds the rebalance lock; orderly clients only"] = None
    cached_message_count: Annotated[int | None, "messages that the holder has pulled and not finished"] = None
    cached_min_offset: Annotated[int | None, "oldest of them"] = None
    cached_max_offset: Annotated[int | None, "newest of them"] = None
    cache_is_full: Annotated[
        bool | None,
        "the holder has reached its pull threshold: it is slow and pulls no more",
    ] = None
    last_lock_at: Annotated[datetime | None, "the holder's last renewal of the lock"] = None
    last_pull_at: Annotated[datetime | None, "the holder's last pull"] = None
    last_consume_at: Annotated[datetime | None, "when the holder last finished a message of the queue"] = None
    produce_tps: Annotated[
        float | None, "messages written per second between the newest two samples; NULL = not both seen"
    ] = None
    consume_tps: Annotated[float | None, "messages committed per second, likewise"] = None
    _folded: ClassVar = nullable(columns_of(Folded))  # release 0.1 had none
    violated_invariants: Annotated[tuple[str, ...], "ids of the trouble invariants that the row breaks"] = ()


QUEUE_FACTS = Table(
    "queue_facts",
    "suspect queues: everything that is not provably healthy; and all of groups whose clients subscribe differently",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group", "interval_start"),
    row_of(QueueFigures),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts(Lags, UsualTraffic):
    """One topic over all its queues and groups; sums are None when nothing is known."""

    topic: Topic
    topic_kind: Annotated[str | None, "normal, retry, dead_letter or system"] = None
    queue_count: Annotated[Int32 | None, "queues of the topic; NULL = no master says that it has any"] = None
    consumer_group_count: Annotated[Int32, "groups with a row for the topic"]
    message_count: Annotated[int | None, "sum of max_offset - min_offset: messages kept"] = None
    _lags: ClassVar = columns_of(Lags)
    suspect_queue_count: Annotated[Int32 | None, "of the groups' queues, those that are not provably healthy"] = None
    max_offset_total: Annotated[
        int | None, "sum of max_offset: grows with every message; NULL = a queue was not seen"
    ] = None
    counted_at: Annotated[datetime | None, "when these max offsets were read; the oldest"] = None
    produce_tps: Annotated[
        float | None, "messages written per second since the topic was last seen; NULL = not seen, recreated"
    ] = None
    put_tps: Annotated[
        float | None, "the same as its masters count it over the last minute; NULL = a master was not asked"
    ] = None
    last_update_at: Annotated[datetime | None, "store time of the newest message; NULL = none, or not seen"] = None
    made_again: Annotated[
        bool | None,
        "all max offsets are what they were, and the newest message was stored since; NULL = not so often seen, grown",
    ] = None
    broker_count: Annotated[Int32 | None, "brokers whose settings name the topic; NULL = none was seen"] = None
    read_queue_count: Annotated[Int32 | None, "queues that consumers read, over all brokers"] = None
    write_queue_count: Annotated[Int32 | None, "queues that producers write, over all brokers"] = None
    read_write_differ: Annotated[bool | None, "a broker reads another number of queues than it writes"] = None
    unreadable_queue_count: Annotated[
        Int32 | None,
        "queues that exist beyond the read queues: nobody consumes them; NULL = a broker's settings were not seen",
    ] = None
    unreadable_message_count: Annotated[int | None, "messages kept in them"] = None
    unwritten_queue_count: Annotated[Int32 | None, "queues that consumers read and producers do not write"] = None
    unwritten_message_count: Annotated[int | None, "messages kept in them; NULL = none was seen"] = None
    unwritten_queues_used: Annotated[
        bool | None, "a message was ever written to one of them; NULL = there are none, or not seen"
    ] = None
    perm: Annotated[Int32 | None, "2 = write, 4 = read, 6 = both: what all brokers allow"] = None
    _usual_traffic: ClassVar = columns_of(UsualTraffic)


TOPIC_FACTS = Table(
    "topic_facts",
    "one row per topic, over all its queues and groups",
    ("cluster", "topic", "interval_start"),
    row_of(TopicFacts),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMoveFacts:
    """Moves of one (group, client, queue, requested offset) within the look-back window."""

    consumer_group: ConsumerGroup
    client_id: Annotated[
        str | None, "the client that asked: its id, or its address from a log line; NULL = not known"
    ] = None
    topic: Topic
    broker_name: BrokerName
    queue_id: Annotated[
        Int32 | None, "number of the queue; NULL = only a log line tells of the move, and it does not say"
    ] = None
    requested_offset: Annotated[int, "offset that the client asked for, or had committed before"]
    corrected_offset: Annotated[int, "newest offset that it was sent to, or has committed since"]
    move_count: Annotated[int, "how often within the window"]
    first_moved_at: Annotated[datetime, "first time within the window"]
    last_moved_at: Annotated[datetime, "last time within the window"]
    origin: Annotated[str, "what tells of it: event, else log or reset, else snapshot"] = "event"
    nearest_start_at: Annotated[
        datetime | None,
        "snapshot: start of its broker, or of a client of the group, nearest to the move when it was found; NULL = none"
        " known",
    ] = None
    members_changed_at: Annotated[
        datetime | None, "snapshot: when a client came or went, by the log line nearest to the move; NULL = none known"
    ] = None


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
    row_of(OffsetMoveFacts),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Traffic at one hour of the week, over the weeks in which it was seen."""

    mean_tps: Annotated[float, "mean over the weeks; of many weeks the newer ones count more"]
    spread_tps: Annotated[float, "standard deviation over the weeks"]
    week_count: Annotated[Int32, "weeks in which the hour was seen"]


class _TrafficBaselines:
    topic: Topic
    consumer_group: Annotated[str | None, "the group whose commits are meant; NULL = what is written to the topic"]
    hour_of_week: Annotated[Int32, "hour that has passed: 0 = Monday 00:00 UTC, 167 = Sunday 23:00"]
    hour_start_at: Annotated[datetime, "when that hour began"]
    hour_tps: Annotated[float, "messages per second over that hour"]
    _baseline: ClassVar = columns_of(Baseline)


TRAFFIC_BASELINES = Table(
    "traffic_baselines",
    "usual traffic by hour of the week: one row per topic, and per group in a topic, when an hour has passed;"
    " each goes on from the row of the same hour one week (or a few) before",
    ("cluster", "topic", "consumer_group", "hour_of_week", "interval_start"),
    row_of(_TrafficBaselines),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantResult:
    """What one invariant found in the interval."""

    invariant_id: Annotated[str, "id, e.g. OG-Q01"]
    table_name: Annotated[str, "the table that was checked"]
    violation_means: Annotated[str, "corrupt, trouble or defect"]
    rows_checked: Annotated[
        int, "rows that the invariant applies to; of the rows in quarantine, only those that break it"
    ]
    violations: Annotated[int, "rows that violate it"]
    examples: Annotated[tuple[str, ...], "at most 20 violating rows, as text"] = ()


INVARIANT_RESULTS = Table(
    "invariant_results",
    "one row per invariant and interval: what was checked and what was violated",
    ("cluster", "invariant_id", "interval_start"),
    row_of(InvariantResult),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """One row and one invariant that it breaks."""

    table_name: Annotated[str, "table that the row was meant for"]
    invariant_id: Annotated[str, "the corrupt invariant that it breaks; UNDECODABLE: it could not be read"]
    row_key: Annotated[str, "the row's key as text"]
    row_json: Annotated[str, "the whole row as JSON, so that it can be re-driven"]
    reason: Annotated[str, "what is wrong with the row, with its names and figures"]
    reason_number: Annotated[
        Int32, "1 for the first invariant that the row breaks, 2 for the second: rows with 1 count rows"
    ]
    rule_version: Annotated[str, "version of the invariant that said so; it changes with its SQL"]
    run_id: Annotated[str, "the publication that put the row here"]


QUARANTINE = Table(
    "quarantine",
    "rows left out of the facts because they cannot be right, with the reason",
    ("cluster", "table_name", "invariant_id", "row_key", "interval_start"),
    row_of(Quarantined),
    retention=FACT_RETENTION,
)


class _Manifest:
    previous_interval_start: Annotated[
        datetime | None, "newest interval published before this one; NULL = there is none"
    ]
    started_at: Annotated[datetime, "when the round began"]
    finished_at: Annotated[datetime, "when the round ended"]
    asked_count: Annotated[int, "requests that were sent"]
    gap_count: Annotated[int, "things that were asked for and not seen"]
    landed_count: Annotated[int, "rows that landed, all tables"]
    duplicate_count: Annotated[int, "rows among them that repeat a key"]
    cluster_unseen: Annotated[bool, "no name server answered"]
    master_count: Annotated[int, "masters that the name server lists"]
    unseen_masters: Annotated[str | None, "names of those that gave no offsets; NULL = all did"]
    missing_masters: Annotated[str | None, "masters of earlier rounds that are not listed any more; NULL = none"]


MANIFEST = Table(
    "manifest",
    "what a collection round says of itself; one row, made of its manifest.json for the gate and not kept",
    ("cluster", "interval_start"),
    row_of(_Manifest),
)
