"""Rates of real replicas, what moves between them, and the smaller requests, on both lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from offsetguard.collect.broker_rows import broker_rows, broker_stats_rows
from offsetguard.collect.landing import Row
from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.refusals import NotThere
from offsetguard.sources.rocketmq.requests import (
    GetAllTopicConfig,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
    GetSystemTopicListFromBroker,
    ViewBrokerStatsData,
)
from offsetguard.tables import BROKER_SNAPSHOTS, BROKER_STATS, GROUP_FACTS, QUEUE_SNAPSHOTS
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.collecting import PATIENCE_S, now_interval, rates_of, readings_of, tell, wait_for
from offsetguard_peers.facts.answers import answers
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumer, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.extra_requests import (
    GetAllTopicListFromNameServer,
    GetConsumerListByGroup,
    QueryTopicConsumeByWho,
)

Seen = dict[Callable[[RocketMQCluster], None], list[Future[None]]]


pytestmark = [pytest.mark.live, pytest.mark.slow]

SLAVE_TOPIC = "SlaveTopic"
RATES_EVERY_S = 2.0  # brokers sample them once in 10 s, and each look asks every replica for dozens


@pytest.fixture(params=["rocketmq_4", "rocketmq_5"])
def cluster(request: pytest.FixtureRequest) -> RocketMQCluster:
    shared: RocketMQCluster = request.getfixturevalue(request.param)
    return shared


@pytest.fixture(scope="module", autouse=True)
def _slaves_learn_of_their_topic_meanwhile(rocketmq_4: RocketMQCluster, rocketmq_5: RocketMQCluster) -> None:
    """Create it now: 5.x slaves ask for topics once in a minute."""
    for cluster in (rocketmq_4, rocketmq_5):
        Admin(cluster).create_topic(SLAVE_TOPIC, queues=2)


@pytest.fixture(scope="module")
def seen(rocketmq_4: RocketMQCluster, rocketmq_5: RocketMQCluster) -> Seen:
    """Let all that waits for rates of a minute wait at once, on both clusters, while no other test runs there.

    Reads are sent to the slave meanwhile: whoever is not to go there belongs to a group that `stays_on_the_master`.
    """
    looks = (_see_the_rates_of_a_concurrent_client, _see_messages_that_fail, _see_reads_from_the_slave)
    with ThreadPoolExecutor(2 * len(looks)) as pool:
        return {look: [pool.submit(look, cluster) for cluster in (rocketmq_4, rocketmq_5)] for look in looks}


def stays_on_the_master(cluster: RocketMQCluster, group: str) -> None:
    Admin(cluster).create_group(group, brokerId=0, whichBrokerWhenConsumeSlowly=0)


def test_a_concurrent_client_is_not_orderly_and_says_its_rates(seen: Seen) -> None:
    for on_one_line in seen[_see_the_rates_of_a_concurrent_client]:
        on_one_line.result()


def _see_the_rates_of_a_concurrent_client(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("RateTopic", queues=4)
    stays_on_the_master(cluster, "rate-group")
    with running_consumer(cluster, "rate-group", "RateTopic", threads=3) as consumers:
        client_id = consumers.client_ids[0]
        sent = 0

        def counted() -> tuple[Row, dict[tuple[str, str, int], Row]] | None:
            nonlocal sent
            produce(cluster, "RateTopic", 40)
            sent += 40
            _, client, _ = tell(cluster, "rate-group", client_id)
            rates = rates_of(cluster, {"rate-group": ["RateTopic", "%RETRY%rate-group"]})
            # each rate of a minute is made of its own samples, 10 s apart: one may be told while another is still 0
            of_broker = [rates[key]["tps"] for key in moving]
            return (client, rates) if all((client.get("consume_ok_tps"), client.get("pull_tps"), *of_broker)) else None

        moving = [
            ("GROUP_GET_NUMS", "RateTopic@rate-group", 0),
            ("TOPIC_PUT_NUMS", "RateTopic", 0),
            ("BROKER_GET_NUMS", cluster.name, 0),
            ("BROKER_PUT_NUMS", cluster.name, 0),
        ]
        client, rates = wait_for(counted, "the rates of the client and of the broker", every_s=RATES_EVERY_S)
        assert client["orderly"] is False
        assert client["thread_count"] == 3
        assert client["consume_rt_ms"] >= 0
        assert client["consume_failed_tps"] == 0
        found = rates["GROUP_GET_NUMS", "RateTopic@rate-group", 0]
        assert 0 < found["minute_sum"] <= sent
        assert rates["TOPIC_PUT_NUMS", "RateTopic", 0]["minute_sum"] <= sent
        assert not rates["GROUP_GET_NUMS", "%RETRY%rate-group@rate-group", 0]["counted"]
        assert not rates["SNDBCK_PUT_NUMS", "RateTopic@rate-group", 0]["counted"], "nothing failed"
        assert not rates["GROUP_GET_NUMS", "RateTopic@rate-group", 1]["counted"], "the slave served nothing"
        latencies = {key for (name, key, broker_id) in rates if name == "GROUP_GET_LATENCY" and broker_id == 0}
        assert {f"{queue_id}@RateTopic@rate-group" for queue_id in range(4)} <= latencies
        assert rates["GROUP_GET_LATENCY", "0@RateTopic@rate-group", 0]["counted"]
        if cluster.version.startswith("5."):
            assert not rates["GROUP_CK_NUMS", "RateTopic@rate-group", 0]["counted"], "no client pops"
            assert not rates["GROUP_ACK_NUMS", "RateTopic@rate-group", 0]["counted"]


def test_messages_that_fail_are_counted_and_come_back_by_the_retry_topic(seen: Seen) -> None:
    for on_one_line in seen[_see_messages_that_fail]:
        on_one_line.result()


def _see_messages_that_fail(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    master = cluster.masters[0].address
    admin.create_topic("FailTopic", queues=2)
    stays_on_the_master(cluster, "fail-group")
    produce(cluster, "FailTopic", 20)
    groups = {"fail-group": ["FailTopic", "%RETRY%fail-group"]}
    with running_consumer(cluster, "fail-group", "FailTopic", fail_always=True) as consumers:
        consumers.wait_until_failed(40, timeout_s=PATIENCE_S)  # each of them again after 10 s: the retry topic was read
        client_id = consumers.client_ids[0]

        def counted() -> dict[tuple[str, str, int], Row] | None:
            _, client, _ = tell(cluster, "fail-group", client_id)
            rates = rates_of(cluster, groups)
            sent_back = rates["SNDBCK_PUT_NUMS", "FailTopic@fail-group", 0]
            retried = rates["GROUP_GET_NUMS", "%RETRY%fail-group@fail-group", 0]
            moved = sent_back["minute_sum"] >= 20 and retried["minute_sum"] >= 20
            return rates if moved and client.get("consume_failed_tps") else None

        rates = wait_for(counted, "20 messages sent back and pulled again", every_s=RATES_EVERY_S)
        assert "%RETRY%fail-group" in admin.read(master, GetAllTopicConfig()).topics
        assert rates["TOPIC_PUT_NUMS", "%RETRY%fail-group", 0]["counted"]
        _, _, queues = tell(cluster, "fail-group", client_id)
        assert ("%RETRY%fail-group", 0) in queues


def test_the_smaller_requests_say_who_is_there(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    master = cluster.masters[0].address
    admin.create_topic("NameTopic", queues=2)
    produce(cluster, "NameTopic", 8)
    with running_consumer(cluster, "name-group", "NameTopic") as consumers:
        consumers.wait_until_consumed(8)
        assert admin.read(master, GetConsumerListByGroup("name-group")) == tuple(consumers.client_ids)
        assert "name-group" in admin.read(master, QueryTopicConsumeByWho("NameTopic"))
        connections = admin.read(master, GetConsumerConnectionList("name-group")).connections
        assert [one.client_id for one in connections] == consumers.client_ids
    assert "NameTopic" in admin.read(cluster.namesrv, GetAllTopicListFromNameServer())
    system_topics = admin.read(master, GetSystemTopicListFromBroker()).topics
    assert {"OFFSET_MOVED_EVENT", "TBW102", cluster.name, cluster.masters[0].name} <= set(system_topics)
    assert "NameTopic" not in system_topics


@pytest.mark.parametrize(
    "request_",
    [
        GetConsumerListByGroup("nobody"),
        GetConsumerRunningInfo("nobody", "10.0.0.1@1"),
        ViewBrokerStatsData("GROUP_GET_NUMS", "nothing@nobody"),
        ViewBrokerStatsData("NO_SUCH_STATISTIC", "nothing@nobody"),
    ],
    ids=str,
)
def test_what_is_not_there_is_told_apart_from_what_failed(
    cluster: RocketMQCluster, request_: GetConsumerListByGroup
) -> None:
    for broker in cluster.brokers:
        with pytest.raises(BrokerRefused) as caught:
            Admin(cluster).read(broker.address, request_)
        assert type(caught.value) is NotThere


def test_a_slave_says_how_far_it_is_behind(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("DistanceTopic")
    produce(cluster, "DistanceTopic", 100)

    def caught_up() -> bool | None:
        rows = list(broker_rows("main", now_interval(), readings_of(cluster.brokers, {})))
        assert [row["slave_behind_bytes"] for row in rows if row["broker_id"] == 0] == [None]
        distances = [row["slave_behind_bytes"] for row in rows if row["broker_id"] == 1]
        assert all(distance is not None and distance >= 0 for distance in distances)
        assert all(row["access_message_in_memory_max_ratio"] is not None for row in rows)
        assert all(row["dispatch_behind_bytes"] is not None for row in rows)
        return distances == [0] or None

    assert wait_for(caught_up, "the slave has everything that its master has")


@contextmanager
def reads_sent_to_the_slave(cluster: RocketMQCluster) -> Iterator[None]:
    """Let every replica take each message for one that is not in memory any more."""
    admin = Admin(cluster)
    try:
        for broker in cluster.brokers:
            admin.configure(broker, accessMessageInMemoryMaxRatio=0)
        yield
    finally:
        for broker in cluster.brokers:
            admin.configure(broker, accessMessageInMemoryMaxRatio=40)


def test_a_group_that_reads_from_the_slave_is_seen_there_and_not_on_the_master(seen: Seen) -> None:
    """Incident I1. Rates of a minute, so the master's needs one to fall to 0."""
    for on_one_line in seen[_see_reads_from_the_slave]:
        on_one_line.result()


