"""Rates that brokers count themselves (315): their names and keys, which ones are worth asking, what they say.

Source: BrokerStatsManager, apache/rocketmq 4.9.8 and 5.5.

Only the replica that serves a pull counts it, and nobody adds the counts up: a group that reads from the slave has rate
0 on its master. So the rates of reading are asked of every replica, and a group's rate is the sum. What is written is
counted where it is written: on masters. "Nothing counted since the replica's start" is an answer, and means 0.
Source: BrokerStatsManager (keys), AdminBrokerProcessor#viewBrokerStatsData, SendMessageProcessor (the key of
SNDBCK_PUT_NUMS has the original topic, not %RETRY%), apache/rocketmq 4.9.8 and 5.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from offsetguard.collect.broker_reading import BrokerReading, StatsItem
from offsetguard.collect.replica import ReplicaLink
from offsetguard.collect.system_names import RETRY_PREFIX, is_lite_topic
from offsetguard.sources.rocketmq.refusals import NotThere
from offsetguard.sources.rocketmq.requests import ViewBrokerStatsData

LATENCY_QUEUES = 16  # per replica and round: there is one item per queue
_OLD_LINES = ("V3_", "V4_")


async def read_broker_stats(link: ReplicaLink, reading: BrokerReading, items: Iterable[StatsItem]) -> None:
    """Ask one replica for rates; fills `reading.broker_stats`. A body of None = nothing counted since its start."""
    requests = [ViewBrokerStatsData(item.stats_name, item.stats_key) for item in dict.fromkeys(items)]
    async for request, answer in link.ask_each(requests, answers=(NotThere,)):
        assert isinstance(request, ViewBrokerStatsData)  # noqa: S101 it is one of the above
        reading.broker_stats[StatsItem(request.stats_name, request.stats_key)] = answer


def items_of_replica(reading: BrokerReading) -> list[StatsItem]:
    """Return what every replica is asked in every round: what it reads and writes in all."""
    cluster_name = (reading.settings or {}).get("brokerClusterName")
    names = ("BROKER_GET_NUMS", "BROKER_PUT_NUMS")
    return [StatsItem(name, cluster_name) for name in names] if cluster_name else []


def items_for(
    groups: Mapping[str, Collection[str]],
    reading: BrokerReading,
    queue_ids: Callable[[str], Collection[int]] = lambda _: (),
    latency_queues: int = LATENCY_QUEUES,
) -> list[StatsItem]:
    """Return what one replica is asked about detail groups: consumer group -> its topics, retry topics included.

    One group after the other, so that a list that is cut off has all of the first groups; latencies come last.
    `queue_ids(topic)`: the topic's queues on this broker. Lite topics are left out: there may be one per chat session.
    """
    pairs = [(topic, group) for group, topics in groups.items() for topic in topics if not is_lite_topic(topic)]
    items = [item for topic, group in pairs for item in _items_of_pair(topic, group, reading)]
    items += islice(_latencies(pairs, queue_ids), latency_queues if _counts_per_queue(reading) else 0)
    return list(dict.fromkeys(items))


def _items_of_pair(topic: str, group: str, reading: BrokerReading) -> Iterator[StatsItem]:
    key = f"{topic}@{group}"
    yield StatsItem("GROUP_GET_NUMS", key)
    if not reading.replica.is_master:
        return
    yield StatsItem("TOPIC_PUT_NUMS", topic)
    if topic.startswith(RETRY_PREFIX):
        return
    yield StatsItem("SNDBCK_PUT_NUMS", key)
    if _counts_pops(reading):
        yield StatsItem("GROUP_CK_NUMS", key)
        yield StatsItem("GROUP_ACK_NUMS", key)


def _latencies(pairs: Iterable[tuple[str, str]], queue_ids: Callable[[str], Collection[int]]) -> Iterator[StatsItem]:
    for topic, group in pairs:
        for queue_id in sorted(queue_ids(topic)):
            yield StatsItem("GROUP_GET_LATENCY", f"{queue_id}@{topic}@{group}")


def _counts_pops(reading: BrokerReading) -> bool:
    """Whether the replica is of 5.x; False where its version was not seen."""
    version = reading.runtime.broker_version_desc if reading.runtime else None
    return version is not None and not version.startswith(_OLD_LINES)


def _counts_per_queue(reading: BrokerReading) -> bool:
    """Whether the replica keeps latencies per queue: enableDetailStat, on by default."""
    return (reading.settings or {}).get("enableDetailStat", "true") == "true"
