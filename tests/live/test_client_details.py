"""What real Java clients say of themselves, asked one by one and by a whole round, on both lines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from offsetguard.collect.landing import Row
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_STATS, CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS
from offsetguard_peers.collecting import as_rows, collect_snapshot, tell, wait_for
from offsetguard_peers.configs import one_team
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumer, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(params=["rocketmq_4", "rocketmq_5"])
def cluster(request: pytest.FixtureRequest) -> RocketMQCluster:
    shared: RocketMQCluster = request.getfixturevalue(request.param)
    return shared


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
        config = one_team({"main": {"name_servers": [cluster.namesrv], "request_timeout_ms": 20_000}})

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
