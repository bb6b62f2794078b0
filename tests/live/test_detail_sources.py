"""Running info of real Java clients, rates of real replicas and the smaller requests, on both lines."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import pytest

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer
from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.broker_stats import items_for, items_of_replica, read_broker_stats
from offsetguard.collect.collector import collect_snapshot
from offsetguard.collect.detail_rows import broker_stats_rows, client_queue_rows, running_info_columns
from offsetguard.collect.replica import Replica, ReplicaLink
from offsetguard.collect.request_ledger import RequestLedger
from offsetguard.collect.running_info import read_running_info
from offsetguard.config import Config
from offsetguard.errors import BrokerRefused
from offsetguard.intervals import Interval
from offsetguard.rate_facts import group_rates
from offsetguard.rocketmq.client import RocketMQClient
from offsetguard.rocketmq.refusals import NotThere
from offsetguard.rocketmq.requests import (
    GetAllDelayOffset,
    GetAllTopicConfig,
    GetAllTopicListFromNameServer,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetConsumerRunningInfo,
    GetSystemTopicListFromBroker,
    QueryTopicConsumeByWho,
    ViewBrokerStatsData,
)
from offsetguard.tables import (
    BROKER_STATS,
    CLIENT_QUEUE_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
)
from offsetguard_peers.admin import Admin
from offsetguard_peers.clients import ConsumerSpec, produce, running_consumer, running_consumers
from offsetguard_peers.snapshot_rows import as_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from offsetguard.collect.landing import Row
    from offsetguard_peers.broker import Broker
    from offsetguard_peers.rocketmq import RocketMQCluster

    OnBothLines = Callable[[Callable[[RocketMQCluster], None]], None]

pytestmark = pytest.mark.live

PATIENCE_S = 480.0  # nothing here needs a tenth of it, except that slaves of 5.x learn of topics once in a minute
SLAVE_TOPIC = "SlaveTopic"
Found = TypeVar("Found")


@pytest.fixture(params=["rocketmq_4", "rocketmq_5"])
def cluster(request: pytest.FixtureRequest) -> RocketMQCluster:
    shared: RocketMQCluster = request.getfixturevalue(request.param)
    return shared


@pytest.fixture
def on_both_lines(rocketmq_4: RocketMQCluster, rocketmq_5: RocketMQCluster) -> OnBothLines:
    """Run something on both clusters at once, since it mostly waits; raises the first error."""

    def run(see: Callable[[RocketMQCluster], None]) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(see, (rocketmq_4, rocketmq_5)))

    return run


@pytest.fixture(scope="module", autouse=True)
def _slaves_learn_of_their_topic_meanwhile(rocketmq_4: RocketMQCluster, rocketmq_5: RocketMQCluster) -> None:
    """Create it now: 5.x slaves ask for topics once in a minute."""
    for cluster in (rocketmq_4, rocketmq_5):
        Admin(cluster).create_topic(SLAVE_TOPIC, queues=2)


def wait_for(look: Callable[[], Found | None], what: str) -> Found:
    """Look until something is found."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"not seen within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.5)
    return found


def readings_of(
    brokers: Sequence[Broker],
    groups: Mapping[str, Sequence[str]],
    *,
    clients: Sequence[tuple[str, str]] = (),
) -> list[BrokerReading]:
    """Ask replicas as a round does: figures, settings, rates of `groups`; masters also for running info."""

    async def read(client: RocketMQClient, broker: Broker) -> BrokerReading:
        reading = BrokerReading(Replica(broker.name, broker.broker_id, broker.address))
        ledger = RequestLedger()
        link = ReplicaLink(client, reading.replica, ledger, "")
        runtime, settings = await link.ask(GetBrokerRuntimeInfo()), await link.ask(GetBrokerConfig())
        assert runtime is not None
        assert settings is not None
        reading.runtime, reading.settings = runtime.body, settings.body
        items = items_of_replica(reading) + items_for(groups, reading, lambda _: range(4))
        await read_broker_stats(link, reading, items)
        if reading.replica.is_master:
            await read_running_info(link, reading, clients)
        assert ledger.gaps == []
        reading.answered_at = link.answered_at
        return reading

    async def run() -> list[BrokerReading]:
        async with RocketMQClient(timeout_ms=30_000) as client:
            return list(await asyncio.gather(*(read(client, broker) for broker in brokers)))

    return asyncio.run(run())


def now_interval() -> Interval:
    return Interval.containing(datetime.now(UTC))


def rates_of(cluster: RocketMQCluster, groups: Mapping[str, Sequence[str]]) -> dict[tuple[str, str, int], Row]:
    """Return (stats name, key, broker id) -> row, of all replicas."""
    rows = broker_stats_rows("main", now_interval(), readings_of(cluster.brokers, groups))
    return {(row["stats_name"], row["stats_key"], row["broker_id"]): row for row in rows}


