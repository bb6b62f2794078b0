"""What is asked of a master about a few groups only: those that are not provably healthy, and the share in its turn.

Pull offsets first and max offsets of the same topics after them, so that consumer <= pull <= max holds by the order of
reading. What still looks broken is read once more, min first, before anybody is told: a group overtaken by its own
commits would else look overtaken by retention.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest

from offsetguard.collect.broker_reading import BrokerReading, GroupQueue, QueueEnds, SecondReading, WaitingAges
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.queue_reading import known_pull_offset, topic_readings
from offsetguard.collect.read_broker import NO_SUCH_GROUP, NO_SUCH_TOPIC, read_consume_stats, read_queue_ends
from offsetguard.collect.replica import COSTLY_AT_ONCE, Answer, ReplicaLink
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.sources.rocketmq.bodies import AllConsumerOffsets, ConsumeStats
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetConsumeStats,
    GetTopicStatsInfo,
    QueryConsumeTimeSpan,
)

AGES_IN_A_ROUND = 32  # of (group, topic) pairs, per broker


async def read_detailed_offsets(
    link: ReplicaLink,
    reading: BrokerReading,
    groups: Collection[str],
    *,
    members: Mapping[str, GroupMembers],
    system_names: Collection[str],
    is_age_known: Callable[[str, MessageQueue, int], bool],
    broken_groups: Collection[str] | None = None,
) -> None:
    """Ask for pull offsets of `groups`, for the ends of their topics again, and for the age of what waits there.

    `is_age_known(group, queue, consumer_offset)`: the age of that message was asked in an earlier round.
    `broken_groups`: those whose order of offsets looked broken; None = any group may.
    """
    reading.detailed_groups = frozenset(groups)
    suspected = None if broken_groups is None else reading.detailed_groups | frozenset(broken_groups)
    pairs = _pairs(reading, reading.detailed_groups)
    await read_consume_stats(
        link, reading, sorted({group for _, group in _committed(reading)} & reading.detailed_groups)
    )
    await read_queue_ends(link, reading, sorted({topic for _, topic in pairs}))
    known = list(_offsets(reading, members, system_names, suspected))
    await read_broken_again(link, reading, known)
    waiting: Counter[tuple[str, str]] = Counter()
    for (group, queue), offsets in known:
        if group not in reading.detailed_groups:
            continue
        lag = offsets.effective_lag or 0
        if offsets.consumer_offset is not None and lag > 0 and not is_age_known(group, queue, offsets.consumer_offset):
            waiting[group, queue.topic] += lag
    requests = [QueryConsumeTimeSpan(topic, group) for group, topic in _ages_to_ask(waiting)]
    async for request, answer in link.ask_each(requests, answers=NO_SUCH_GROUP, at_once=COSTLY_AT_ONCE):
        assert isinstance(request, QueryConsumeTimeSpan)  # noqa: S101 it is one of the above
        reading.waiting_ages[request.consumer_group, request.topic] = WaitingAges.of(answer.body, answer.at)


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
    reading: BrokerReading,
    known: Iterable[tuple[GroupQueue, QueueOffsets]],
) -> None:
    """Read queues again whose order looks broken: min, consumer, pull, max, each of all of them before the next."""
    broken = [key for key, offsets in known if offsets.order_violations()]
    if not broken:
        return
    topics = sorted({queue.topic for _, queue in broken})
    low = await _ends_of(link, topics)
    committed = await link.ask(GetAllConsumerOffset())
    stats = {
        request.consumer_group: answer
        async for request, answer in link.ask_each(
            [GetConsumeStats(group) for group in sorted({group for group, _ in broken})],
            answers=NO_SUCH_GROUP,
            at_once=COSTLY_AT_ONCE,
        )
        if isinstance(request, GetConsumeStats)
    }
    high = await _ends_of(link, topics)
    for group, queue in broken:
        if committed is not None and queue.topic in low and queue.topic in high:
            second = _second_reading(
                group,
                queue,
                low=low[queue.topic],
                committed=committed,
                stats=stats.get(group),
                high=high[queue.topic],
            )
            if second is not None:
                reading.second_readings[group, queue] = second


async def _ends_of(link: ReplicaLink, topics: Iterable[str]) -> dict[str, QueueEnds]:
    requests = [GetTopicStatsInfo(topic) for topic in topics]
    return {
        request.topic: QueueEnds.of(answer.body, answer.at)
        async for request, answer in link.ask_each(requests, answers=NO_SUCH_TOPIC)
        if isinstance(request, GetTopicStatsInfo)
    }


def _second_reading(
    group: str,
    queue: MessageQueue,
    *,
    low: QueueEnds,
    committed: Answer[AllConsumerOffsets],
    stats: Answer[ConsumeStats] | None,
    high: QueueEnds,
) -> SecondReading | None:
    before, after = low.get(queue.queue_id), high.get(queue.queue_id)
    if before is None or after is None or committed.body is None:
        return None
    consumer_offset = committed.body.offsets.get((queue.topic, group), {}).get(queue.queue_id)
    consume = stats.body.queues.get(queue) if stats and stats.body else None
    pull_offset = known_pull_offset(consume, consumer_offset)
    return SecondReading(
        QueueOffsets(before.min_offset, after.max_offset, consumer_offset, pull_offset),
        consumer_at=committed.at,
        pull_at=stats.at if stats and pull_offset is not None else None,
        max_at=high.at,
    )


def _pairs(reading: BrokerReading, groups: Collection[str]) -> list[tuple[str, str]]:
    """(group, topic) with committed offsets on this broker; lite topics and system topics give no rows."""
    return [(group, topic) for topic, group in _committed(reading) if group in groups and topic in reading.queue_ends]


def _committed(reading: BrokerReading) -> Iterable[tuple[str, str]]:
    return reading.committed.body.offsets if reading.committed and reading.committed.body else ()


def _offsets(
    reading: BrokerReading,
    members: Mapping[str, GroupMembers],
    system_names: Collection[str],
    groups: Collection[str] | None,
) -> Iterator[tuple[GroupQueue, QueueOffsets]]:
    """Yield the queues of `groups` with their pull offsets; None: of all groups, those that may look broken."""
    found = topic_readings(reading, members, system_names, groups)
    for pair in chain.from_iterable(pairs for _, pairs in found):
        stats = reading.consume_stats.get(pair.consumer_group)
        if groups is None and stats is None and pair.is_in_order:
            continue
        consumed = stats.body.of_topic(pair.topic, reading.broker_name) if stats and stats.body else {}
        for queue_id, offsets in pair.offsets():
            queue = MessageQueue(pair.topic, reading.broker_name, queue_id)
            pull = known_pull_offset(consumed.get(queue_id), offsets.consumer_offset)
            known = QueueOffsets(offsets.min_offset, offsets.max_offset, offsets.consumer_offset, pull)
            yield (pair.consumer_group, queue), known
