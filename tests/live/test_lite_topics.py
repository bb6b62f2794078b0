"""Lite topics of a real 5.5.0 cluster: thousands may come, two figures stay."""

from collections.abc import Iterator
from typing import Any

import pytest

from offsetguard.collect.group_rows import lite_topics_by_group
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset
from offsetguard.tables import QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.collecting import group_row, one_round
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.grpc_clients import GrpcSpec, Proxy, running_grpc_consumers
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

BROKER_CONF = {"timerWheelEnable": "true", "enableLmq": "true", "enableMultiDispatch": "true"}
SESSIONS = [f"session-{number}" for number in range(5)]
READ = SESSIONS[:3]
IN_DETAIL: dict[str, Any] = {"collection": {"share_rounds": 1}}


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


def test_a_chat_with_many_sessions_is_one_row(cluster: RocketMQCluster) -> None:
    with Proxy(cluster) as proxy:
        reader = GrpcSpec("readers", "chat", push=True, lite_topics=READ)
        with running_grpc_consumers(cluster, proxy, [reader]) as consumers:
            consumers.send("chat", SESSIONS, 3)
            wait_until(lambda: consumers.handling("readers") >= 3 * len(READ), "the readers' messages")
            wait_until(
                lambda: len(read_sessions(cluster)) >= len(READ), lambda: f"{READ}, not {read_sessions(cluster)}"
            )
            manifest, tables = one_round(cluster, **IN_DETAIL)
        assert manifest.gaps == ()
        row = group_row(tables, "readers")
        assert (row["lite_topic_count"], row["lite_lag"]) == (len(READ), 0)
        assert (row["consumption"], row["consumption_evidence"]) == ("pop", "lite_topics")
        assert (row["online_client_count"], row["pop_available"], row["pop_inflight"]) == (None, None, None)
        assert not [queue for queue in tables[QUEUE_SNAPSHOTS.name] if queue["consumer_group"] == "readers"]
        assert {queue["topic"] for queue in tables[TOPIC_QUEUE_SNAPSHOTS.name]} >= {"chat"}
        assert not [queue for queue in tables[TOPIC_QUEUE_SNAPSHOTS.name] if queue["topic"].startswith("%LMQ%")]
        with running_grpc_consumers(cluster, proxy, []) as producers:
            producers.send("chat", SESSIONS, 2)
            row = group_row(one_round(cluster, **IN_DETAIL)[1], "readers")
            assert (row["lite_topic_count"], row["lite_lag"]) == (len(READ), 2 * len(READ))
