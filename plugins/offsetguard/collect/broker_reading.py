"""Everything that one round has read from one replica: filled step by step, so that half of it is still of use."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import le, lt
from typing import NamedTuple

from offsetguard.collect.columns import microseconds, moment_of
from offsetguard.collect.manifest import EventCursor
from offsetguard.collect.replica import Answer, Replica
from offsetguard.collect.system_names import is_lite_topic
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo, BrokerStats, SubscriptionGroupConfig, TopicConfig
from offsetguard.sources.rocketmq.consumers import ConsumerConnections, ConsumerRunningInfo
from offsetguard.sources.rocketmq.offset_table import INT64_RANGE, AllConsumerOffsets, OffsetTable
from offsetguard.sources.rocketmq.offsets import (
    ConsumeOffsets,
    ConsumeTimeSpan,
    TopicStats,
)

GroupQueue = tuple[str, "MessageQueue"]  # (consumer group, queue)
GroupClient = tuple[str, str]  # (consumer group, client id)


class StatsItem(NamedTuple):
    """One item of a broker's statistics, by RocketMQ's names; and what its key is made of, None = not of that."""

    stats_name: str
    stats_key: str
    topic: str | None = None
    consumer_group: str | None = None
    queue_id: int | None = None


class PairReading(NamedTuple):  # made for each pair of a cluster in every round: quicker than a dataclass
    """The offsets of one group in the queues of one topic on one broker: columns of equal length."""

    consumer_group: str
    topic: str
    queue_ids: array[int]  # ascending
    consumer_offsets: array[int] | list[int | None]
    min_offsets: array[int] | list[int | None]
    max_offsets: array[int] | list[int | None]
    consumer_at: datetime | None  # None: the committed offsets were not seen
    max_at: datetime | None  # None: the topic was not seen

    def offsets(self) -> Iterator[tuple[int, QueueOffsets]]:
        """Yield (queue id, offsets); pull offsets are not known here."""
        columns = (self.queue_ids, self.min_offsets, self.max_offsets, self.consumer_offsets)
        for queue_id, low, high, consumer in zip(*columns, strict=True):
            yield queue_id, QueueOffsets(low, high, consumer)

    @property
    def is_in_order(self) -> bool:
        """All offsets are known, and min <= consumer <= max holds in each queue."""
        low, consumer, high = self.min_offsets, self.consumer_offsets, self.max_offsets
        is_known = type(consumer) is array and type(low) is array and type(high) is array
        return is_known and all(map(le, low, consumer)) and all(map(le, consumer, high))  # type: ignore[arg-type]

    @property
    def waiting_count(self) -> int:
        """Messages that wait, over all queues; of columns that are in order."""
        return sum(self.max_offsets) - sum(self.consumer_offsets)  # type: ignore[arg-type]


@dataclass(slots=True)
class QueueEnds:
    """What a broker said of a topic; no queues = the broker does not have the topic."""

    at: datetime  # when the broker had answered
    queue_ids: array[int]  # int32, ascending
    min_offsets: array[int]
    max_offsets: array[int]
    last_update_ms: array[int]  # store time of the newest message, 0 or less = unknown

    @classmethod
    def of(cls, stats: TopicStats | None, at: datetime) -> QueueEnds:
        """Take over an answer; brokers before 5.x list queues in any order."""
        if stats is None:
            return cls(at, array("i"), array("q"), array("q"), array("q"))
        ends = cls(at, stats.queue_ids, stats.min_offsets, stats.max_offsets, stats.last_update_ms)
        in_order = all(map(lt, ends.queue_ids, ends.queue_ids[1:]))
        return ends if in_order else ends.with_queues({})

    def with_queues(self, more: Mapping[int, tuple[int, int]]) -> QueueEnds:
        """Return the same with further queues, given as (min, max) by id; all in order of their ids, each once."""
        rows = {queue_id: figures for queue_id, *figures in self.rows()}
        rows |= {queue_id: [low, high, 0] for queue_id, (low, high) in more.items()}
        ids = sorted(rows)
        low, high, updated = (array("q", (rows[queue_id][place] for queue_id in ids)) for place in range(3))
        return QueueEnds(self.at, array("i", ids), low, high, updated)

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (queue id, min offset, max offset, store time of the newest message in ms), in ascending order."""
        return zip(self.queue_ids, self.min_offsets, self.max_offsets, self.last_update_ms, strict=True)

    def get(self, queue_id: int) -> tuple[int, int] | None:
        """Return one queue's (min, max) offsets; None = the broker does not have it."""
        position = bisect_left(self.queue_ids, queue_id)
        is_there = position < len(self.queue_ids) and self.queue_ids[position] == queue_id
        return (self.min_offsets[position], self.max_offsets[position]) if is_there else None


