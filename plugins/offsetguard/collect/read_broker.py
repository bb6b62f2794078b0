"""What is asked of every broker in a round, and in which order: the base tells where details are worth asking.

The order is the point: the committed offsets of all groups first, then max offsets. Both only grow, so our own reading
can never make consumer <= max look broken.
Details follow of a few groups only: those that are not provably healthy, and the share in its turn. Pull offsets first
and max offsets of the same topics after them, so that consumer <= pull <= max holds by the order of reading. What still
looks broken is read once more, min first, before anybody is told: a group overtaken by its own commits would else look
overtaken by retention.
Everything is written into the BrokerReading as it comes: a round that is cut off keeps what it has.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice, zip_longest
from typing import Any

from offsetguard.collect import broker_reading
from offsetguard.collect.detail_choice import Allowance
from offsetguard.collect.earlier_round import EarlierFigures
from offsetguard.collect.group_members import GroupMembers, SharedSubscriptions
from offsetguard.collect.queue_reading import known_pull_offset, pair_readings
from offsetguard.collect.replica import COSTLY_AT_ONCE, Answer, ReplicaLink
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.model.offsets import MAX_QUEUES, MAX_QUEUES_OF_ALL, MessageQueue, QueueOffsets
from offsetguard.sources.rocketmq.brokers import TopicConfig
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.offset_table import AllConsumerOffsets
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetBrokerHaStatus,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetConsumeStats,
    GetMaxOffset,
    GetMinOffset,
    GetSystemTopicListFromBroker,
    GetTopicStatsInfo,
    QueryConsumeTimeSpan,
    Request,
)

AGES_IN_A_ROUND = 32  # of (group, topic) pairs, per broker

# 4.9.7 in its first second: `NoSuchElementException, java.util.LinkedList.getLast`, before the first statistics sample
NOT_YET = frozenset({ResponseCode.SYSTEM_ERROR})
FIRST_STATISTICS_S = 1.0
OFFLINE = frozenset({ResponseCode.CONSUMER_NOT_ONLINE})
NO_SUCH_TOPIC = frozenset({ResponseCode.TOPIC_NOT_EXIST})
# 5.x answers 26 or 17 for a group that was deleted between two of our requests
NO_SUCH_GROUP = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST})


@dataclass(frozen=True, slots=True)
class Allowances:
    """How much of what grows with names that anybody may choose is taken of all masters."""

    topics: Allowance
    groups: Allowance
    pairs: Allowance  # of topic and group, with committed offsets


async def read_runtime(link: ReplicaLink, reading: broker_reading.BrokerReading) -> None:
    """Ask a replica for its own figures: the first request, which shows whether it answers at all."""
    runtime = await link.ask(GetBrokerRuntimeInfo(), answers=NOT_YET)
    if runtime is not None and runtime.body is None:
        await asyncio.sleep(FIRST_STATISTICS_S)
        runtime = await link.ask(GetBrokerRuntimeInfo())
    if runtime is not None:
        reading.runtime, reading.runtime_at = runtime.body, runtime.at


async def read_settings(link: ReplicaLink, reading: broker_reading.BrokerReading) -> None:
    """Ask a replica for its settings."""
    if settings := await link.ask(GetBrokerConfig()):
        reading.settings = settings.body


async def read_replication(
    link: ReplicaLink, reading: broker_reading.BrokerReading, master: broker_reading.BrokerReading
) -> None:
    """Ask a slave that is far from its master since when it has not read from it; only 5.x knows, and nobody must."""
    behind = broker_reading.slave_behind_bytes(reading, master)
    if behind is None or abs(behind) < broker_reading.FAR_BYTES:
        return
    answer = await link.ask_client(GetBrokerHaStatus())
    if isinstance(answer, Answer):
        reading.replicated_at = answer.body


async def read_base(
    link: ReplicaLink,
    reading: broker_reading.BrokerReading,
    own_names: Collection[str],
    subscriptions: SharedSubscriptions,
    allowances: Allowances,
) -> None:
    """Ask a master for topics, groups, members and offsets of all groups.

    What does not wait for something else is asked at once: the broker works while we read what it said.
    `own_names`: names of brokers and RocketMQ clusters.
    """
    async with asyncio.TaskGroup() as together:
        together.create_task(_read_groups(link, reading, subscriptions, allowances.groups))
        together.create_task(_read_offsets(link, reading, own_names, allowances))


async def _read_offsets(
    link: ReplicaLink, reading: broker_reading.BrokerReading, own_names: Collection[str], allowances: Allowances
) -> None:
    async with asyncio.TaskGroup() as together:
        together.create_task(_read_topics(link, reading, allowances.topics))
        together.create_task(_read_system_topics(link, reading))
        # last: a broker with many offsets needs a tenth of a second to write them
        together.create_task(_read_committed(link, reading, allowances.pairs))
    if reading.committed is not None:
        _keep_unreadable_keys(reading, reading.committed)
        await read_queue_ends(link, reading, topics_to_ask(reading, own_names))


async def _read_groups(
    link: ReplicaLink, reading: broker_reading.BrokerReading, subscriptions: SharedSubscriptions, allowance: Allowance
) -> None:
    groups = await link.ask(GetAllSubscriptionGroupConfig())
    if await _fits(link, allowance, "groups", len(groups.body or ()) if groups else 0) and groups:
        reading.groups = groups.body
    await read_members(link, reading, _groups_to_ask(reading), subscriptions)


async def _read_topics(link: ReplicaLink, reading: broker_reading.BrokerReading, allowance: Allowance) -> None:
    topics = await link.ask(GetAllTopicConfig())
    if await _fits(link, allowance, "topics", len(topics.body or ()) if topics else 0) and topics:
        reading.topics = _believable_ones(link, topics.body or {})


async def _fits(link: ReplicaLink, allowance: Allowance, what: str, count: int) -> bool:
    if await allowance.admits(link.replica.broker_name, count):
        return True
    link.leave_out(
        f"all {what}",
        f"{count:,} {what} are more than fit into a round with those of the other masters"
        f" ({link.cluster_key}.collection.entries: {allowance.most:,}), so none of them are taken; delete what nobody"
        " uses, or raise it where rounds end in time",
    )
    return False


async def _read_system_topics(link: ReplicaLink, reading: broker_reading.BrokerReading) -> None:
    if system_topics := await link.ask(GetSystemTopicListFromBroker()):
        reading.system_topics = frozenset(system_topics.body or ())


async def _read_committed(link: ReplicaLink, reading: broker_reading.BrokerReading, allowance: Allowance) -> None:
    committed = await link.ask(GetAllConsumerOffset())
    offsets = committed.body.offsets if committed and committed.body else ()
    count = sum(not is_lite_topic(topic) for topic, _ in offsets)  # those get no rows
    if await _fits(link, allowance, "pairs of topic and group with offsets", count):
        reading.committed = committed


async def read_members(
    link: ReplicaLink, reading: broker_reading.BrokerReading, groups: Iterable[str], subscriptions: SharedSubscriptions
) -> None:
    """Ask who is connected for each group (203); a group that nobody is connected for is offline."""
    requests = {group: GetConsumerConnectionList(group) for group in groups}
    async for group, answer in link.ask_each(requests, answers=OFFLINE):
        reading.connections[group] = subscriptions.shared(answer.body) if answer.body else None


async def read_consume_stats(link: ReplicaLink, reading: broker_reading.BrokerReading, groups: Iterable[str]) -> None:
    """Ask for the pull offsets of groups, and for the time of the message that each consumed last (208)."""
    requests = {group: GetConsumeStats(group) for group in groups}
    async for group, answer in link.ask_each(requests, answers=NO_SUCH_GROUP, at_once=COSTLY_AT_ONCE):
        queues = None if answer.body is None else broker_reading.ConsumeQueues(answer.body)
        reading.consume_stats[group] = Answer(queues, answer.at)


async def read_queue_ends(link: ReplicaLink, reading: broker_reading.BrokerReading, topics: Iterable[str]) -> None:
    """Ask for the min and max offsets of topics (202); a topic that the broker does not have has no queues."""
    requests = {topic: GetTopicStatsInfo(topic) for topic in topics}
    async for topic, answer in link.ask_each(requests, answers=NO_SUCH_TOPIC):
        ends = broker_reading.QueueEnds.of(answer.body, answer.at)
        config = (reading.topics or {}).get(topic)
        if config is not None and len(ends.queue_ids) < config.read_queue_nums:
            # 4.x lists write queues only; read queues beyond them exist for consumers all the same
            missing = sorted(set(range(config.read_queue_nums)) - set(ends.queue_ids))
            ends = ends.with_queues(await _read_one_by_one(link, topic, missing))
        reading.queue_ends[topic] = ends


async def _read_one_by_one(link: ReplicaLink, topic: str, queue_ids: Collection[int]) -> dict[int, tuple[int, int]]:
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for kind, ends in ((GetMinOffset, low), (GetMaxOffset, high)):
        async for queue_id, answer in link.ask_each({queue_id: kind(topic, queue_id) for queue_id in queue_ids}):
            if answer.body is not None:
                ends[queue_id] = answer.body
    return {queue_id: (low[queue_id], high[queue_id]) for queue_id in low.keys() & high}


def topics_to_ask(reading: broker_reading.BrokerReading, own_names: Collection[str]) -> list[str]:
    """Every topic of the broker, and those that only committed offsets still name. RocketMQ's own are left out.

    They would be most of the rows: BenchmarkTest alone has 1,024 queues on every broker.
    """
    offsets = reading.committed_offsets
    remembered = {topic for topic, group in offsets if not is_system_group(group)}
    system_names = {*own_names, *reading.system_topics}
    return sorted(
        topic
        for topic in {*(reading.topics or ()), *remembered}
        if not is_lite_topic(topic) and topic_kind(topic, system_names) is not TopicKind.SYSTEM
    )


def unread_base(reading: broker_reading.BrokerReading, own_names: Collection[str]) -> list[Request[Any]]:
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


def believable(topics: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    """Return the topics without those that have more queues than a broker can: we would make a row for each queue.

    All together may have MAX_QUEUES_OF_ALL; of those that have more the largest are left out.
    """
    by_size = sorted(topics, key=lambda topic: topics[topic].read_queue_nums)
    sums = accumulate(max(0, topics[topic].read_queue_nums) for topic in by_size)
    fit = {topic for topic, total in zip(by_size, sums, strict=True) if total <= MAX_QUEUES_OF_ALL}
    return {
        topic: config for topic, config in topics.items() if topic in fit and 0 <= config.read_queue_nums <= MAX_QUEUES
    }


def _believable_ones(link: ReplicaLink, topics: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
    found = believable(topics)
    for topic in sorted(topics.keys() - found.keys()):
        reason = (
            f"topic {topic}: {topics[topic].read_queue_nums} read queues cannot be right (at most {MAX_QUEUES:,} of a"
            f" topic and {MAX_QUEUES_OF_ALL:,} of a broker are taken); the topic is left out"
        )
        link.leave_out(f"the queues of topic {topic}", reason)
    return found


def _keep_unreadable_keys(reading: broker_reading.BrokerReading, committed: Answer[AllConsumerOffsets]) -> None:
    source = f"{RequestCode.GET_ALL_CONSUMER_OFFSET.name} of {reading.broker_name}"
    for position, key in enumerate(committed.body.unreadable_keys if committed.body else ()):
        body = key.encode("utf-8", "replace")
        reading.undecodable.append(broker_reading.Undecodable(source, position, "the key is not topic@group", body))


def _groups_to_ask(reading: broker_reading.BrokerReading) -> list[str]:
    return [group for group in reading.groups or () if not is_system_group(group)]


async def read_detailed_offsets(
    link: ReplicaLink,
    reading: broker_reading.BrokerReading,
    groups: Collection[str],
    *,
    members: Mapping[str, GroupMembers],
    system_names: Collection[str],
    earlier: EarlierFigures,
    broken_groups: Collection[str] | None = None,
) -> None:
    """Ask for pull offsets of `groups`, for the ends of their topics again, and for the age of what waits there.

    `earlier`: knows the ages that were asked in an earlier round.
    `broken_groups`: those whose order of offsets looked broken; None = any group may.
    """
    reading.detailed_groups = frozenset(groups)
    suspected = None if broken_groups is None else reading.detailed_groups | frozenset(broken_groups)
    committed = [(topic, group) for topic, group in reading.committed_offsets if group in reading.detailed_groups]
    await read_consume_stats(link, reading, sorted({group for _, group in committed}))
    # lite topics and system topics give no rows: they have no ends
    await read_queue_ends(link, reading, sorted({topic for topic, _ in committed if topic in reading.queue_ends}))
    known = list(_offsets(reading, members, system_names, suspected))
    await read_broken_again(link, reading, known)
    waiting: Counter[tuple[str, str]] = Counter()
    for (group, queue), offsets in known:
        if group not in reading.detailed_groups:
            continue
        lag = offsets.effective_lag or 0
        is_asked = offsets.consumer_offset is not None and lag > 0
        if is_asked and earlier.oldest_unconsumed(group, queue, offsets) is None:
            waiting[group, queue.topic] += lag
    requests = {(group, topic): QueryConsumeTimeSpan(topic, group) for group, topic in _ages_to_ask(waiting)}
    async for pair, answer in link.ask_each(requests, answers=NO_SUCH_GROUP, at_once=COSTLY_AT_ONCE):
        reading.waiting_ages[pair] = broker_reading.WaitingAges.of(answer.body, answer.at)


def _ages_to_ask(waiting: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return the (group, topic) pairs whose ages are asked, at most AGES_IN_A_ROUND: each group's longest queue first.

    A broker looks into its store for every queue of such a pair. What was told once is kept for as long as the group
    stands still, so the others come in the next rounds.
    """
    by_group: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for pair in sorted(waiting, key=lambda one: (-waiting[one], one)):
        by_group[pair[0]].append(pair)
    in_turn = (pair for place in zip_longest(*by_group.values()) for pair in place if pair is not None)
    return list(islice(in_turn, AGES_IN_A_ROUND))