def tell(cluster: RocketMQCluster, group: str, client_id: str) -> tuple[ClientAnswer, Row, dict[tuple[str, int], Row]]:
    """Ask one client: its answer, its columns, and the rows of its queues by (topic, queue id)."""
    reading = readings_of(cluster.masters[:1], {}, clients=[(group, client_id)])[0]
    answer = reading.running_info[group, client_id]
    rows = client_queue_rows("main", now_interval(), [reading])
    return answer, running_info_columns(answer), {(row["topic"], row["queue_id"]): row for row in rows}


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

        client, queues = wait_for(holding, "both queues in the listener's hands")
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
        assert first["cached_message_count"] + 0 >= 1
        assert first["last_pull_at"] >= before - timedelta(seconds=1)
        assert first["last_consume_at"] >= before - timedelta(seconds=1)

        def renewed() -> bool | None:
            _, _, now = tell(cluster, "tell-group", client_id)
            return now["TellTopic", 0]["last_lock_at"] > first["last_lock_at"] or None

        assert wait_for(renewed, "the client renews its lock every second")
        consumers.kill()  # it would wait ten minutes for its listener


def test_a_round_lands_what_clients_and_replicas_say_of_a_group_in_trouble(cluster: RocketMQCluster) -> None:
    """The same figures by the whole way: the group is suspect, so its clients and its rates are asked."""
    Admin(cluster).create_topic("LandTopic", queues=2)
    produce(cluster, "LandTopic", 10)
    with running_consumer(cluster, "land-group", "LandTopic", orderly=True, handling_ms=600_000) as consumers:
        client_id = consumers.client_ids[0]

        def holding() -> bool | None:
            _, _, queues = tell(cluster, "land-group", client_id)
            return len([queue for queue in queues.values() if queue["cached_message_count"]]) == 2 or None

        assert wait_for(holding, "both queues are held")
        config = Config.from_values(
            {
                "clusters": {"main": {"name_servers": [cluster.namesrv], "request_timeout_ms": 20_000}},
                "teams": {"operators": {"mail": ["operators@example.com"]}},
                "default_team": "operators",
            }
        )

        def told() -> dict[str, list[Row]] | None:
            now = datetime.now(UTC)
            manifest, tables = asyncio.run(collect_snapshot("main", config, Interval.containing(now), started_at=now))
            assert manifest.gaps == ()
            rows = as_rows(tables)
            clients = [row for row in rows[CLIENT_SNAPSHOTS.name] if row["client_id"] == client_id]
            # a round waits a second for clients: a busy machine may need more than one
            return rows if all(row["running_info_read_at"] is not None for row in clients) else None

        rows = wait_for(told, "a round in which the client answers in time")
        consumers.kill()
    (group,) = [row for row in rows[GROUP_SNAPSHOTS.name] if row["consumer_group"] == "land-group"]
    assert group["in_detail"]
    assert group["suspect_reason"] is not None
    clients = [row for row in rows[CLIENT_SNAPSHOTS.name] if row["client_id"] == client_id]
    assert {row["broker_id"] for row in clients} >= {0}
    assert all(row["orderly"] for row in clients)
    queues = [row for row in rows[CLIENT_QUEUE_SNAPSHOTS.name] if row["client_id"] == client_id]
    assert {row["queue_id"] for row in queues if row["topic"] == "LandTopic" and row["locked"]} == {0, 1}
    stats = {
        (row["stats_name"], row["broker_id"]): row["counted"]
        for row in rows[BROKER_STATS.name]
        if row["stats_key"] in ("LandTopic@land-group", "LandTopic", cluster.name)
    }
    assert stats["GROUP_GET_NUMS", 0], "it has pulled, though it has committed nothing"
    assert stats["GROUP_GET_NUMS", 1] is False, "asked of the slave, too, which served nothing"
    assert stats["TOPIC_PUT_NUMS", 0]
    assert stats["BROKER_PUT_NUMS", 0]
    assert ("BROKER_GET_NUMS", 1) in stats


def test_a_concurrent_client_is_not_orderly_and_says_its_rates(on_both_lines: OnBothLines) -> None:
    on_both_lines(_see_the_rates_of_a_concurrent_client)