def _see_reads_from_the_slave(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    slave = next(broker for broker in cluster.brokers if broker.broker_id == 1)
    wait_for(
        lambda: SLAVE_TOPIC in admin.read(slave.address, GetAllTopicConfig()).topics or None,
        "the slave knows the topic",
    )
    produce(cluster, SLAVE_TOPIC, 40_000)
    spec = ConsumerSpec("slave-group", {SLAVE_TOPIC: "*"}, handling_ms=50, threads=4, pull_threshold_for_queue=64)
    groups = {"slave-group": [SLAVE_TOPIC]}
    with reads_sent_to_the_slave(cluster), running_consumers(cluster, [spec]) as consumers:

        def served_by_slave() -> bool | None:
            rows = list(broker_stats_rows("main", now_interval(), readings_of(cluster.brokers, groups)))
            place = {"broker_name": cluster.masters[0].name}
            queue = {**place, "consumer_group": "slave-group", "topic": SLAVE_TOPIC, "queue_id": 0}
            seen = {
                BROKER_STATS.name: rows,
                BROKER_SNAPSHOTS.name: [{**place, "broker_id": number} for number in (0, 1)],
                QUEUE_SNAPSHOTS.name: [queue],
            }
            (rate,) = answers(GROUP_FACTS, GroupFacts, seen, now_interval())
            assert rate.unseen_rate_count == 0
            assert rate.get_tps == (rate.master_get_tps or 0) + (rate.slave_get_tps or 0)
            return rate.reads_moved_to_slave or None

        assert wait_for(served_by_slave, "a rate on the slave and none on the master", every_s=RATES_EVERY_S)
        assert 0 < consumers.consumed() < 40_000, "it works all the time, and it is not done"
