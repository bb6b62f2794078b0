"""Everything that one round has read from one replica: filled step by step, so that half of it is still of use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard.collect.system_names import LITE_PREFIX
from offsetguard.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from offsetguard.collect.compact_stats import CompactQueues
    from offsetguard.collect.manifest import EventCursor
    from offsetguard.collect.pair_reading import PairReading
    from offsetguard.collect.queue_ends import QueueEnds
    from offsetguard.collect.replica import Answer, Replica
    from offsetguard.collect.stats_item import StatsItem
    from offsetguard.collect.waiting_ages import WaitingAges
    from offsetguard.offsets import MessageQueue, QueueOffsets
    from offsetguard.rocketmq.bodies import (
        AllConsumerOffsets,
        BrokerRuntimeInfo,
        ConsumerConnections,
        SubscriptionGroupConfig,
        TopicConfig,
    )
    from offsetguard.rocketmq.detail_bodies import BrokerStats, ConsumerRunningInfo

GroupQueue = tuple[str, "MessageQueue"]  # (consumer group, queue)


@record
class SecondReading:
    """The offsets of a queue whose order looked broken, read again: min first, then consumer, pull, max."""

    offsets: QueueOffsets
    consumer_at: datetime
    pull_at: datetime | None
    max_at: datetime


@record
class MoveEvent:
    """One OFFSET_MOVED_EVENT message, decoded."""

    event_offset: int
    moved_at: datetime
    consumer_group: str
    message_queue: MessageQueue
    requested_offset: int
    corrected_offset: int


@record
class Undecodable:
    """Bytes (or a name) that we could not read, with the reason."""

    source: str
    position: int
    reason: str
    body: bytes


@record
class HeldBack:
    """Messages that a master has taken and delivers to nobody yet; None = not seen. `held_back` says what late is."""

    half_message_count: int | None = None
    half_late_count: int | None = None  # of these, those that no check has passed
    given_up_max_offset: int | None = None  # grows with each transaction that is given up
    delayed_message_count: int | None = None
    delayed_late_count: int | None = None


@record
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
    settings: Mapping[str, str] | None = None
    topics: Mapping[str, TopicConfig] | None = None
    groups: Mapping[str, SubscriptionGroupConfig] | None = None
    system_topics: frozenset[str] = frozenset()  # those that the broker itself lists as such
    connections: dict[str, ConsumerConnections | None] = field(default_factory=dict)  # by group; None = offline
    committed: Answer[AllConsumerOffsets] | None = None
    queue_ends: dict[str, QueueEnds] = field(default_factory=dict)  # by topic
    detailed_groups: frozenset[str] = frozenset()  # asked for more than offsets and members
    consume_stats: dict[str, Answer[CompactQueues]] = field(default_factory=dict)  # by group; detailed ones only
    waiting_ages: dict[tuple[str, str], WaitingAges] = field(default_factory=dict)  # by (group, topic)
    oldest_dead_letters: dict[tuple[str, int], datetime] = field(default_factory=dict)  # by (group, queue id)
    held_back: HeldBack = field(default_factory=HeldBack)
    second_readings: dict[GroupQueue, SecondReading] = field(default_factory=dict)
    running_info: dict[tuple[str, str], ClientAnswer] = field(default_factory=dict)  # by (group, client id)
    broker_stats: dict[StatsItem, Answer[BrokerStats]] = field(default_factory=dict)  # None = nothing counted
    events: list[MoveEvent] = field(default_factory=list)
    event_cursor: EventCursor | None = None  # None: not reached in this round, the previous one holds on
    undecodable: list[Undecodable] = field(default_factory=list)
    # (topic, group) in order, and the very members that it was made with: see `queue_reading`
    key_order: tuple[object, list[tuple[str, str]]] | None = None
    # the pairs of each topic, with the ends that they were made of, and the members: see `queue_reading`
    kept_pairs: tuple[object, dict[str, tuple[QueueEnds | None, list[PairReading]]]] | None = None
    # the committed offsets that it was made of, and their groups
    _committing: tuple[object, frozenset[str]] | None = None

    @property
    def broker_name(self) -> str:
        """Name shared by a master and its slaves."""
        return self.replica.broker_name

    @property
    def gave_offsets(self) -> bool:
        """Whether the committed offsets were seen: without them nothing can be said about any group."""
        return self.committed is not None and self.topics is not None

    @property
    def committing_groups(self) -> frozenset[str]:
        """Groups with a committed offset in a topic that has rows; looked for once: they are asked for again."""
        if self.committed is None or self.committed.body is None:
            return frozenset()
        if self._committing is None or self._committing[0] is not self.committed:
            pairs = self.committed.body.offsets
            groups = frozenset([group for topic, group in pairs if not topic.startswith(LITE_PREFIX)])
            self._committing = self.committed, groups
        return self._committing[1]

    def let_go(self) -> None:
        """Drop what grows with the number of queues, once rows were made of it."""
        self.committed = None
        self.queue_ends = {}
        self.consume_stats = {}
        self.waiting_ages = {}
        self.connections = {}
        self.key_order = None
        self.kept_pairs = None
        self._committing = None