def _see_the_rates_of_a_concurrent_client(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("RateTopic", queues=4)
    with running_consumer(cluster, "rate-group", "RateTopic", threads=3) as consumers:
        client_id = consumers.client_ids[0]
        sent = 0

        def counted() -> tuple[Row, dict[tuple[str, str, int], Row]] | None:
            nonlocal sent
            produce(cluster, "RateTopic", 40)
            sent += 40
            _, client, _ = tell(cluster, "rate-group", client_id)
            rates = rates_of(cluster, {"rate-group": ["RateTopic", "%RETRY%rate-group"]})
            found = rates["GROUP_GET_NUMS", "RateTopic@rate-group", 0]
            written = rates["TOPIC_PUT_NUMS", "RateTopic", 0]
            # the rates of the minute are made of samples 10 s apart
            return (client, rates) if client["consume_ok_tps"] and found["tps"] and written["tps"] else None

        client, rates = wait_for(counted, "the rates of the client and of the broker")
        assert client["orderly"] is False
        assert client["thread_count"] == 3
        assert client["pull_tps"] > 0
        assert client["consume_rt_ms"] >= 0
        assert client["consume_failed_tps"] == 0
        found = rates["GROUP_GET_NUMS", "RateTopic@rate-group", 0]
        assert 0 < found["minute_sum"] <= sent
        assert rates["TOPIC_PUT_NUMS", "RateTopic", 0]["minute_sum"] <= sent
        assert rates["BROKER_PUT_NUMS", cluster.name, 0]["tps"] > 0
        assert rates["BROKER_GET_NUMS", cluster.name, 0]["tps"] > 0
        assert not rates["GROUP_GET_NUMS", "%RETRY%rate-group@rate-group", 0]["counted"]
        assert not rates["SNDBCK_PUT_NUMS", "RateTopic@rate-group", 0]["counted"], "nothing failed"
        assert not rates["GROUP_GET_NUMS", "RateTopic@rate-group", 1]["counted"], "the slave served nothing"
        latencies = {key for (name, key, broker_id) in rates if name == "GROUP_GET_LATENCY" and broker_id == 0}
        assert {f"{queue_id}@RateTopic@rate-group" for queue_id in range(4)} <= latencies
        assert rates["GROUP_GET_LATENCY", "0@RateTopic@rate-group", 0]["counted"]
        if cluster.version.startswith("5."):
            assert not rates["GROUP_CK_NUMS", "RateTopic@rate-group", 0]["counted"], "no client pops"
            assert not rates["GROUP_ACK_NUMS", "RateTopic@rate-group", 0]["counted"]


def test_messages_that_fail_are_counted_and_come_back_by_the_retry_topic(on_both_lines: OnBothLines) -> None:
    on_both_lines(_see_messages_that_fail)


def _see_messages_that_fail(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    master = cluster.masters[0].address
    admin.create_topic("FailTopic", queues=2)
    produce(cluster, "FailTopic", 20)
    groups = {"fail-group": ["FailTopic", "%RETRY%fail-group"]}
    with running_consumer(cluster, "fail-group", "FailTopic", fail_always=True) as consumers:
        consumers.wait_until_failed(40, timeout_s=PATIENCE_S)  # each of them again after 10 s: the retry topic was read

        def counted() -> dict[tuple[str, str, int], Row] | None:
            rates = rates_of(cluster, groups)
            sent_back = rates["SNDBCK_PUT_NUMS", "FailTopic@fail-group", 0]
            retried = rates["GROUP_GET_NUMS", "%RETRY%fail-group@fail-group", 0]
            return rates if sent_back["minute_sum"] >= 20 and retried["minute_sum"] >= 20 else None

        rates = wait_for(counted, "20 messages sent back and pulled again")
        assert "%RETRY%fail-group" in admin.read(master, GetAllTopicConfig()).topics
        assert rates["TOPIC_PUT_NUMS", "%RETRY%fail-group", 0]["counted"]
        _, client, queues = tell(cluster, "fail-group", consumers.client_ids[0])
        assert ("%RETRY%fail-group", 0) in queues
        assert client["consume_failed_tps"] > 0
        # level 3 of messageDelayLevel is 10 s: the first retry
        assert wait_for(lambda: admin.read(master, GetAllDelayOffset()).offsets.get(3), "a delivered delayed message")


def test_the_smaller_requests_say_who_is_there(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    master = cluster.masters[0].address
    admin.create_topic("NameTopic", queues=2)
    produce(cluster, "NameTopic", 8)
    with running_consumer(cluster, "name-group", "NameTopic") as consumers:
        consumers.wait_until_consumed(8)
        assert admin.read(master, GetConsumerListByGroup("name-group")).client_ids == tuple(consumers.client_ids)
        assert "name-group" in admin.read(master, QueryTopicConsumeByWho("NameTopic")).groups
        connections = admin.read(master, GetConsumerConnectionList("name-group")).connections
        assert [one.client_id for one in connections] == consumers.client_ids
    assert "NameTopic" in admin.read(cluster.namesrv, GetAllTopicListFromNameServer()).topics
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


def test_a_group_that_reads_from_the_slave_is_seen_there_and_not_on_the_master(on_both_lines: OnBothLines) -> None:
    """Incident I1. Rates of a minute, so the master's needs one to fall to 0."""
    on_both_lines(_see_reads_from_the_slave)


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
            pair, name = ("slave-group", SLAVE_TOPIC), cluster.masters[0].name
            rate = group_rates(rows, {name: 1}, {pair: [name]})[pair]
            assert rate.unseen_rate_count == 0
            assert rate.get_tps == (rate.master_get_tps or 0) + (rate.slave_get_tps or 0)
            return rate.reads_moved_to_slave or None

        assert wait_for(served_by_slave, "a rate on the slave and none on the master")
        assert 0 < consumers.consumed() < 40_000, "it works all the time, and it is not done"
