"""What lies in the retry and dead-letter topics of each group, over all masters.

A group has `%RETRY%group` and `%DLQ%group`; a POP group has one retry topic for each topic besides, whose name is
ambiguous: see `pop.pop_retry_topics`. The keys of committed offsets name its group.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from offsetguard.collect.pop import pop_retry_topics
from offsetguard.collect.system_names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from offsetguard.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetguard.collect.broker_reading import BrokerReading


@record
class Backlog:
    """Messages kept in one kind of topic of a group, and the sum of max offsets, which grows with each new one."""

    message_count: int
    max_offset: int


def backlogs(
    masters: Sequence[BrokerReading], groups: Iterable[str]
) -> dict[str, tuple[Backlog | None, Backlog | None]]:
    """Return (retry, dead letter) of each group; None = a master or a topic of it was not seen.

    A group without such a topic has an empty one: nothing was ever sent back.
    """
    retry_topics = [_pop_retry_topics(one) for one in masters]
    found = {}
    for group in groups:
        classic, dead_letter = f"{RETRY_PREFIX}{group}", f"{DEAD_LETTER_PREFIX}{group}"
        retries = [(classic, *topics.get(group, ())) for topics in retry_topics]
        found[group] = kept(masters, retries), kept(masters, [(dead_letter,)] * len(masters))
    return found


def growth(now: Backlog | None, max_offset_before: object) -> int | None:
    """How many messages came since the earlier round; None = unknown, or fewer than there were: recreated."""
    if now is None or not isinstance(max_offset_before, int) or now.max_offset < max_offset_before:
        return None
    return now.max_offset - max_offset_before


def _pop_retry_topics(master: BrokerReading) -> dict[str, set[str]]:
    topics: defaultdict[str, set[str]] = defaultdict(set)
    offsets = master.committed.body.offsets if master.committed and master.committed.body else ()
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
