"""What is asked of every broker in a round, and in which order: the base, which tells where details are worth asking.

The order is the point: the committed offsets of all groups first, then max offsets. Both only grow, so our own reading
can never make consumer <= max look broken. Details, pull offsets among them, follow in `read_detail`.
Everything is written into the BrokerReading as it comes: a round that is cut off keeps what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from offsetguard.collect.broker_reading import BrokerReading, QueueEnds, Undecodable
from offsetguard.collect.compact_stats import CompactQueues
from offsetguard.collect.group_members import SharedSubscriptions
from offsetguard.collect.replica import COSTLY_AT_ONCE, Answer, ReplicaLink
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.sources.rocketmq.bodies import AllConsumerOffsets, TopicConfig, TopicOffsets
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetConsumeStats,
    GetMaxOffset,
    GetMinOffset,
    GetSystemTopicListFromBroker,
    GetTopicStatsInfo,
    Request,
)

MAX_QUEUES = 65_536  # of one topic on one broker

# 4.9.7 in its first second: `NoSuchElementException, java.util.LinkedList.getLast`, before the first statistics sample
NOT_YET = frozenset({ResponseCode.SYSTEM_ERROR})
FIRST_STATISTICS_S = 1.0
OFFLINE = frozenset({ResponseCode.CONSUMER_NOT_ONLINE})
NO_SUCH_TOPIC = frozenset({ResponseCode.TOPIC_NOT_EXIST})
# 5.x answers 26 or 17 for a group that was deleted between two of our requests
NO_SUCH_GROUP = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST})


async def read_runtime(link: ReplicaLink, reading: BrokerReading) -> None:
    """Ask a replica for its own figures: the first request, which shows whether it answers at all."""
    runtime = await link.ask(GetBrokerRuntimeInfo(), answers=NOT_YET)
    if runtime is not None and runtime.body is None:
        await asyncio.sleep(FIRST_STATISTICS_S)
        runtime = await link.ask(GetBrokerRuntimeInfo())
    if runtime is not None:
        reading.runtime, reading.runtime_at = runtime.body, runtime.at


async def read_settings(link: ReplicaLink, reading: BrokerReading) -> None:
    """Ask a replica for its settings."""
    if settings := await link.ask(GetBrokerConfig()):
        reading.settings = settings.body


async def read_base(
    link: ReplicaLink,
    reading: BrokerReading,
    own_names: Collection[str],
    subscriptions: SharedSubscriptions,
) -> None:
    """Ask a master for topics, groups, members and offsets of all groups.

    What does not wait for something else is asked at once: the broker works while we read what it said.
    `own_names`: names of brokers and RocketMQ clusters.
    """
    async with asyncio.TaskGroup() as together:
        together.create_task(_read_groups(link, reading, subscriptions))
        together.create_task(_read_offsets(link, reading, own_names))


async def _read_offsets(link: ReplicaLink, reading: BrokerReading, own_names: Collection[str]) -> None:
    async with asyncio.TaskGroup() as together:
        together.create_task(_read_topics(link, reading))
        together.create_task(_read_system_topics(link, reading))
        # last: a broker with many offsets needs a tenth of a second to write them
        together.create_task(_read_committed(link, reading))
    if reading.committed is not None:
        _keep_unreadable_keys(reading, reading.committed)
        await read_queue_ends(link, reading, topics_to_ask(reading, own_names))


async def _read_groups(link: ReplicaLink, reading: BrokerReading, subscriptions: SharedSubscriptions) -> None:
    if groups := await link.ask(GetAllSubscriptionGroupConfig()):
        reading.groups = groups.body.groups if groups.body else None
    await read_members(link, reading, _groups_to_ask(reading), subscriptions)


async def _read_topics(link: ReplicaLink, reading: BrokerReading) -> None:
    if topics := await link.ask(GetAllTopicConfig()):
        reading.topics = _believable(link, topics.body.topics if topics.body else {})


async def _read_system_topics(link: ReplicaLink, reading: BrokerReading) -> None:
    if system_topics := await link.ask(GetSystemTopicListFromBroker()):
        reading.system_topics = frozenset(system_topics.body.topics if system_topics.body else ())


async def _read_committed(link: ReplicaLink, reading: BrokerReading) -> None:
    reading.committed = await link.ask(GetAllConsumerOffset())


async def read_members(
    link: ReplicaLink, reading: BrokerReading, groups: Iterable[str], subscriptions: SharedSubscriptions
) -> None:
    """Ask who is connected for each group (203); a group that nobody is connected for is offline."""
    requests = (GetConsumerConnectionList(group) for group in groups)
    async for request, answer in link.ask_each(requests, answers=OFFLINE):
        assert isinstance(request, GetConsumerConnectionList)  # noqa: S101 it is one of the above
        connections = subscriptions.shared(answer.body) if answer.body else None
        reading.connections[request.consumer_group] = connections


async def read_consume_stats(link: ReplicaLink, reading: BrokerReading, groups: Iterable[str]) -> None:
    """Ask for the pull offsets of groups, and for the time of the message that each consumed last (208)."""
    async for request, answer in link.ask_each(
        map(GetConsumeStats, groups), answers=NO_SUCH_GROUP, at_once=COSTLY_AT_ONCE
    ):
        assert isinstance(request, GetConsumeStats)  # noqa: S101 as above
        queues = CompactQueues(answer.body.queues) if answer.body else None
        reading.consume_stats[request.consumer_group] = Answer(queues, answer.at)


async def read_queue_ends(link: ReplicaLink, reading: BrokerReading, topics: Iterable[str]) -> None:
    """Ask for the min and max offsets of topics (202); a topic that the broker does not have has no queues."""
    async for request, answer in link.ask_each(map(GetTopicStatsInfo, topics), answers=NO_SUCH_TOPIC):
        assert isinstance(request, GetTopicStatsInfo)  # noqa: S101 as above
        ends = QueueEnds.of(answer.body, answer.at)
        config = (reading.topics or {}).get(request.topic)
        if config is not None and len(ends.queue_ids) < config.read_queue_nums:
            # 4.x lists write queues only; read queues beyond them exist for consumers all the same
            missing = sorted(set(range(config.read_queue_nums)) - set(ends.queue_ids))
            ends = ends.with_queues(await _read_one_by_one(link, request.topic, missing))
        reading.queue_ends[request.topic] = ends


async def _read_one_by_one(link: ReplicaLink, topic: str, queue_ids: Collection[int]) -> dict[int, TopicOffsets]:
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for kind, ends in ((GetMinOffset, low), (GetMaxOffset, high)):
        async for request, answer in link.ask_each([kind(topic, queue_id) for queue_id in queue_ids]):
            assert isinstance(request, GetMinOffset | GetMaxOffset)  # noqa: S101 as above
            if answer.body is not None:
                ends[request.queue_id] = answer.body
    return {queue_id: TopicOffsets(low[queue_id], high[queue_id], None) for queue_id in sorted(low.keys() & high)}


def topics_to_ask(reading: BrokerReading, own_names: Collection[str]) -> list[str]:
    """Every topic of the broker, and those that only committed offsets still name. RocketMQ's own are left out.

    They would be most of the rows: BenchmarkTest alone has 1,024 queues on every broker.
    """
    offsets = reading.committed.body.offsets if reading.committed and reading.committed.body else {}
    remembered = {topic for topic, group in offsets if not is_system_group(group)}
    system_names = {*own_names, *reading.system_topics}
    return sorted(
        topic
        for topic in {*(reading.topics or ()), *remembered}
        if not is_lite_topic(topic) and topic_kind(topic, system_names) is not TopicKind.SYSTEM
    )


def unread_base(reading: BrokerReading, own_names: Collection[str]) -> list[Request[Any]]:
    """Return what of a master's base has no answer, as far as it is known what there was to ask."""
    unread: list[Request[Any]] = []
    if reading.topics is None:
        unread.append(GetAllTopicConfig())
    if reading.groups is None:
        unread.append(GetAllSubscriptionGroupConfig())
    groups = (group for group in _groups_to_ask(reading) if group not in reading.connections)
    unread += [GetConsumerConnectionList(group) for group in groups]
    if reading.committed is None:
        unread.append(GetAllConsumerOffset())
    topics = (topic for topic in topics_to_ask(reading, own_names) if topic not in reading.queue_ends)
    return unread + [GetTopicStatsInfo(topic) for topic in topics]


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
        body = key.encode("utf-8", "replace")
        reading.undecodable.append(Undecodable(source, position, "the key is not topic@group", body))


def _groups_to_ask(reading: BrokerReading) -> list[str]:
    return [group for group in reading.groups or () if not is_system_group(group)]
