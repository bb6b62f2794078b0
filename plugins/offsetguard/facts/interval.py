"""What the judge reads: everything about one cluster and interval, as typed records made of published rows.

A column that a row does not have, or that is NULL because an earlier release wrote the row, is the field's default.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar

from offsetguard import tables
from offsetguard.collect.manifest import Manifest
from offsetguard.facts.parameters import unfold
from offsetguard.model.fact_records import (
    Absences,
    BrokerMark,
    CollectionGap,
    Unreached,
    UnseenBrokerFacts,
    VanishedFacts,
)
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import QueueVerdict
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.facts import Baseline, OffsetMoveFacts, QueueFigures, TopicFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LockWaitFacts, LogLineFacts, SubscriptionFacts
from offsetguard.tables.queue_state import QueueState
from offsetguard.tables.table import ClientSummary, RefusedGroup

Row = Mapping[str, Any]
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts(QueueFigures):
    """One suspect queue of one consumer group."""

    message_queue: MessageQueue
    offsets: QueueOffsets
    window: QueueState
    verdict: QueueVerdict | None = None  # given by `windows.judge_queues`; None: not judged yet


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineGroupFacts(ClientSummary, RefusedGroup):
    """A consumer group with clients online; one that broadcasts has no queue with an offset, and so no GroupFacts."""

    consumer_group: str
    message_model: str


@dataclass(frozen=True, slots=True)
class TrafficHour:
    """What was written to a topic in the hour that has just passed, and in the same hour of earlier weeks."""

    topic: str
    hour_start_at: datetime
    hour_tps: float
    usual_tps: float  # mean of the earlier weeks
    usual_spread_tps: float  # their standard deviation
    week_count: int  # earlier weeks


@dataclass(frozen=True, slots=True)
class IntervalFacts:
    """Everything that the rules may look at, for one cluster and interval.

    `now` is the look: as of it somebody saw what these facts say, and ages count up to it. A round is read soon after
    its interval begins, so that the interval's end mostly lies ahead of who reads what is said.
    """

    cluster: str
    interval: Interval
    now: datetime
    queues: tuple[QueueFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    offset_moves: tuple[OffsetMoveFacts, ...] = ()
    gaps: tuple[CollectionGap, ...] = ()
    unseen_broker_names: frozenset[str] = field(default_factory=frozenset)  # masters that gave no offsets
    unseen_brokers: tuple[UnseenBrokerFacts, ...] = ()
    vanished: tuple[VanishedFacts, ...] = ()
    traffic_hours: tuple[TrafficHour, ...] = ()  # in the first interval of an hour
    cluster_unseen: bool = False  # no name server answered: nothing at all was seen
    logs_read: bool = False  # logs of brokers or clients: without lines they said nothing
    topics: tuple[TopicFacts, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()
    lock_waits: tuple[LockWaitFacts, ...] = ()
    subscriptions: tuple[SubscriptionFacts, ...] = ()
    broker_marks: tuple[BrokerMark, ...] = ()  # oldest first; given by the judge: facts of one interval have none
    absences: Mapping[str, Absences] = field(default_factory=dict)  # by consumer group; given by the judge, likewise
    log_lines: tuple[LogLineFacts, ...] = ()
    online_groups: tuple[OnlineGroupFacts, ...] = ()
    config_problem: str | None = None  # given by the judge: what is wrong with the configuration file, by lines
    unreached: tuple[Unreached, ...] = ()  # given by the judge: teams that nothing has reached for too long
    audited: bool = True  # False: made of what has landed, by `facts.unpublished`
    unpublished_since: datetime | None = None  # then: end of the newest published interval; None: none ever was
    first_landed_at: datetime | None = None  # then, where none ever was: start of the first interval that has landed
    publication_ended_at: datetime | None = None  # then: of the newest published one; None: none, or not recorded
    publication_ms: int | None = None  # and how long it took, waiting for others included


def facts_of(
    manifest: Manifest, interval: Interval, until: datetime, rows: Callable[[tables.Table], Iterable[Row]]
) -> IntervalFacts:
    """Return what the rules read about an interval; `rows` gives those of a table, none of what is not known.

    `until`: the moment up to which the facts were made; the look was no later.
    """

    def records(table: tables.Table, kind: type[Record]) -> tuple[Record, ...]:
        return tuple(record_of(kind, row) for row in rows(table))

    return IntervalFacts(
        cluster=manifest.cluster,
        interval=interval,
        now=min(manifest.finished_at, until),
        queues=tuple(map(queue_facts_of, rows(tables.QUEUE_FACTS))),
        groups=records(tables.GROUP_FACTS, GroupFacts),
        topics=records(tables.TOPIC_FACTS, TopicFacts),
        brokers=records(tables.BROKER_FACTS, BrokerFacts),
        offset_moves=records(tables.OFFSET_MOVE_FACTS, OffsetMoveFacts),
        lock_waits=records(tables.LOCK_WAIT_FACTS, LockWaitFacts),
        subscriptions=records(tables.SUBSCRIPTION_FACTS, SubscriptionFacts),
        log_lines=records(tables.LOG_LINE_FACTS, LogLineFacts),
        online_groups=tuple(online_groups_of(rows(tables.GROUP_SNAPSHOTS))),
        gaps=manifest.gap_facts(),
        unseen_brokers=manifest.unseen_brokers,
        vanished=manifest.vanished,
        traffic_hours=tuple(one for row in rows(tables.TRAFFIC_BASELINES) for one in traffic_hour_of(row)),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
        logs_read=bool(manifest.log_cursors),
    )


def record_of(kind: type[Record], row: Row) -> Record:
    """Return a record of the row's columns; lists become tuples."""
    return kind(**_known_columns(kind, row))


def queue_facts_of(row: Row) -> QueueFacts:
    """Return a `queue_facts` row as a record."""
    queue = {
        "message_queue": MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
        "offsets": QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"]),
        "window": QueueState.from_row(row),
    }
    return QueueFacts(**(_known_columns(QueueFacts, row) | queue))


def traffic_hour_of(row: Row) -> Iterator[TrafficHour]:
    """Give what a row of `traffic_baselines` says of a topic beside the weeks before; of groups nothing."""
    if row["consumer_group"] is not None:
        return
    before = unfold(Baseline(row["mean_tps"], row["spread_tps"], row["week_count"]), row["hour_tps"])
    if before is not None:
        usual = (before.mean_tps, before.spread_tps, before.week_count)
        yield TrafficHour(row["topic"], row["hour_start_at"], row["hour_tps"], *usual)


def online_groups_of(rows: Iterable[Row]) -> Iterator[OnlineGroupFacts]:
    """Yield the groups with clients online of `group_snapshots` rows."""
    for row in rows:
        if row.get("message_model") is not None:
            yield record_of(OnlineGroupFacts, row)


def _known_columns(kind: type[Any], row: Row) -> dict[str, Any]:
    columns = {}
    for one in fields(kind):
        value = row.get(one.name)
        if value is not None or (one.default is MISSING and one.default_factory is MISSING):
            columns[one.name] = tuple(value) if isinstance(value, list) else value
    return columns
