"""From what one broker answered to the offsets of its (consumer group, queue) pairs.

Which queues does a group have? Those with a committed offset, and all read queues of the topics that its online clients
subscribe to (there it may never have committed: consumer_offset None). RocketMQ's own groups and topics have none, nor
have broadcasting groups: their offsets are kept by the clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.offsets import MessageQueue, QueueOffsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from offsetguard.collect.broker_reading import BrokerReading, SecondReading
    from offsetguard.rocketmq.bodies import ConsumeOffsets, ConsumerConnections

BROADCASTING = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """What the masters together know of a group's clients."""

    online_client_count: int
    message_model: str | None
    consume_type: str | None
    subscribed_topics: frozenset[str]

    @property
    def broadcasting(self) -> bool:
        """Every client consumes every message and keeps its own offsets."""
        return self.message_model == BROADCASTING


@dataclass(frozen=True, slots=True)
class QueueReading:
    """The offsets of one group in one queue, each with the time it was read."""

    consumer_group: str
    message_queue: MessageQueue
    offsets: QueueOffsets
    last_timestamp: datetime | None
    consumer_at: datetime | None
    pull_at: datetime | None
    max_at: datetime | None


def merge_members(readings: Iterable[BrokerReading]) -> dict[str, GroupMembers]:
    """Merge the connections of every group over the masters: a client counts when any of them sees it.

    A group of which no master answered is missing: unknown, not offline.
    """
    seen: dict[str, list[ConsumerConnections | None]] = {}
    for reading in readings:
        for group, connections in reading.connections.items():
            seen.setdefault(group, []).append(connections)
    return {group: _merge([one for one in answers if one is not None]) for group, answers in seen.items()}


def queue_readings(
    reading: BrokerReading, members: Mapping[str, GroupMembers], own_names: Collection[str]
) -> Iterator[QueueReading]:
    """Yield every queue of every group on one master. `own_names`: names of brokers and RocketMQ clusters."""
    committed = reading.committed.body if reading.committed else None
    offsets = committed.offsets if committed else {}
    queues: dict[tuple[str, str], set[int]] = {}
    for (topic, group), by_queue in offsets.items():
        queues.setdefault((group, topic), set()).update(by_queue)
    for group, online in members.items():
        for topic in online.subscribed_topics:
            config = (reading.topics or {}).get(topic)
            if config is not None:
                queues.setdefault((group, topic), set()).update(range(config.read_queue_nums))
    for (group, topic), queue_ids in sorted(queues.items()):
        member = members.get(group)
        if is_system_group(group) or is_lite_topic(topic) or topic_kind(topic, own_names) is TopicKind.SYSTEM:
            continue
        if member is not None and member.broadcasting:
            continue
        by_queue = offsets.get((topic, group), {})
        for queue_id in sorted(queue_ids):
            message_queue = MessageQueue(topic, reading.broker_name, queue_id)
            yield _queue_reading(reading, group, message_queue, by_queue.get(queue_id))


def _queue_reading(
    reading: BrokerReading, group: str, queue: MessageQueue, consumer_offset: int | None
) -> QueueReading:
    stats = reading.consume_stats.get(group)
    consume = stats.body.queues.get(queue) if stats and stats.body else None
    last_timestamp = consume.last_timestamp if consume and consumer_offset is not None else None
    second = reading.second_readings.get((group, queue))
    if second is not None:
        return _from_second(group, queue, last_timestamp, second)
    topic = reading.topic_readings.get(queue.topic)
    ends = topic.queues.get(queue.queue_id) if topic else None
    pull_offset = known_pull_offset(consume, consumer_offset)
    return QueueReading(
        consumer_group=group,
        message_queue=queue,
        offsets=QueueOffsets(
            ends.min_offset if ends else None, ends.max_offset if ends else None, consumer_offset, pull_offset
        ),
        last_timestamp=last_timestamp,
        consumer_at=reading.committed.at if reading.committed else None,
        pull_at=stats.at if stats and pull_offset is not None else None,
        max_at=topic.at if topic else None,
    )


def _from_second(
    group: str, queue: MessageQueue, last_timestamp: datetime | None, second: SecondReading
) -> QueueReading:
    return QueueReading(group, queue, second.offsets, last_timestamp, second.consumer_at, second.pull_at, second.max_at)


def known_pull_offset(consume: ConsumeOffsets | None, consumer_offset: int | None) -> int | None:
    """Return the pull offset of a GET_CONSUME_STATS row; None where the broker cannot tell.

    For a queue without a committed offset the broker writes 0 when nothing was pulled either: unknown, never 0.
    """
    if consume is None or consume.pull_offset is None:
        return None
    return None if consumer_offset is None and consume.pull_offset == 0 else consume.pull_offset


def _merge(answers: list[ConsumerConnections]) -> GroupMembers:
    models = {answer.message_model for answer in answers if answer.message_model}
    return GroupMembers(
        online_client_count=len({client.client_id for answer in answers for client in answer.connections}),
        # two models in one group are a mistake of its owner: lag is judged, since some of its clients do commit
        message_model=next(iter(sorted(models - {BROADCASTING}) or sorted(models)), None),
        consume_type=next((answer.consume_type for answer in answers if answer.consume_type), None),
        subscribed_topics=frozenset(topic for answer in answers for topic in answer.subscriptions),
    )
