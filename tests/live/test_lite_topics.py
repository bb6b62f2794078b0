"""Lite topics of a real 5.5.0 cluster: thousands may come, two figures stay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from offsetguard.collect.group_rows import lite_topics_by_group
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset
from offsetguard.tables import GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.collecting import collect_snapshot
from offsetguard_peers.configs import one_team
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.grpc_clients import GrpcConsumers, GrpcSpec, Proxy, running_grpc_consumers
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

BROKER_CONF = {"timerWheelEnable": "true", "enableLmq": "true", "enableMultiDispatch": "true"}
SESSIONS = [f"session-{number}" for number in range(5)]
READ = SESSIONS[:3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RocketMQCluster]:
    with RocketMQCluster("5.5.0", broker_conf=BROKER_CONF) as running:
        admin = Admin(running)
        admin.create_topic("chat", queues=2, message_type="LITE")
        admin.create_group("readers", attributes={"+lite.bind.topic": "chat"})
        yield running


def read_sessions(cluster: RocketMQCluster) -> set[str]:
    committed = Admin(cluster).read(cluster.masters[0].address, GetAllConsumerOffset())
    return lite_topics_by_group(committed.offsets).get("readers", set())


def wait_for(consumers: GrpcConsumers, count: int) -> None:
    handled = partial(consumers.handling, "readers")
    wait_until(lambda: handled() >= count, lambda: f"{count} messages, not {handled()}")


def test_a_chat_with_many_sessions_is_one_row(cluster: RocketMQCluster) -> None:
    with Proxy(cluster) as proxy:
        reader = GrpcSpec("readers", "chat", push=True, lite_topics=READ)
        with running_grpc_consumers(cluster, proxy, [reader]) as consumers:
            consumers.send("chat", SESSIONS, 3)
            wait_for(consumers, 3 * len(READ))
            wait_until(
                lambda: len(read_sessions(cluster)) >= len(READ), lambda: f"{READ}, not {read_sessions(cluster)}"
            )
            tables = collect(cluster)
        row = next(row for row in tables[GROUP_SNAPSHOTS.name] if row["consumer_group"] == "readers")
        assert (row["lite_topic_count"], row["lite_lag"]) == (len(READ), 0)
        assert (row["consumption"], row["consumption_evidence"]) == ("pop", "lite_topics")
        assert (row["online_client_count"], row["pop_available"], row["pop_inflight"]) == (None, None, None)
        assert not [queue for queue in tables[QUEUE_SNAPSHOTS.name] if queue["consumer_group"] == "readers"]
        assert {queue["topic"] for queue in tables[TOPIC_QUEUE_SNAPSHOTS.name]} >= {"chat"}
        assert not [queue for queue in tables[TOPIC_QUEUE_SNAPSHOTS.name] if queue["topic"].startswith("%LMQ%")]
        with running_grpc_consumers(cluster, proxy, []) as producers:
            producers.send("chat", SESSIONS, 2)
            row = next(row for row in collect(cluster)[GROUP_SNAPSHOTS.name] if row["consumer_group"] == "readers")
            assert (row["lite_topic_count"], row["lite_lag"]) == (len(READ), 2 * len(READ))


def collect(cluster: RocketMQCluster) -> dict[str, list[dict[str, Any]]]:
    now = datetime.now(UTC)
    settings = {
        "name_servers": [cluster.namesrv],
        "request_timeout_ms": 20_000,
        "collection": {"share_rounds": 1},
    }
    config = one_team({"main": settings})
    manifest, tables = asyncio.run(collect_snapshot("main", config, Interval.containing(now), started_at=now))
    assert manifest.gaps == ()
    return {name: table.to_pylist() for name, table in tables.items()}
