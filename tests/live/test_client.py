"""Every request once against real brokers of both lines, and what they refuse."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import pytest

from offsetguard.model.errors import ConnectionLost, PeerUnreachable, RequestTimedOut, RocketMQError
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.message import PullStatus
from offsetguard.sources.rocketmq.refusals import (
    AccessDenied,
    BrokerSystemError,
    ConsumerNotOnline,
    RequestCodeNotSupported,
    TopicNotExist,
)
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetAllTopicConfig,
    GetBrokerClusterInfo,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetConsumeStats,
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfoByTopic,
    GetTopicStatsInfo,
    PullMessage,
    QueryConsumeTimeSpan,
    Request,
)
from offsetguard_peers.rocketmq import security
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.extra_requests import QueryConsumerOffset
from offsetguard_peers.rocketmq.requests import send
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "client-orders", "client-billing"
QUEUES, SENT = 4, 40
SEND_MESSAGE = 10  # RocketMQ's request code
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Line:
    """A cluster with an online group that has consumed SENT messages, and one message more than 4 KiB long."""

    cluster: RocketMQCluster
    is_5: bool

    @property
    def master(self) -> str:
        return self.cluster.broker().address

    @property
    def slave(self) -> str:
        return self.cluster.broker(broker_id=1).address


@pytest.fixture(scope="module", params=["rocketmq_4", "rocketmq_5"])
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    cluster: RocketMQCluster = request.getfixturevalue(request.param)
    Admin(cluster).create_topic(TOPIC, queues=QUEUES)
    produce(cluster, TOPIC, SENT, tags="tagA")
    with running_consumer(cluster, GROUP, {TOPIC: "tagA || tagB"}) as consumers:
        consumers.wait_until_consumed(SENT)
        wait_until_committed(cluster.broker().address)
        yield Line(cluster, is_5=request.param == "rocketmq_5")


def ask(address: str, request: Request[AnswerT], **options: Any) -> AnswerT:
    async def run() -> AnswerT:
        async with RocketMQClient(**options) as client:
            return await client.call(address, request)

    return asyncio.run(run())


def wait_until_committed(address: str) -> None:
    """Consumers commit every 5 s: return once the last commit has arrived."""

    def committed() -> int:
        return sum(ask(address, GetAllConsumerOffset()).offsets.get((TOPIC, GROUP), {}).values())

    wait_until(lambda: committed() == SENT, lambda: f"{SENT} messages that {GROUP} commits, not {committed()}")


def wait_until_readable(address: str, topic: str, max_offset: int) -> None:
    """Return once the max offset has got there: a broker answers a send before its queue shows the message."""
    end = partial(ask, address, GetMaxOffset(topic, 0))
    wait_until(lambda: end() >= max_offset, lambda: f"max offset {max_offset} of {topic}, not {end()}")


def refused(address: str, request: Request[Any], **options: Any) -> RocketMQError:
    with pytest.raises(RocketMQError) as caught:
        ask(address, request, **options)
    return caught.value


def is_recent(moment: datetime | None) -> bool:
    return moment is not None and timedelta(0) <= datetime.now(UTC) - moment < timedelta(
        hours=2
    )  # the cluster is as old as the run of tests


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue(TOPIC, "broker-a", queue_id)


def test_the_name_server_knows_master_and_slave(line: Line) -> None:
    info = ask(line.cluster.namesrv, GetBrokerClusterInfo())
    assert info.broker_names_by_cluster == {"DefaultCluster": ("broker-a",)}
    (broker,) = info.brokers
    assert broker.addresses == {0: line.master, 1: line.slave}


def test_the_name_server_knows_the_route(line: Line) -> None:
    route = ask(line.cluster.namesrv, GetRouteInfoByTopic(TOPIC))
    assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm) for q in route.queues] == [
        ("broker-a", QUEUES, QUEUES, 6)
    ]
    assert route.brokers[0].master_address == line.master


def test_topics_and_groups_have_their_settings(line: Line) -> None:
    topics = ask(line.master, GetAllTopicConfig()).topics
    assert (topics[TOPIC].read_queue_nums, topics[TOPIC].perm, topics[TOPIC].order) == (QUEUES, 6, False)
    groups = ask(line.master, GetAllSubscriptionGroupConfig()).groups
    assert (groups[GROUP].consume_enable, groups[GROUP].retry_max_times) == (True, 16)


def test_offsets_of_a_queue_agree_in_every_request(line: Line) -> None:
    async def run() -> None:
        async with RocketMQClient() as client:
            table = await client.call(line.master, GetAllConsumerOffset())
            stats = await client.call(line.master, GetConsumeStats(GROUP, TOPIC))
            topic_stats = await client.call(line.master, GetTopicStatsInfo(TOPIC))
            assert set(topic_stats.queues) == {queue(n) for n in range(QUEUES)}
            assert {q for q in stats.queues if q.topic == TOPIC} == set(topic_stats.queues)
            for queue_id, committed in table.offsets[TOPIC, GROUP].items():
                offsets, topic_offsets = stats.queues[queue(queue_id)], topic_stats.queues[queue(queue_id)]
                assert committed == offsets.consumer_offset == offsets.broker_offset == topic_offsets.max_offset
                assert offsets.pull_offset == (committed if line.is_5 else None)
                assert committed == await client.call(line.master, QueryConsumerOffset(GROUP, TOPIC, queue_id))
                assert committed == await client.call(line.master, GetMaxOffset(TOPIC, queue_id))
                assert topic_offsets.min_offset == await client.call(line.master, GetMinOffset(TOPIC, queue_id)) == 0
                assert is_recent(offsets.last_timestamp)
                assert offsets.last_timestamp == topic_offsets.last_update_timestamp
            assert table.unreadable_keys == ()

    asyncio.run(run())


def test_the_consumer_is_connected_with_its_subscription(line: Line) -> None:
    group = ask(line.master, GetConsumerConnectionList(GROUP))
    assert (group.consume_type, group.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    (connection,) = group.connections
    assert (connection.language, connection.client_address.rpartition(":")[0]) == ("JAVA", "127.0.0.1")
    assert group.subscriptions[TOPIC].tags == {"tagA", "tagB"}


def test_nothing_waits_for_a_group_that_has_consumed_all_and_a_group_that_never_committed_is_unknown(
    line: Line,
) -> None:
    assert {span.delay_ms for span in ask(line.master, QueryConsumeTimeSpan(TOPIC, GROUP)).queues.values()} <= {0, None}
    never = ask(line.master, QueryConsumeTimeSpan(TOPIC, "client-never-committed"))
    assert {span.delay_ms for span in never.queues.values()} == {None}
    assert ask(line.master, GetConsumeStats("client-never-committed")).queues == {}


def test_runtime_and_config_name_version_and_role(line: Line) -> None:
    info = ask(line.master, GetBrokerRuntimeInfo())
    assert info.broker_version_desc == ("V" + line.cluster.version.replace(".", "_"))
    assert is_recent(info.boot_at)
    assert ask(line.master, GetBrokerConfig())["brokerRole"] == "ASYNC_MASTER"
    assert ask(line.slave, GetBrokerConfig())["brokerRole"] == "SLAVE"


def test_messages_are_pulled_and_no_group_of_the_users_is_touched(line: Line) -> None:
    before = ask(line.master, GetAllConsumerOffset()).offsets
    (end,) = {ask(line.master, GetMaxOffset(TOPIC, 0))}
    result = ask(line.master, PullMessage(TOPIC, 0, 0))
    assert (result.status, result.undecodable) == (PullStatus.FOUND, ())
    assert (result.min_offset, result.max_offset, result.next_begin_offset) == (0, end, end)
    assert [(m.topic, m.queue_id, m.queue_offset, m.tags) for m in result.messages] == [
        (TOPIC, 0, n, "tagA") for n in range(end)
    ]
    assert all(is_recent(message.store_timestamp) and len(message.body) == 64 for message in result.messages)
    assert result.messages[0].store_host == line.master

    at_end = ask(line.master, PullMessage(TOPIC, 0, end))
    assert (at_end.status, at_end.messages, at_end.next_begin_offset) == (PullStatus.NO_NEW_MSG, (), end)
    beyond = ask(line.master, PullMessage(TOPIC, 0, end + 1000))
    assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, end)
    assert ask(line.master, GetAllConsumerOffset()).offsets == before


def test_a_compressed_body_is_given_plain(line: Line) -> None:
    """Sent by hand: our Java producer does not compress, so that it fills commit-log files."""
    topic, plain = f"client-compressed-{time.time_ns()}", b"hello" * 1000
    Admin(line.cluster).create_topic(topic, queues=1)
    fields = {
        "producerGroup": "client-producer",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "1",  # compressed
        "bornTimestamp": str(time.time_ns() // 1_000_000),
        "flag": "0",
        "properties": "KEYS\x01k1",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    assert send(line.master, SEND_MESSAGE, fields, zlib.compress(plain)).code == 0
    wait_until_readable(line.master, topic, 1)
    (message,) = ask(line.master, PullMessage(topic, 0, 0)).messages
    assert (message.sys_flag & 1, message.body, message.keys) == (1, plain, ("k1",))


def test_a_pull_outside_of_the_queue_makes_a_4_x_broker_write_an_offset_moved_event(line: Line) -> None:
    end = ask(line.master, GetMaxOffset(TOPIC, 1))
    events = ask(line.master, GetMaxOffset("OFFSET_MOVED_EVENT", 0))
    ask(line.master, PullMessage(TOPIC, 1, end + 77, consumer_group="client-lost"))
    if not line.is_5:
        wait_until_readable(line.master, "OFFSET_MOVED_EVENT", events + 1)
    result = ask(line.master, PullMessage("OFFSET_MOVED_EVENT", 0, events))
    bodies = [message.body for message in result.messages if message.tags == "client-lost"]
    assert len(bodies) == (0 if line.is_5 else 1)
    assert all(f'"offsetNew":{end},"offsetRequest":{end + 77}'.encode() in body for body in bodies)


def test_refusals_have_their_classes(line: Line) -> None:
    assert type(refused(line.cluster.namesrv, GetRouteInfoByTopic("client-no-such-topic"))) is TopicNotExist
    assert type(refused(line.master, GetTopicStatsInfo("client-no-such-topic"))) is TopicNotExist
    assert type(refused(line.master, GetConsumerConnectionList("client-nobody"))) is ConsumerNotOnline
    assert type(refused(line.master, GetBrokerClusterInfo())) is RequestCodeNotSupported, "a broker is no name server"
    assert type(refused(line.master, GetTopicStatsInfo(""))) in (TopicNotExist, BrokerSystemError)


def test_two_hundred_requests_share_one_connection(line: Line) -> None:
    async def run() -> list[int]:
        async with RocketMQClient() as client:
            return await asyncio.gather(
                *(client.call(line.master, GetMaxOffset(TOPIC, n % QUEUES)) for n in range(200))
            )

    offsets = asyncio.run(run())
    assert sum(offsets[:QUEUES]) == SENT
    assert offsets == offsets[:QUEUES] * (200 // QUEUES)


def test_a_frozen_broker_times_out_and_serves_again_when_it_thaws() -> None:
    with RocketMQCluster("4.9.7") as cluster:
        broker = cluster.broker()
        assert broker.pid is not None

        async def run(pid: int) -> list[object]:
            async with RocketMQClient(timeout_ms=5_000) as client:
                outcomes: list[object] = [await client.call(broker.address, GetMinOffset("TBW102", 0))]
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
    assert isinstance(dead, RocketMQError)
    assert dead.retryable


async def _outcome(client: RocketMQClient, address: str) -> object:
    try:
        return await client.call(address, GetMinOffset("TBW102", 0))
    except RocketMQError as error:
        return error


@pytest.fixture(scope="module")
def guarded_cluster() -> Iterator[RocketMQCluster]:
    with RocketMQCluster("4.9.7", acl=True) as cluster:
        yield cluster


def test_with_access_control_the_right_login_is_served(guarded_cluster: RocketMQCluster) -> None:
    credentials = security.READER
    address = guarded_cluster.broker().address
    assert ask(address, GetAllTopicConfig(), credentials=credentials).topics
    assert ask(address, GetConsumeStats("G"), credentials=credentials).queues == {}


@pytest.mark.parametrize(
    "credentials",
    [None, Credentials(security.READER.access_key, "wrong"), Credentials("nobody", "nothing")],
    ids=["no login", "wrong secret key", "unknown access key"],
)
def test_with_access_control_another_login_is_refused_and_told_what_to_do(
    guarded_cluster: RocketMQCluster, credentials: Credentials | None
) -> None:
    error = refused(guarded_cluster.broker().address, GetConsumeStats("G"), credentials=credentials)
    assert type(error) is AccessDenied
    assert "check access key and secret key" in str(error)
