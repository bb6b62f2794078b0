"""Retry and dead-letter topics of each group: what lies in them, over all masters, and since when.

A group has `%RETRY%group` and `%DLQ%group`; a POP group has one retry topic for each topic besides, whose name is
ambiguous: see `pop.pop_retry_topics`. The keys of committed offsets name its group.

When the oldest dead letter of a group was stored: asked of the broker's store, and only where it may have changed.

Dead letters go by retention, oldest first: as long as the min offsets of %DLQ%group stand still, so does the oldest.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.pop import pop_retry_topics
from offsetguard.collect.replica import COSTLY_AT_ONCE, ReplicaLink
from offsetguard.collect.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from offsetguard.sources.rocketmq.requests import GetEarliestMsgStoretime


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages kept in one kind of topic of a group, and the sum of max offsets, which grows with each new one."""

    message_count: int
    max_offset: int


def backlogs(
    masters: Sequence[BrokerReading], groups: Iterable[str]
) -> Iterator[tuple[Backlog | None, Backlog | None]]:
    """Yield (retry, dead letter) of each group; None = a master or a topic of it was not seen.

    A group without such a topic has an empty one: nothing was ever sent back.
    """
    retry_topics = [_pop_retry_topics(one) for one in masters]
    for group in groups:
        classic, dead_letter = f"{RETRY_PREFIX}{group}", f"{DEAD_LETTER_PREFIX}{group}"
        retries = [(classic, *topics.get(group, ())) for topics in retry_topics]
        yield kept(masters, retries), kept(masters, [(dead_letter,)] * len(masters))


def _pop_retry_topics(master: BrokerReading) -> dict[str, set[str]]:
    topics: defaultdict[str, set[str]] = defaultdict(set)
    offsets = master.committed_offsets
    for topic, group in offsets:
        if topic.startswith(RETRY_PREFIX) and topic != f"{RETRY_PREFIX}{group}":
            topics[group].add(topic)
    return {
        group: set(pop_retry_topics(group, retry, master.topics or (), master.groups or ()))
        for group, retry in topics.items()
    }


def kept(masters: Sequence[BrokerReading], topics_of_each: Iterable[Iterable[str]]) -> Backlog | None:
    """Sum over topics of each master; None when one did not list its topics, or one of these was not seen."""
    low = high = 0
    for master, topics in zip(masters, topics_of_each, strict=True):
        if master.topics is None:
            return None
        for topic in topics:
            if topic not in master.topics:
                continue
            ends = master.queue_ends.get(topic)
            if ends is None:
                return None
            low += sum(ends.min_offsets)
            high += sum(ends.max_offsets)
    return Backlog(high - low, high) if masters else None


# Of dead-letter topics, per broker; what was answered is kept, so the others come in the next rounds
QUEUES_IN_A_ROUND = 32


def groups_to_ask(masters: Sequence[BrokerReading], earlier: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Return the groups with dead letters whose oldest one is not known from the round before."""
    topics = {topic for one in masters for topic in one.topics or () if topic.startswith(DEAD_LETTER_PREFIX)}
    found = {topic.removeprefix(DEAD_LETTER_PREFIX): kept(masters, [(topic,)] * len(masters)) for topic in topics}
    return frozenset(
        group
        for group, backlog in found.items()
        if backlog is not None and backlog.message_count > 0 and _known_before(backlog, earlier.get(group, {})) is None
    )


async def read_oldest_dead_letters(link: ReplicaLink, reading: BrokerReading, groups: Collection[str]) -> None:
    """Ask a master for the store time of the oldest message of each dead-letter queue of these groups (32)."""
    queues = ((group, queue_id) for group in sorted(groups) for queue_id in _queues_with_messages(reading, group))
    requests = {
        (group, queue_id): GetEarliestMsgStoretime(f"{DEAD_LETTER_PREFIX}{group}", queue_id)
        for group, queue_id in islice(queues, QUEUES_IN_A_ROUND)
    }
    async for queue, answer in link.ask_each(requests, at_once=COSTLY_AT_ONCE):
        if answer.body is not None:
            reading.oldest_dead_letters[queue] = answer.body


def oldest_dead_letter_at(
    masters: Sequence[BrokerReading], group: str, backlog: Backlog | None, before: Mapping[str, Any]
) -> datetime | None:
    """Return the store time of a group's oldest dead letter; None = it has none, or one of its queues did not tell.

    `backlog`: its dead letters over all masters; `before`: its row of the round before.
    """
    if backlog is None or backlog.message_count <= 0:
        return None
    if (known := _known_before(backlog, before)) is not None:
        return known
    stored_at = [
        one.oldest_dead_letters.get((group, queue_id))
        for one in masters
        for queue_id in _queues_with_messages(one, group)
    ]
    return None if None in stored_at else min((at for at in stored_at if at is not None), default=None)


def _known_before(now: Backlog, before: Mapping[str, Any]) -> datetime | None:
    """Return what the round before knew, if nothing was deleted since."""
    count, high = before.get("dead_letter_message_count"), before.get("dead_letter_max_offset")
    if count is None or high is None or count <= 0 or high - count != now.max_offset - now.message_count:
        return None
    oldest: datetime | None = before["oldest_dead_letter_at"]
    return oldest


def _queues_with_messages(reading: BrokerReading, group: str) -> Iterator[int]:
    ends = reading.queue_ends.get(f"{DEAD_LETTER_PREFIX}{group}")
    for queue_id, low, high, _ in ends.rows() if ends else ():
        if high > low:
            yield queue_id
