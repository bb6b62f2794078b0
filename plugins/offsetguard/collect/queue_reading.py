"""Offsets of the queues of one broker, as columns: of topics (min, max), and of each (consumer group, topic).

Which queues does a group have? Those with a committed offset, and all read queues of the topics that its online clients
subscribe to (there it may never have committed: consumer_offset None). RocketMQ's own groups and topics have none, nor
have broadcasting groups: their offsets are kept by the clients.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from heapq import merge

from offsetguard.collect.broker_reading import BrokerReading, PairReading, QueueEnds
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.sources.rocketmq.offset_table import TopicAtGroup
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets


def pair_readings(
    reading: BrokerReading,
    members: Mapping[str, GroupMembers],
    system_names: Collection[str],
    groups: Collection[str] | None = None,
) -> Iterator[PairReading]:
    """Yield the (group, topic) pairs that have queues on one master; topics, and groups of each, in order.

    `system_names`: topics that are RocketMQ's own on this cluster besides the known ones. `groups`: only these.
    """
    offsets, unreadable = reading.committed_offsets, reading.unreadable_pairs
    committed = ((*pair, place) for place, pair in enumerate(offsets) if groups is None or pair[1] in groups)
    subscribed = ((*pair, len(offsets)) for pair in sorted(_subscribed(reading, members, groups)))
    its_topics = cache(lambda group: _subscribed_topics(group, members[group]))
    last = None
    for topic, group, place in merge(committed, subscribed):  # of a pair that is both, the committed one comes first
        if (topic, group) == last or is_lite_topic(topic) or topic_kind(topic, system_names) is TopicKind.SYSTEM:
            continue
        last = topic, group
        topics = its_topics(group) if group in members else _subscribed_topics(group, None)
        if topics is not None:
            config = (reading.topics or {}).get(topic)
            is_unreadable = last in unreadable
            expected = config.read_queue_nums if config and (is_unreadable or topic in topics) else 0
            known = offsets.queues_at(place) if place < len(offsets) else (array("i"), array("q"))
            pair = _pair(reading, group, topic, known, expected)
            yield pair._replace(consumer_at=None) if is_unreadable else pair


def _subscribed_topics(group: str, member: GroupMembers | None) -> Collection[str] | None:
    """Return what a group's online clients subscribe to; None for groups that have no rows."""
    if is_system_group(group) or (member is not None and member.broadcasting):
        return None
    return member.subscribed_topics if member is not None else ()


def known_pull_offset(consume: ConsumeOffsets | None, consumer_offset: int | None) -> int | None:
    """Return the pull offset of a GET_CONSUME_STATS row; None where the broker cannot tell.

    For a queue without a committed offset the broker writes 0 when nothing was pulled either: unknown, never 0.
    """
    if consume is None or consume.pull_offset is None:
        return None
    return None if consumer_offset is None and consume.pull_offset == 0 else consume.pull_offset


def _subscribed(
    reading: BrokerReading, members: Mapping[str, GroupMembers], groups: Collection[str] | None
) -> set[TopicAtGroup]:
    """Return every (topic, group) that online clients subscribe to and this master has."""
    topics = reading.topics or {}
    return {
        (topic, group)
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
    if not _is_dense(queue_ids) or len(queue_ids) < read_queue_nums:
        by_queue = dict(zip(queue_ids, offsets, strict=True))
        queue_ids = array("i", sorted({*queue_ids, *range(read_queue_nums)}))
        consumer = [by_queue.get(queue_id) for queue_id in queue_ids]
    ends = reading.queue_ends.get(topic)
    low, high = _ends(ends, queue_ids)
    return PairReading(group, topic, queue_ids, consumer, low, high, reading.committed_at, ends.at if ends else None)


def _is_dense(queue_ids: array[int]) -> bool:
    """Whether ascending queue ids are 0, 1, 2, ...: as of every topic but those that lost write queues."""
    return not queue_ids or (queue_ids[0] == 0 and queue_ids[-1] == len(queue_ids) - 1)


def _ends(
    ends: QueueEnds | None, queue_ids: array[int]
) -> tuple[array[int] | list[int | None], array[int] | list[int | None]]:
    if ends is not None and ends.queue_ids == queue_ids:  # nearly all pairs: their columns stand there already
        return ends.min_offsets, ends.max_offsets
    found = [ends.get(queue_id) if ends is not None else None for queue_id in queue_ids]
    return [one[0] if one else None for one in found], [one[1] if one else None for one in found]
