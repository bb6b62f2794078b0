"""What real brokers of both lines answer to our client: figures that agree, messages, refusals, and a long silence."""

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from offsetguard.model.errors import ConnectionLost, PeerUnreachable, RequestTimedOut, RocketMQError
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import requests
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import (
    BrokerSystemError,
    ConsumerNotOnline,
    RequestCodeNotSupported,
    TopicNotExist,
)
from offsetguard.sources.rocketmq.message import PullStatus
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.extra_requests import QueryConsumerOffset
from offsetguard_peers.rocketmq.requests import ask
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "client-orders", "client-billing"
QUEUES, SENT = 4, 40
SEND_MESSAGE = 10  # RocketMQ's request code


def is_recent(moment: datetime | None) -> bool:
    """Whether it is not older than the run of tests, whose cluster it is."""
    return moment is not None and timedelta(0) <= datetime.now(UTC) - moment < timedelta(hours=2)


def test_offsets_of_a_queue_agree_in_every_request(cluster: RocketMQCluster) -> None:
    master = cluster.broker().address
    Admin(cluster).create_topic(TOPIC, queues=QUEUES)
    produce(cluster, TOPIC, SENT)
    with running_consumer(cluster, GROUP, TOPIC) as consumers:
        consumers.wait_until_consumed(SENT)

        def committed() -> int:  # every 5 s
            return sum(ask(master, requests.GetAllConsumerOffset()).offsets.get((TOPIC, GROUP), {}).values())

        wait_until(lambda: committed() == SENT, lambda: f"{SENT} messages that {GROUP} commits, not {committed()}")
        table = ask(master, requests.GetAllConsumerOffset())
        stats, topic_stats = (
            ask(master, requests.GetConsumeStats(GROUP, TOPIC)),
            ask(master, requests.GetTopicStatsInfo(TOPIC)),
        )
    assert table.unreadable_keys == ()
    queues = {MessageQueue(TOPIC, "broker-a", number) for number in range(QUEUES)}
    assert set(topic_stats.queues) == {queue for queue in stats if queue.topic == TOPIC} == queues
    for queue in queues:
        offsets, topic_offsets = stats[queue], topic_stats.queues[queue]
        end = table.offsets[TOPIC, GROUP][queue.queue_id]
        assert end == offsets.consumer_offset == offsets.broker_offset == topic_offsets.max_offset
        assert offsets.pull_offset == (end if cluster.version.startswith("5.") else None)
        assert end == ask(master, QueryConsumerOffset(GROUP, TOPIC, queue.queue_id))
        assert end == ask(master, requests.GetMaxOffset(TOPIC, queue.queue_id))
        assert topic_offsets.min_offset == ask(master, requests.GetMinOffset(TOPIC, queue.queue_id)) == 0
        assert is_recent(offsets.last_timestamp)
        assert offsets.last_timestamp == topic_offsets.last_update_timestamp


def test_messages_are_pulled_and_no_group_of_the_users_is_touched(cluster: RocketMQCluster) -> None:
    master, topic, end = cluster.broker().address, "client-pulled", 10
    Admin(cluster).create_topic(topic, queues=1)
    produce(cluster, topic, end, tags="tagA")
    before = ask(master, requests.GetAllConsumerOffset()).offsets
    result = ask(master, requests.PullMessage(topic, 0, 0))
    assert (result.status, result.undecodable) == (PullStatus.FOUND, ())
    assert (result.min_offset, result.max_offset, result.next_begin_offset) == (0, end, end)
    assert [message.queue_offset for message in result.messages] == list(range(end))
    assert all(is_recent(message.store_timestamp) and len(message.body) == 64 for message in result.messages)

    at_end = ask(master, requests.PullMessage(topic, 0, end))
    assert (at_end.status, at_end.messages, at_end.next_begin_offset) == (PullStatus.NO_NEW_MSG, (), end)
    beyond = ask(master, requests.PullMessage(topic, 0, end + 1000))
    assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, end)
    assert ask(master, requests.GetAllConsumerOffset()).offsets == before


def test_refusals_have_their_classes(cluster: RocketMQCluster) -> None:
    master = cluster.broker().address
    for address, request, classes in (
        (cluster.namesrv, requests.GetRouteInfoByTopic("client-no-such-topic"), {TopicNotExist}),
        (master, requests.GetTopicStatsInfo("client-no-such-topic"), {TopicNotExist}),
        (master, requests.GetConsumerConnectionList("client-nobody"), {ConsumerNotOnline}),
        (master, requests.GetBrokerClusterInfo(), {RequestCodeNotSupported}),  # a broker is no name server
        (master, requests.GetTopicStatsInfo(""), {TopicNotExist, BrokerSystemError}),
    ):
        with pytest.raises(RocketMQError) as refused:
            ask(address, request)
        assert type(refused.value) in classes, request


def test_a_frozen_broker_times_out_and_serves_again_when_it_thaws() -> None:
    with RocketMQCluster("4.9.7") as cluster:
        broker = cluster.broker()
        assert broker.pid is not None

        async def run(pid: int) -> list[object]:
            async with RocketMQClient(timeout_ms=5_000) as client:
                outcomes: list[object] = [await client.call(broker.address, requests.GetMinOffset("TBW102", 0))]
                os.kill(pid, signal.SIGSTOP)
                try:
                    outcomes.append(await _outcome(client, broker.address))
                finally:
                    os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(0.5)
                outcomes.append(await _outcome(client, broker.address))
                waiting = [asyncio.create_task(_outcome(client, broker.address)) for _ in range(3)]
                broker.kill()
                await asyncio.gather(*waiting)
                return [*outcomes, await _outcome(client, broker.address)]

        answered, frozen, thawed, dead = asyncio.run(run(broker.pid))
    assert answered == thawed == 0
    assert type(frozen) is RequestTimedOut
    assert type(dead) in (ConnectionLost, PeerUnreachable)


async def _outcome(client: RocketMQClient, address: str) -> object:
    try:
        return await client.call(address, requests.GetMinOffset("TBW102", 0))
    except RocketMQError as error:
        return error
