"""What is asked of one broker in a round, and in which order.

The order is the point: the committed offsets of all groups first, then pull offsets, then max offsets. All three only
grow, so our own reading can never make consumer <= pull <= max look broken; and what still looks broken is read again,
min first, before anybody is told (a group overtaken by its own commits would else look overtaken by retention).
Everything is written into the BrokerReading as it comes: a round that is cut off keeps what it has.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from offsetguard.collect.broker_reading import SecondReading, TopicReading, Undecodable
from offsetguard.collect.queue_reading import known_pull_offset, merge_members, queue_readings
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.offsets import QueueOffsets
from offsetguard.rocketmq.bodies import TopicOffsets
from offsetguard.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetConsumeStats,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    QueryConsumeTimeSpan,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.collect.queue_reading import QueueReading
    from offsetguard.collect.replica import Answer, ReplicaLink
    from offsetguard.rocketmq.bodies import AllConsumerOffsets, ConsumeStats, TopicConfig, TopicStats

Item = TypeVar("Item")
Body = TypeVar("Body")

MAX_QUEUES = 65_536  # of one topic on one broker
CONCURRENT_REQUESTS = 8  # per broker: it has other work

# 4.9.7 in its first second: `NoSuchElementException, java.util.LinkedList.getLast`, before the first statistics sample
NOT_YET = frozenset({ResponseCode.SYSTEM_ERROR})
FIRST_STATISTICS_S = 1.0
OFFLINE = frozenset({ResponseCode.CONSUMER_NOT_ONLINE})
NO_SUCH_TOPIC = frozenset({ResponseCode.TOPIC_NOT_EXIST})
# 5.x answers 26 or 17 for a group that was deleted between two of our requests
NO_SUCH_GROUP = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST})


async def read_runtime(link: ReplicaLink, reading: BrokerReading) -> None:
    """Ask what every replica is asked, slaves too: its own figures and its settings."""
    runtime = await link.ask(GetBrokerRuntimeInfo(), answers=NOT_YET)
    if runtime is not None and runtime.body is None:
        await asyncio.sleep(FIRST_STATISTICS_S)
        runtime = await link.ask(GetBrokerRuntimeInfo())
    if runtime is not None:
        reading.runtime = runtime.body
    if settings := await link.ask(GetBrokerConfig()):
        reading.settings = settings.body


async def read_offsets(link: ReplicaLink, reading: BrokerReading, own_names: Collection[str]) -> None:
    """Ask a master for topics, groups, connections and offsets. `own_names`: names of brokers and RocketMQ clusters."""
    if topics := await link.ask(GetAllTopicConfig()):
        reading.topics = _believable(link, topics.body.topics if topics.body else {})
    if groups := await link.ask(GetAllSubscriptionGroupConfig()):
        reading.groups = groups.body.groups if groups.body else None
    await _read_connections(link, reading)
    reading.committed = await link.ask(GetAllConsumerOffset())
    if reading.committed is None:
        return
    _keep_unreadable_keys(reading, reading.committed)
    await _for_each(_groups_with_offsets(reading.committed), lambda group: _read_consume_stats(link, reading, group))
    await _for_each(_topics_to_ask(reading, own_names), lambda topic: _read_topic(link, reading, topic))
    await _read_broken_again(link, reading, own_names)
    await _read_time_spans(link, reading, own_names)


def _believable(link: ReplicaLink, topics: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    """Leave out topics with a number of queues that no broker can have: we would make a row for each of them."""
    for topic, config in topics.items():
        if not 0 <= config.read_queue_nums <= MAX_QUEUES:
            reason = f"topic {topic}: {config.read_queue_nums} read queues cannot be right; the topic is left out"
            link.leave_out(f"the queues of topic {topic}", reason)
    return {topic: config for topic, config in topics.items() if 0 <= config.read_queue_nums <= MAX_QUEUES}


def _keep_unreadable_keys(reading: BrokerReading, committed: Answer[AllConsumerOffsets]) -> None:
    source = f"{RequestCode.GET_ALL_CONSUMER_OFFSET.name} of {reading.broker_name}"
    for position, key in enumerate(committed.body.unreadable_keys if committed.body else ()):
        reading.undecodable.append(Undecodable(source, position, "the key is not topic@group", key.encode()))


async def _read_connections(link: ReplicaLink, reading: BrokerReading) -> None:
    async def read(group: str) -> None:
        if answer := await link.ask(GetConsumerConnectionList(group), answers=OFFLINE):
            reading.connections[group] = answer.body

    await _for_each((group for group in reading.groups or () if not is_system_group(group)), read)


async def _read_consume_stats(link: ReplicaLink, reading: BrokerReading, group: str) -> None:
    if answer := await link.ask(GetConsumeStats(group), answers=NO_SUCH_GROUP):
        reading.consume_stats[group] = answer


async def _read_topic(link: ReplicaLink, reading: BrokerReading, topic: str) -> None:
    answer = await link.ask(GetTopicStatsInfo(topic), answers=NO_SUCH_TOPIC)
    if answer is None:
        return
    queues = _by_queue_id(answer)
    config = (reading.topics or {}).get(topic)
    if config is not None:
        # 4.x lists write queues only; read queues beyond them exist for consumers all the same
        for queue_id in sorted(set(range(config.read_queue_nums)) - queues.keys()):
            low = await link.ask(GetMinOffset(topic, queue_id))
            high = await link.ask(GetMaxOffset(topic, queue_id))
            if low is not None and low.body is not None and high is not None and high.body is not None:
                queues[queue_id] = TopicOffsets(low.body, high.body, None)
    reading.topic_readings[topic] = TopicReading(queues, answer.at)


async def _read_broken_again(link: ReplicaLink, reading: BrokerReading, own_names: Collection[str]) -> None:
    """Read queues again whose order looks broken: min, consumer, pull, max, each of all of them before the next."""
    broken = [queue for queue in _queues(reading, own_names) if queue.offsets.order_violations()]
    if not broken:
        return
    topics = {queue.message_queue.topic for queue in broken}
    low: dict[str, Answer[TopicStats]] = {}
    high: dict[str, Answer[TopicStats]] = {}
    stats: dict[str, Answer[ConsumeStats]] = {}
    await _for_each(topics, lambda topic: _keep(low, topic, link.ask(GetTopicStatsInfo(topic), answers=NO_SUCH_TOPIC)))
    committed = await link.ask(GetAllConsumerOffset())
    await _for_each(
        {queue.consumer_group for queue in broken},
        lambda group: _keep(stats, group, link.ask(GetConsumeStats(group), answers=NO_SUCH_GROUP)),
    )
    await _for_each(topics, lambda topic: _keep(high, topic, link.ask(GetTopicStatsInfo(topic), answers=NO_SUCH_TOPIC)))
    for queue in broken:
        topic, group = queue.message_queue.topic, queue.consumer_group
        if committed and topic in low and topic in high:
            second = _second_reading(queue, low[topic], committed, stats.get(group), high[topic])
            if second is not None:
                reading.second_readings[group, queue.message_queue] = second


def _second_reading(
    queue: QueueReading,
    low: Answer[TopicStats],
    committed: Answer[AllConsumerOffsets],
    stats: Answer[ConsumeStats] | None,
    high: Answer[TopicStats],
) -> SecondReading | None:
    message_queue = queue.message_queue
    before, after = _by_queue_id(low).get(message_queue.queue_id), _by_queue_id(high).get(message_queue.queue_id)
    if before is None or after is None or committed.body is None:
        return None
    by_queue = committed.body.offsets.get((message_queue.topic, queue.consumer_group), {})
    consumer_offset = by_queue.get(message_queue.queue_id)
    consume = stats.body.queues.get(message_queue) if stats and stats.body else None
    pull_offset = known_pull_offset(consume, consumer_offset)
    return SecondReading(
        QueueOffsets(before.min_offset, after.max_offset, consumer_offset, pull_offset),
        consumer_at=committed.at,
        pull_at=stats.at if stats and pull_offset is not None else None,
        max_at=high.at,
    )


async def _read_time_spans(link: ReplicaLink, reading: BrokerReading, own_names: Collection[str]) -> None:
    """Ask how old the oldest unconsumed message is, only where something waits."""

    async def read(group_and_topic: tuple[str, str]) -> None:
        group, topic = group_and_topic
        if answer := await link.ask(QueryConsumeTimeSpan(topic, group), answers=NO_SUCH_GROUP):
            reading.time_spans[group_and_topic] = answer

    waiting = {
        (queue.consumer_group, queue.message_queue.topic)
        for queue in _queues(reading, own_names)
        if (queue.offsets.effective_lag or 0) > 0
    }
    await _for_each(sorted(waiting), read)


def _queues(reading: BrokerReading, own_names: Collection[str]) -> Iterable[QueueReading]:
    return queue_readings(reading, merge_members([reading]), own_names)


def _groups_with_offsets(committed: Answer[AllConsumerOffsets]) -> list[str]:
    offsets = committed.body.offsets if committed.body else {}
    return sorted({group for topic, group in offsets if not is_system_group(group) and not is_lite_topic(topic)})


def _topics_to_ask(reading: BrokerReading, own_names: Collection[str]) -> list[str]:
    """Every topic of the broker, and those that only committed offsets still name. RocketMQ's own are left out.

    They would be most of the rows: BenchmarkTest alone has 1,024 queues on every broker.
    """
    offsets = reading.committed.body.offsets if reading.committed and reading.committed.body else {}
    remembered = {topic for topic, group in offsets if not is_system_group(group)}
    return sorted(
        topic
        for topic in {*(reading.topics or ()), *remembered}
        if not is_lite_topic(topic) and topic_kind(topic, own_names) is not TopicKind.SYSTEM
    )


def _by_queue_id(answer: Answer[TopicStats]) -> dict[int, TopicOffsets]:
    return {queue.queue_id: offsets for queue, offsets in answer.body.queues.items()} if answer.body else {}


async def _keep(answers: dict[str, Answer[Body]], name: str, asking: Awaitable[Answer[Body] | None]) -> None:
    if answer := await asking:
        answers[name] = answer


async def _for_each(items: Iterable[Item], ask: Callable[[Item], Awaitable[None]]) -> None:
    """Ask about every item, CONCURRENT_REQUESTS at a time."""
    waiting = iter(list(items))

    async def work() -> None:
        for item in waiting:
            await ask(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(CONCURRENT_REQUESTS):
            workers.create_task(work())