async def read_broken_again(
    link: ReplicaLink,
    reading: broker_reading.BrokerReading,
    known: Iterable[tuple[broker_reading.GroupQueue, QueueOffsets]],
) -> None:
    """Read queues again whose order looks broken: min, consumer, pull, max, each of all of them before the next."""
    broken = [key for key, offsets in known if offsets.order_violations()]
    if not broken:
        return
    topics = sorted({queue.topic for _, queue in broken})
    low = await _ends_of(link, topics)
    committed = await link.ask(GetAllConsumerOffset())
    requests = {group: GetConsumeStats(group) for group in sorted({group for group, _ in broken})}
    asking = link.ask_each(requests, answers=NO_SUCH_GROUP, at_once=COSTLY_AT_ONCE)
    stats = {group: answer async for group, answer in asking}
    high = await _ends_of(link, topics)
    if committed is None or committed.body is None:
        return
    for group, queue in broken:
        before, after = (ends[queue.topic].get(queue.queue_id) if queue.topic in ends else None for ends in (low, high))
        if before is None or after is None or (queue.topic, group) in committed.body.unreadable_pairs:
            continue
        consumer_offset = committed.body.offsets.get((queue.topic, group), {}).get(queue.queue_id)
        answer = stats.get(group)
        consume = answer.body.get(queue) if answer and answer.body else None
        pull_offset = known_pull_offset(consume, consumer_offset)
        reading.second_readings[group, queue] = broker_reading.SecondReading(
            QueueOffsets(before[0], after[1], consumer_offset, pull_offset),
            consumer_at=committed.at,
            pull_at=answer.at if answer and pull_offset is not None else None,
            max_at=high[queue.topic].at,
        )


