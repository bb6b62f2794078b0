"""A remoting POP group on 5.3.3, the line before lite topics: recognised, and counted, as on 5.5.0."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS
from offsetguard_peers.collecting import collect_snapshot
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

GROUP, TOPIC, COUNT = "task-workers", "tasks", 40
HANGS_MS = 3_600_000  # longer than the test


@pytest.fixture
def cluster() -> Iterator[RocketMQCluster]:
    with RocketMQCluster("5.3.3", broker_conf={"timerWheelEnable": "true"}) as running:
        admin = Admin(running)
        admin.create_topic(TOPIC, queues=4)
        admin.create_group(GROUP)
        admin.consume_by_pop(GROUP, TOPIC)
        produce(running, TOPIC, COUNT)
        yield running


def test_all_messages_hang_in_its_hands(cluster: RocketMQCluster) -> None:
    with running_consumer(cluster, GROUP, TOPIC, client_rebalance=False, handling_ms=HANGS_MS, threads=4) as consumer:
        wait_until(lambda: handed_out(cluster) >= COUNT, lambda: f"{COUNT} handed out, not {handed_out(cluster)}")
        row = row_of(cluster, consumer.client_ids[0])
    assert (row["consumption"], row["consumption_evidence"]) == ("pop", "pop_table")
    assert (row["pop_available"], row["pop_inflight"], row["pop_inflight_origin"]) == (0, COUNT, "running_info")
    assert row["online_client_count"] == 1


def handed_out(cluster: RocketMQCluster) -> int:
    offsets = Admin(cluster).read(cluster.masters[0].address, GetAllConsumerOffset()).offsets
    return sum(offsets.get((TOPIC, GROUP), {}).values())


def row_of(cluster: RocketMQCluster, client_id: str) -> dict[str, Any]:
    """Take a round in which the client had the time to give its running info, which no round waits for."""
    settings = {
        "name_servers": [cluster.namesrv],
        "request_timeout_ms": 20_000,
        "collection": {"share_rounds": 1},
    }
    operators = {"teams": {"operators": {"mail": ["operators@example.com"]}}, "default_team": "operators"}
    config = Config.model_validate({"clusters": {"main": settings}, **operators})
    for _ in range(20):
        now = datetime.now(UTC)
        _, tables = asyncio.run(collect_snapshot("main", config, Interval.containing(now), started_at=now))
        clients = {row["client_id"]: row for row in tables[CLIENT_SNAPSHOTS.name].to_pylist()}
        if clients[client_id]["running_info_read_at"] is not None:
            rows = {row["consumer_group"]: row for row in tables[GROUP_SNAPSHOTS.name].to_pylist()}
            found: dict[str, Any] = rows[GROUP]
            return found
    pytest.fail(f"no running info in 20 rounds: {clients[client_id]['running_info_failure']}")
