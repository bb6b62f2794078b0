"""From what one broker answered to the offsets of its (consumer group, topic) pairs, queue by queue, as columns.

Which queues does a group have? Those with a committed offset, and all read queues of the topics that its online clients
subscribe to (there it may never have committed: consumer_offset None). RocketMQ's own groups and topics have none, nor
have broadcasting groups: their offsets are kept by the clients.
"""

from __future__ import annotations

from array import array
from operator import le
from typing import TYPE_CHECKING, NamedTuple

from offsetguard.collect.queue_ends import is_dense
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.offsets import QueueOffsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.collect.group_members import GroupMembers
    from offsetguard.collect.queue_ends import QueueEnds
    from offsetguard.rocketmq.bodies import ConsumeOffsets


class PairReading(NamedTuple):  # made twice for each pair of a cluster in every round: quicker than a dataclass
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
    def is_known(self) -> bool:
        """Every offset of every queue is known: the columns are arrays, and whole columns can be compared at once."""
        return (
            type(self.consumer_offsets) is array and type(self.min_offsets) is array and type(self.max_offsets) is array
        )

    @property
    def is_in_order(self) -> bool:
        """All offsets are known, and min <= consumer <= max holds in each queue."""
        return (
            self.is_known
            and all(map(le, self.min_offsets, self.consumer_offsets))  # type: ignore[arg-type]
            and all(map(le, self.consumer_offsets, self.max_offsets))  # type: ignore[arg-type]
        )

    @property
    def waiting_count(self) -> int:
        """Messages that wait, over all queues; of columns that are in order."""
        return sum(self.max_offsets) - sum(self.consumer_offsets)  # type: ignore[arg-type]


def pair_readings(
    reading: BrokerReading,
    members: Mapping[str, GroupMembers],
    system_names: Collection[str],
    groups: Collection[str] | None = None,
) -> Iterator[PairReading]:
    """Yield every (group, topic) with queues on one master, in order.

    `system_names`: topics that are RocketMQ's own on this cluster besides the known ones. `groups`: only these.
    """
    body = reading.committed.body if reading.committed else None
    committed = (
        {(group, topic) for topic, group in body.offsets if groups is None or group in groups} if body else set()
    )
    read_queues = _subscribed(reading, members, groups)
    consumer_at = reading.committed.at if reading.committed else None
    kept_topics: dict[str, bool] = {}
    nothing = (array("i"), array("q"))
    kept_group: str | None = None
    is_kept = False
    for pair in sorted(committed | read_queues.keys()):
        group, topic = pair
        if group != kept_group:
            member = members.get(group)
            kept_group, is_kept = group, not is_system_group(group) and not (member and member.broadcasting)
        if not is_kept:
            continue
        if topic not in kept_topics:
            kept_topics[topic] = not is_lite_topic(topic) and topic_kind(topic, system_names) is not TopicKind.SYSTEM
        if not kept_topics[topic]:
            continue
        queue_ids, offsets = known = body.offsets.queues((topic, group)) if body and pair in committed else nothing
        ends = reading.queue_ends.get(topic)
        if ends is not None and ends.dense and queue_ids == ends.queue_ids and read_queues.get(pair, 0) <= len(offsets):
            low, high = ends.min_offsets, ends.max_offsets  # nearly all pairs: their columns stand there already
            yield PairReading(group, topic, queue_ids, offsets, low, high, consumer_at, ends.at)
        else:
            yield _pair(reading, group, topic, known, read_queues.get(pair, 0))


def known_pull_offset(consume: ConsumeOffsets | None, consumer_offset: int | None) -> int | None:
    """Return the pull offset of a GET_CONSUME_STATS row; None where the broker cannot tell.

    For a queue without a committed offset the broker writes 0 when nothing was pulled either: unknown, never 0.
    """
    if consume is None or consume.pull_offset is None:
        return None
    return None if consumer_offset is None and consume.pull_offset == 0 else consume.pull_offset


def _subscribed(
    reading: BrokerReading, members: Mapping[str, GroupMembers], groups: Collection[str] | None
) -> dict[tuple[str, str], int]:
    """Return the read queues of every (group, topic) that online clients subscribe to and this master has."""
    topics = reading.topics or {}
    return {
        (group, topic): topics[topic].read_queue_nums
        for group, online in members.items()
        if groups is None or group in groups
        for topic in online.subscribed_topics
        if topic in topics
    }


def _pair(
    reading: BrokerReading, group: str, topic: str, known: tuple[array[int], array[int]], read_queue_nums: int
) -> PairReading:
    queue_ids, offsets = known
    consumer: array[int] | list[int | None] = offsets
    dense = is_dense(queue_ids)
    if not dense or len(queue_ids) < read_queue_nums:
        by_queue = dict(zip(queue_ids, offsets, strict=True))
        queue_ids = array("i", sorted({*queue_ids, *range(read_queue_nums)}))
        dense = is_dense(queue_ids)
        consumer = [by_queue.get(queue_id) for queue_id in queue_ids]
    ends = reading.queue_ends.get(topic)
    low, high = _ends(ends, queue_ids, dense=dense)
    consumer_at = reading.committed.at if reading.committed else None
    return PairReading(group, topic, queue_ids, consumer, low, high, consumer_at, ends.at if ends else None)


def _ends(
    ends: QueueEnds | None, queue_ids: array[int], *, dense: bool
) -> tuple[array[int] | list[int | None], array[int] | list[int | None]]:
    if ends is None:
        return [None] * len(queue_ids), [None] * len(queue_ids)
    if dense and ends.dense and len(queue_ids) <= len(ends.queue_ids):
        if len(queue_ids) == len(ends.queue_ids):
            return ends.min_offsets, ends.max_offsets
        return ends.min_offsets[: len(queue_ids)], ends.max_offsets[: len(queue_ids)]
    found = [ends.get(queue_id) for queue_id in queue_ids]
    return [one.min_offset if one else None for one in found], [one.max_offset if one else None for one in found]