async def _ends_of(link: ReplicaLink, topics: Iterable[str]) -> dict[str, broker_reading.QueueEnds]:
    asking = link.ask_each({topic: GetTopicStatsInfo(topic) for topic in topics}, answers=NO_SUCH_TOPIC)
    return {topic: broker_reading.QueueEnds.of(answer.body, answer.at) async for topic, answer in asking}


def _offsets(
    reading: broker_reading.BrokerReading,
    members: Mapping[str, GroupMembers],
    system_names: Collection[str],
    groups: Collection[str] | None,
) -> Iterator[tuple[broker_reading.GroupQueue, QueueOffsets]]:
    """Yield the queues of `groups` with their pull offsets; None: of all groups, those that may look broken."""
    for pair in pair_readings(reading, members, system_names, groups):
        stats = reading.consume_stats.get(pair.consumer_group)
        if groups is None and stats is None and pair.is_in_order:
            continue
        consumed = stats.body.of_topic(pair.topic, reading.broker_name) if stats and stats.body else {}
        for queue_id, offsets in pair.offsets():
            queue = MessageQueue(pair.topic, reading.broker_name, queue_id)
            pull = known_pull_offset(consumed.get(queue_id), offsets.consumer_offset)
            known = QueueOffsets(offsets.min_offset, offsets.max_offset, offsets.consumer_offset, pull)
            yield (pair.consumer_group, queue), known