@dataclass(frozen=True, slots=True)
class WaitingAges:
    """What QUERY_CONSUME_TIME_SPAN said of one group's queues of a topic."""

    at: datetime  # when the broker had answered
    queues: Mapping[int, ConsumeTimeSpan]  # by queue id

    @classmethod
    def of(cls, spans: Mapping[MessageQueue, ConsumeTimeSpan] | None, at: datetime) -> WaitingAges:
        """Take over an answer."""
        return cls(at, {queue.queue_id: span for queue, span in spans.items()} if spans else {})

    def oldest_unconsumed(self, queue_id: int, offsets: QueueOffsets) -> int | None:
        """Store time of the oldest message that the group can still consume, microseconds since 1970.

        None: nothing waits, or unknown: consumed meanwhile, or a broker whose clock went back. The broker tells an age,
        not a time, so its wrong clock does not matter. Where the message at the consumer offset was deleted, the oldest
        kept one counts.
        """
        span = self.queues.get(queue_id)
        if span is None or (offsets.effective_lag or 0) <= 0:
            return None
        if offsets.lost:
            return microseconds(span.min_timestamp) or None
        at, delay_ms = microseconds(self.at), span.delay_ms
        return None if at is None or delay_ms is None or delay_ms <= 0 else at - delay_ms * 1_000


FAR_BYTES = 64 * 2**20  # from its master; a slave less far is read later, or behind for a moment
_NOTHING = INT64_RANGE.start  # stands for None
_FIELDS = 5  # queue id, broker offset, consumer offset, pull offset, last timestamp


class ConsumeQueues:
    """An answer of GET_CONSUME_STATS (208), kept until the end of a round in a fifth of its decoded memory."""

    __slots__ = ("_of_topic",)

    def __init__(self, queues: Mapping[MessageQueue, ConsumeOffsets]) -> None:
        """Take over what was decoded."""
        self._of_topic: dict[tuple[str, str], array[int]] = {}  # by (topic, broker name)
        for queue, offsets in sorted(queues.items()):
            row = (
                queue.queue_id,
                offsets.broker_offset,
                offsets.consumer_offset,
                _NOTHING if offsets.pull_offset is None else offsets.pull_offset,
                _NOTHING if offsets.last_timestamp is None else microseconds(offsets.last_timestamp) or 0,
            )
            self._of_topic.setdefault((queue.topic, queue.broker_name), array("q")).extend(row)

    @property
    def topics(self) -> Collection[tuple[str, str]]:
        """Topics of its queues, each with the name of the broker that they are on."""
        return self._of_topic.keys()

    def of_topic(self, topic: str, broker_name: str) -> dict[int, ConsumeOffsets]:
        """Return the queues of one topic by their ids."""
        values = iter(self._of_topic.get((topic, broker_name), ()))
        return {
            queue_id: ConsumeOffsets(
                broker_offset,
                consumer_offset,
                None if pull_offset == _NOTHING else pull_offset,
                None if last_timestamp == _NOTHING else moment_of(last_timestamp),
            )
            for queue_id, broker_offset, consumer_offset, pull_offset, last_timestamp in zip(
                *[values] * _FIELDS, strict=True
            )
        }


