"""What is asked about groups that are looked at in detail: of replicas, and of their clients (running info).

Goal: all clients of suspect groups in a fraction of a second, and no harm where clients hang.
The broker passes the request on and holds one of its 16 admin threads until the client answers, 10 s at most, whether
or not we still wait. So at most IN_FLIGHT clients are asked at a time, and a place whose client did not answer is not
used again in this round: no more than IN_FLIGHT threads are ever held. A client that does not answer is the client's
failure: no gap of the broker, no strike against it.
Never asked: clients that cannot answer. gRPC clients (a proxy in LOCAL mode lists them; the broker would wait 10 s for
each), and clients whose language has no implementation of 307.
Source: AdminBrokerProcessor#getConsumerRunningInfo, Broker2Client#callClient (10 s), adminBrokerThreadPoolNums (16).

Clients are chosen for the whole cluster: each is connected to many brokers and tells all of itself to any of them.

Rates that brokers count themselves (315): only the replica that serves a pull counts it, and nobody adds the counts up:
a group that reads from the slave has rate 0 on its master. So the rates of reading are asked of every replica, and a
group's rate is the sum. What is written is counted where it is written: on masters. "Nothing counted since the
replica's start" is an answer, and means 0.
Source: BrokerStatsManager (keys), AdminBrokerProcessor#viewBrokerStatsData, SendMessageProcessor (the key of
SNDBCK_PUT_NUMS has the original topic, not %RETRY%), apache/rocketmq 4.9.8 and 5.5.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, GroupClient, StatsItem
from offsetguard.collect.detail_choice import choose_clients
from offsetguard.collect.manifest import RequestLedger
from offsetguard.collect.pop import BROKERS_WITHOUT_POP, POP_STATISTICS
from offsetguard.collect.replica import ReplicaLink
from offsetguard.collect.system_names import RETRY_PREFIX, is_lite_topic
from offsetguard.model.errors import NotRecorded, RequestTimedOut, RocketMQError
from offsetguard.sources.rocketmq.codes import ClientTimedOut, NotThere
from offsetguard.sources.rocketmq.requests import GetConsumerRunningInfo, ViewBrokerStatsData

SHARE_OF_PLACES = 4  # one place in so many is for groups that are not suspect
IN_FLIGHT = 4
CLIENT_PATIENCE_S = 1.5  # clients answer in milliseconds; the round does not wait for one that hangs,
CLIENT_SILENCE_S = 0.5  # nor for all of them when none has answered for so long
LATENCY_QUEUES = 16  # per replica and round: there is one item per queue
LANGUAGES = frozenset({"JAVA", "GO", "CPP"})  # those whose clients implement 307
GRPC_CLIENT_ID = re.compile(r".+@[0-9]+@[0-9]+@[0-9a-z]+")  # host@pid@number@time in base 36, of all gRPC clients


async def read_running_info(link: ReplicaLink, reading: BrokerReading, clients: Sequence[GroupClient]) -> None:
    """Ask the clients of this broker; fills `reading.running_info`.

    Ask each client through one broker only: it tells all of itself. Clients that cannot answer are left out silently:
    they have no entry. Who is not asked since others did not answer has an entry that says so.
    """
    waiting = iter([client for client in clients if can_answer(reading, *client)])
    async with asyncio.TaskGroup() as places:
        for _ in range(IN_FLIGHT):
            places.create_task(_ask_in_turn(link, reading, waiting))
    for client in waiting:
        failure = f"not asked: {IN_FLIGHT} clients of this broker did not answer"
        reading.running_info[client] = ClientAnswer(None, failure, None)


def can_answer(reading: BrokerReading, consumer_group: str, client_id: str) -> bool:
    """Whether it makes sense to ask a client; one of unknown language is asked."""
    if GRPC_CLIENT_ID.fullmatch(client_id):
        return False
    connections = reading.connections.get(consumer_group)
    languages = {one.language for one in connections.connections if one.client_id == client_id} if connections else None
    return not languages or not languages.isdisjoint(LANGUAGES)


async def _ask_in_turn(link: ReplicaLink, reading: BrokerReading, waiting: Iterator[GroupClient]) -> None:
    """Use one place until a client does not answer."""
    for client in waiting:
        outcome = await link.ask_client(GetConsumerRunningInfo(*client))
        if isinstance(outcome, NotRecorded):
            continue
        if not isinstance(outcome, RocketMQError):
            reading.running_info[client] = ClientAnswer(outcome.body, None, outcome.at)
        elif isinstance(outcome, ClientTimedOut | RequestTimedOut):
            reading.running_info[client] = ClientAnswer(None, f"the client did not answer the broker: {outcome}", None)
            return
        else:
            reading.running_info[client] = ClientAnswer(None, str(outcome), None)


def plan_clients(
    masters: Sequence[BrokerReading],
    suspects: Sequence[str],
    share: Iterable[str],
    *,
    limit: int,
    round_number: int,
    ledger: RequestLedger,
) -> dict[str, list[GroupClient]]:
    """Choose clients of the suspects, and of the share in its turn; by the name of the first master that each is on."""
    for_suspects = limit - limit // SHARE_OF_PLACES
    known, of_others = _clients(masters, suspects), _clients(masters, share)
    chosen, left = choose_clients(known, for_suspects, round_number)
    of_share, left_of_share = choose_clients(of_others, limit - len(chosen), round_number)
    reason = f"collection.running_info_clients allows {limit} in a round; the others take turns"
    ledger.leave_out("running info of clients", left + left_of_share, reason)
    plan: defaultdict[str, list[GroupClient]] = defaultdict(list)
    master_names = known | of_others
    for group, client_id in (*chosen, *of_share):
        plan[master_names[group][client_id]].append((group, client_id))
    return dict(plan)


async def read_clients(link: ReplicaLink, reading: BrokerReading, clients: Sequence[GroupClient]) -> None:
    """Ask the clients what they do (307); whoever answers too late is not waited for."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + CLIENT_PATIENCE_S
    asking = asyncio.create_task(read_running_info(link, reading, clients))
    answered = -1
    try:
        while not asking.done() and len(reading.running_info) > answered and loop.time() < ends_at:
            answered = len(reading.running_info)
            await asyncio.wait([asking], timeout=min(CLIENT_SILENCE_S, ends_at - loop.time()))
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    if not asking.cancelled():
        asking.result()
    for client in clients:
        if client not in reading.running_info:
            failure = f"no answer within {CLIENT_SILENCE_S:g} s, or not asked after others that gave none"
            reading.running_info[client] = ClientAnswer(None, failure, None)


