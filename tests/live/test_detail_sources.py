"""What real clients say of themselves, and replicas of what they served and how far they are, on both lines."""

from datetime import UTC, datetime, timedelta

import pytest

from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.landing import Row
from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.codes import NotThere
from offsetguard.sources.rocketmq.requests import GetAllTopicConfig, GetConsumerRunningInfo, ViewBrokerStatsData
from offsetguard_peers.collecting import now_interval, rates_of, readings_of, tell
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.extra_requests import GetConsumerListByGroup
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

RATES_EVERY_S = 2.0  # brokers sample them once in 10 s, and each look asks every replica for dozens


def test_an_orderly_client_says_how_it_is_set_and_what_it_holds(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("TellTopic", queues=2)
    produce(cluster, "TellTopic", 60)
    before = datetime.now(UTC)
    spec = ConsumerSpec(
        "tell-group",
        {"TellTopic": "red || blue"},
        orderly=True,
        handling_ms=600_000,
        threads=7,
        max_reconsume_times=16,
        pull_threshold_for_queue=25,
    )
    produce(cluster, "TellTopic", 100, tags="red")
    properties = {"rocketmq.client.rebalance.lockInterval": "1000"}
    with running_consumers(cluster, [spec], java_properties=properties) as consumers:
        client_id = consumers.client_ids[0]

        def holding() -> tuple[Row, dict[tuple[str, int], Row]] | None:
            _, client, queues = tell(cluster, "tell-group", client_id)
            busy = [queue for queue in queues.values() if queue["transaction_message_count"]]
            return (client, queues) if len(busy) == 2 else None

        client, queues = wait_until(holding, "both queues in the listener's hands", every_s=0.5)
        assert (client["orderly"], client["thread_count"], client["max_reconsume_times"]) == (True, 7, 16)
        assert (client["pull_threshold_for_queue"], client["pull_threshold_size_for_queue_mib"]) == (25, 100)
        assert client["client_version_name"] == f"V{cluster.version.replace('.', '_')}"
        assert abs(client["consumer_start_at"] - before) < timedelta(minutes=10)
        assert client["own_subscriptions"] == ["%RETRY%tell-group *", "TellTopic red || blue"]
        assert client["cached_message_count"] > 25, "it stops pulling above the threshold, not at it"
        assert client["held_queue_count"] == len(queues) == client["locked_queue_count"]
        first = queues["TellTopic", 0]
        assert first["locked"]
        assert not first["dropped"]
        assert first["cached_min_offset"] <= first["cached_max_offset"]
        assert first["cached_message_count"] >= 1
        assert first["last_pull_at"] >= before - timedelta(seconds=1)
        assert first["last_consume_at"] >= before - timedelta(seconds=1)

        def renewed() -> bool:
            _, _, now = tell(cluster, "tell-group", client_id)
            return bool(now["TellTopic", 0]["last_lock_at"] > first["last_lock_at"])

        wait_until(renewed, "the client to renew its lock, every second", every_s=0.5)
        consumers.kill()  # it would wait ten minutes for its listener


def test_rates_are_told_of_what_is_pulled_and_of_what_fails_and_comes_back(cluster: RocketMQCluster) -> None:
    """One client is well; of the other one every message fails and comes back after 10 s, by the retry topic."""
    admin = Admin(cluster)
    for topic, queues in (("RateTopic", 4), ("FailTopic", 2)):
        admin.create_topic(topic, queues=queues)
    produce(cluster, "FailTopic", 20)
    topics = {"rate-group": "RateTopic", "fail-group": "FailTopic"}
    specs = [
        ConsumerSpec("rate-group", {"RateTopic": "*"}, threads=3),
        ConsumerSpec("fail-group", {"FailTopic": "*"}, fail_always=True),
    ]
    moving = [
        ("GROUP_GET_NUMS", "RateTopic@rate-group", 0),
        ("TOPIC_PUT_NUMS", "RateTopic", 0),
        ("BROKER_GET_NUMS", cluster.name, 0),
        ("BROKER_PUT_NUMS", cluster.name, 0),
    ]
    twice = ("SNDBCK_PUT_NUMS", "FailTopic@fail-group", 0), ("GROUP_GET_NUMS", "%RETRY%fail-group@fail-group", 0)
    with running_consumers(cluster, specs) as consumers:
        well_id, failing_id = consumers.client_ids
        consumers.wait_until_failed(40, "fail-group")
        sent = 0

        def counted() -> tuple[Row, dict[tuple[str, str, int], Row]] | None:
            nonlocal sent
            produce(cluster, "RateTopic", 40)
            sent += 40
            _, well, _ = tell(cluster, "rate-group", well_id)
            _, failing, _ = tell(cluster, "fail-group", failing_id)
            rates = rates_of(cluster, {group: [topic, f"%RETRY%{group}"] for group, topic in topics.items()})
            # each rate of a minute is made of its own samples, 10 s apart: one may be told while another is still 0
            all_told = all((well.get("consume_ok_tps"), well.get("pull_tps"), *(rates[key]["tps"] for key in moving)))
            all_failed = failing.get("consume_failed_tps") and all(rates[key]["minute_sum"] >= 20 for key in twice)
            return (well, rates) if all_told and all_failed else None

        client, rates = wait_until(counted, "the rates of clients and broker", every_s=RATES_EVERY_S)
        assert client["orderly"] is False
        assert client["thread_count"] == 3
        assert client["consume_rt_ms"] >= 0
        assert client["consume_failed_tps"] == 0
        assert 0 < rates["GROUP_GET_NUMS", "RateTopic@rate-group", 0]["minute_sum"] <= sent
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
        assert rates["TOPIC_PUT_NUMS", "%RETRY%fail-group", 0]["counted"]
        assert "%RETRY%fail-group" in admin.read(cluster.masters[0].address, GetAllTopicConfig())
        _, _, queues_of_failing = tell(cluster, "fail-group", failing_id)
        assert ("%RETRY%fail-group", 0) in queues_of_failing


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

    def caught_up() -> bool:
        rows = list(broker_rows("main", now_interval(), readings_of(cluster.brokers, {})))
        assert [row["slave_behind_bytes"] for row in rows if row["broker_id"] == 0] == [None]
        distances = [row["slave_behind_bytes"] for row in rows if row["broker_id"] == 1]
        assert None not in distances
        assert all(row["access_message_in_memory_max_ratio"] is not None for row in rows)
        assert all(row["dispatch_behind_bytes"] is not None for row in rows)
        return distances == [0]

    wait_until(caught_up, "the slave to have everything that its master has")
