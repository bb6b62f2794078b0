"""A group whose client is restarted every few minutes is told once, with that client's host, live: half an hour."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from offsetguard.judge.rule import Finding, Severity
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP, HOST = "restarts-orders", "restarts-billing", "10.0.1.2"
EVERY_S, ROUNDS_UP, ROUNDS_DOWN = 30.0, 5, 1
AT_MOST_S = 2_400.0


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    with RocketMQCluster(request.param) as running:
        yield running


def test_a_client_that_is_restarted_again_and_again_is_named_within_half_an_hour(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic(TOPIC, queues=4)
    look, steady = LiveRounds(cluster), ConsumerSpec(GROUP, {TOPIC: "*"}, client_ip="10.0.1.1")
    producer_of(cluster).order(TOPIC, int(5 * AT_MOST_S), rate_per_s=5.0, never_give_up=True)
    began = time.monotonic()
    restarts, loud = 0, list[Finding]()

    def looked(rounds: int) -> list[Finding]:
        for _ in range(rounds):
            time.sleep(EVERY_S)
            if found := look.judge_now().loud():
                return found
        return []

    with running_consumers(cluster, [steady]):
        while not loud and time.monotonic() - began < AT_MOST_S:
            with running_consumers(cluster, [ConsumerSpec(GROUP, {TOPIC: "*"}, client_ip=HOST)]):
                loud = looked(ROUNDS_UP)
            restarts += 1
            loud = loud or looked(ROUNDS_DOWN)
    (found,) = loud
    assert (found.rule.id, found.consumer_group, found.severity) == ("rebalances_again", GROUP, Severity.WARNING)
    assert found.figures["host"] == HOST
    assert found.figures["host_count"] in {restarts - 1, restarts}
    assert 24 * 60 <= time.monotonic() - began <= 32 * 60