@dataclass(frozen=True, slots=True)
class SecondReading:
    """The offsets of a queue whose order looked broken, read again: min first, then consumer, pull, max."""

    offsets: QueueOffsets
    consumer_at: datetime
    pull_at: datetime | None
    max_at: datetime


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Bytes (or a name) that we could not read, with the reason."""

    source: str
    position: int
    reason: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """What asking one client gave: its info, or why there is none."""

    info: ConsumerRunningInfo | None
    failure: str | None
    at: datetime | None  # when the info came


@dataclass(slots=True)
class BrokerReading:
    """One replica in one round; a field that was not seen is None, or has no entry.

    Bodies that grow with the cluster (committed offsets, ends of queues) are kept as flat arrays.
    """

    replica: Replica
    answered_at: datetime | None = None
    failure: str | None = None
    runtime: BrokerRuntimeInfo | None = None
    runtime_at: datetime | None = None
    replicated_at: datetime | None = None  # a slave that is far from its master: when it last read from it
    settings: Mapping[str, str] | None = None
    topics: Mapping[str, TopicConfig] | None = None
    groups: Mapping[str, SubscriptionGroupConfig] | None = None
    system_topics: frozenset[str] = frozenset()  # those that the broker itself lists as such
    connections: dict[str, ConsumerConnections | None] = field(default_factory=dict)  # by group; None = offline
    committed: Answer[AllConsumerOffsets] | None = None
    queue_ends: dict[str, QueueEnds] = field(default_factory=dict)  # by topic
    detailed_groups: frozenset[str] = frozenset()  # asked for more than offsets and members
    consume_stats: dict[str, Answer[ConsumeQueues]] = field(default_factory=dict)  # by group; detailed ones only
    waiting_ages: dict[tuple[str, str], WaitingAges] = field(default_factory=dict)  # by (group, topic)
    oldest_dead_letters: dict[tuple[str, int], datetime] = field(default_factory=dict)  # by (group, queue id)
    held_back: Mapping[str, int | None] = field(default_factory=dict)  # by column of broker_snapshots
    second_readings: dict[GroupQueue, SecondReading] = field(default_factory=dict)
    running_info: dict[GroupClient, ClientAnswer] = field(default_factory=dict)
    broker_stats: dict[StatsItem, Answer[BrokerStats]] = field(default_factory=dict)  # None = nothing counted
    events: list[Mapping[str, object]] = field(default_factory=list)  # columns of offset_moves
    event_cursor: EventCursor | None = None  # None: not reached in this round, the previous one holds on
    undecodable: list[Undecodable] = field(default_factory=list)

    @property
    def broker_name(self) -> str:
        """Name shared by a master and its slaves."""
        return self.replica.broker_name

    @property
    def gave_offsets(self) -> bool:
        """Whether the committed offsets were seen: without them nothing can be said about any group."""
        return self.committed is not None and self.topics is not None

    @property
    def committed_offsets(self) -> OffsetTable:
        """By (topic, consumer group); empty where they were not seen."""
        return self.committed.body.offsets if self.committed and self.committed.body else OffsetTable.empty()

    @property
    def committed_at(self) -> datetime | None:
        """When they were read; None: not seen."""
        return self.committed.at if self.committed else None

    def has_commits(self, group: str) -> bool:
        """Whether the group has a committed offset in a topic that has rows, or one that cannot be read."""
        return not all(map(is_lite_topic, self.committed_offsets.topics_of(group)))

    @property
    def makes_groups(self) -> bool | None:
        """Whether the broker makes a group that it does not know when a client of it comes; None = not known."""
        return None if self.settings is None else self.settings.get("autoCreateSubscriptionGroup", "true") == "true"

    @property
    def unreadable_pairs(self) -> frozenset[tuple[str, str]]:
        """(topic, consumer group) whose committed offsets came and cannot be read: unknown, not none."""
        return self.committed.body.unreadable_pairs if self.committed and self.committed.body else frozenset()

    def let_go(self) -> None:
        """Drop what grows with the number of queues, once rows were made of it."""
        self.committed = None
        self.queue_ends = {}
        self.consume_stats = {}
        self.waiting_ages = {}
        self.connections = {}


def slave_behind_bytes(reading: BrokerReading, master: BrokerReading | None) -> int | None:
    """Bytes of the master's commit log that a slave lacks; None for masters, or where one was not seen.

    Negative: it goes on where its master's ended. Both were read within the same round, not at the same moment: a slave
    that is read later has what the master took meanwhile.
    """
    master_end = master.runtime.commit_log_max_offset if master is not None and master.runtime else None
    own_end = reading.runtime.commit_log_max_offset if reading.runtime else None
    if reading.replica.is_master or master_end is None or own_end is None:
        return None
    return master_end - own_end