async def read_rates(
    link: ReplicaLink,
    reading: BrokerReading,
    master: BrokerReading,
    groups: Sequence[str],
    *,
    limit: int,
    ledger: RequestLedger,
) -> None:
    """Ask a replica for at most `limit` rates (315) of groups, worst first. `master`: the one of the same name."""
    topics = _topics_by_group(master, groups)
    items = items_for(topics, reading, lambda topic: _queue_ids(master, topic))
    reason = f"collection.rates allows {limit} of a replica in a round; the worst groups come first"
    ledger.leave_out("rates of a replica (315)", max(0, len(items) - limit), reason)
    await read_broker_stats(link, reading, [*items_of_replica(reading), *items[:limit]])


def _clients(masters: Sequence[BrokerReading], groups: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the clients of each group that can answer, with the name of the first master that each is on."""
    found: dict[str, dict[str, str]] = {}
    for group in groups:
        for master in masters:
            connections = master.connections.get(group)
            for client in connections.connections if connections else ():
                if can_answer(master, group, client.client_id):
                    found.setdefault(group, {}).setdefault(client.client_id, master.broker_name)
    return found


def _topics_by_group(master: BrokerReading, groups: Sequence[str]) -> dict[str, Collection[str]]:
    """Topics that the groups have offsets for or subscribe to on this broker, in the groups' order.

    A group that hangs in its very first message has pulled, and has committed nothing.
    """
    found: dict[str, set[str]] = {group: set() for group in groups}
    for topic, group in master.committed_offsets:
        if group in found:
            found[group].add(topic)
    for group, topics in found.items():
        if connections := master.connections.get(group):
            topics.update(connections.subscriptions)
    known = master.topics or {}
    return {group: sorted(topics & known.keys()) for group, topics in found.items()}


def _queue_ids(master: BrokerReading, topic: str) -> Collection[int]:
    ends = master.queue_ends.get(topic)
    return ends.queue_ids if ends else ()


async def read_broker_stats(link: ReplicaLink, reading: BrokerReading, items: Iterable[StatsItem]) -> None:
    """Ask one replica for rates; fills `reading.broker_stats`. A body of None = nothing counted since its start."""
    requests = {item: ViewBrokerStatsData(item.stats_name, item.stats_key) for item in items}
    async for item, answer in link.ask_each(requests, answers=(NotThere,)):
        reading.broker_stats[item] = answer


def items_of_replica(reading: BrokerReading) -> list[StatsItem]:
    """Return what every replica is asked in every round: what it reads and writes in all."""
    cluster_name = (reading.settings or {}).get("brokerClusterName")
    names = ("BROKER_GET_NUMS", "BROKER_PUT_NUMS")
    return [StatsItem(name, cluster_name) for name in names] if cluster_name else []


def items_for(
    groups: Mapping[str, Collection[str]],
    reading: BrokerReading,
    queue_ids: Callable[[str], Collection[int]] = lambda _: (),
) -> list[StatsItem]:
    """Return what one replica is asked about detail groups: consumer group -> its topics, retry topics included.

    One group after the other, so that a list that is cut off has all of the first groups; latencies come last.
    `queue_ids(topic)`: the topic's queues on this broker. Lite topics are left out: there may be one per chat session.
    """
    pairs = [(topic, group) for group, topics in groups.items() for topic in topics if not is_lite_topic(topic)]
    items = [item for topic, group in pairs for item in _items_of_pair(topic, group, reading)]
    items += islice(_latencies(pairs, queue_ids), LATENCY_QUEUES if _counts_per_queue(reading) else 0)
    return list(dict.fromkeys(items))


def _items_of_pair(topic: str, group: str, reading: BrokerReading) -> Iterator[StatsItem]:
    key = f"{topic}@{group}"
    yield StatsItem("GROUP_GET_NUMS", key, topic, group)
    if reading.replica.is_master:
        yield StatsItem("TOPIC_PUT_NUMS", topic, topic)
        if not topic.startswith(RETRY_PREFIX):
            for name in ("SNDBCK_PUT_NUMS", *(POP_STATISTICS if _counts_pops(reading) else ())):
                yield StatsItem(name, key, topic, group)


def _latencies(pairs: Iterable[tuple[str, str]], queue_ids: Callable[[str], Collection[int]]) -> Iterator[StatsItem]:
    for topic, group in pairs:
        for queue_id in sorted(queue_ids(topic)):
            yield StatsItem("GROUP_GET_LATENCY", f"{queue_id}@{topic}@{group}", topic, group, queue_id)


def _counts_pops(reading: BrokerReading) -> bool:
    """Whether the replica is of 5.x; False where its version was not seen."""
    version = reading.runtime.broker_version_desc if reading.runtime else None
    return version is not None and not version.startswith(BROKERS_WITHOUT_POP)


def _counts_per_queue(reading: BrokerReading) -> bool:
    """Whether the replica keeps latencies per queue: enableDetailStat, on by default."""
    return (reading.settings or {}).get("enableDetailStat", "true") == "true"
