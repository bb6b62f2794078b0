"""From what one broker answered to the offsets of its (consumer group, topic) pairs, queue by queue, as columns.

Which queues does a group have? Those with a committed offset, and all read queues of the topics that its online clients
subscribe to (there it may never have committed: consumer_offset None). RocketMQ's own groups and topics have none, nor
have broadcasting groups: their offsets are kept by the clients.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from operator import le
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class PairReading:
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
    def nothing_waits(self) -> bool:
        """Every queue is consumed to its end and none looks broken; told without a look at each of them."""
        consumer, low, high = self.consumer_offsets, self.min_offsets, self.max_offsets
        known = isinstance(consumer, array) and isinstance(low, array) and isinstance(high, array)
        return known and consumer == high and all(map(le, low, high))  # type: ignore[arg-type]


def pair_readings(
    reading: BrokerReading, members: Mapping[str, GroupMembers], system_names: Collection[str]
) -> Iterator[PairReading]:
    """Yield every (group, topic) with queues on one master, in order.

    `system_names`: topics that are RocketMQ's own on this cluster besides the known ones.
    """
    body = reading.committed.body if reading.committed else None
    committed = {(group, topic) for topic, group in body.offsets} if body else set()
    read_queues = _subscribed(reading, members)
    kept_topics: dict[str, bool] = {}
    for group, topic in sorted(committed | read_queues.keys()):
        if topic not in kept_topics:
            kept_topics[topic] = not is_lite_topic(topic) and topic_kind(topic, system_names) is not TopicKind.SYSTEM
        member = members.get(group)
        if kept_topics[topic] and not is_system_group(group) and not (member and member.broadcasting):
            known = body.offsets.queues((topic, group)) if body and (group, topic) in committed else None
            yield _pair(reading, group, topic, known or (array("i"), array("q")), read_queues.get((group, topic), 0))


def known_pull_offset(consume: ConsumeOffsets | None, consumer_offset: int | None) -> int | None:
    """Return the pull offset of a GET_CONSUME_STATS row; None where the broker cannot tell.

    For a queue without a committed offset the broker writes 0 when nothing was pulled either: unknown, never 0.
    """
    if consume is None or consume.pull_offset is None:
        return None
    return None if consumer_offset is None and consume.pull_offset == 0 else consume.pull_offset


def _subscribed(reading: BrokerReading, members: Mapping[str, GroupMembers]) -> dict[tuple[str, str], int]:
    """Return the read queues of every (group, topic) that online clients subscribe to and this master has."""
    topics = reading.topics or {}
    return {
        (group, topic): topics[topic].read_queue_nums
        for group, online in members.items()
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
    return PairReading(
        consumer_group=group,
        topic=topic,
        queue_ids=queue_ids,
        consumer_offsets=consumer,
        min_offsets=low,
        max_offsets=high,
        consumer_at=reading.committed.at if reading.committed else None,
        max_at=ends.at if ends else None,
    )


def _ends(
    ends: QueueEnds | None, queue_ids: array[int], *, dense: bool
) -> tuple[array[int] | list[int | None], array[int] | list[int | None]]:
    if ends is None:
        return [None] * len(queue_ids), [None] * len(queue_ids)
    if dense and is_dense(ends.queue_ids) and len(queue_ids) <= len(ends.queue_ids):
        return ends.min_offsets[: len(queue_ids)], ends.max_offsets[: len(queue_ids)]
    found = [ends.get(queue_id) for queue_id in queue_ids]
    return [one.min_offset if one else None for one in found], [one.max_offset if one else None for one in found]
