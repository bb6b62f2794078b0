"""Queues that a client holds and no longer pulls, live.

A push consumer whose threads were ended by an Error is named, and a pull consumer that has paused them; one of 4.x says
nothing of its queues: of its group no more is said than is known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from offsetguard.judge.rule import Finding, Severity
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, RunningConsumers, produce, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP, NO_MORE = "unpulled-orders", "unpulled-billing", "no-more"
QUEUES, MESSAGES = 4, 400
LEFT = (0, 1)  # the averaging allocation gives neighbours to one of two clients


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    with RocketMQCluster(request.param) as running:
        Admin(running).create_topic(TOPIC, queues=QUEUES)
        yield running


def test_a_client_that_no_longer_pulls_its_queues_is_named_until_it_is_restarted(cluster: RocketMQCluster) -> None:
    look = LiveRounds(cluster)
    with _no_longer_pulled(cluster, look, error_keys=(NO_MORE,)) as pods:
        found = _told(cluster, look, "queue_not_pulled")
        assert found.figures["queue_count"] == len(LEFT)
        (client,) = (pod for pod in pods if pod.client_ids == [found.figures["client_id"]])
        client.kill()
        wait_until(lambda: not look.judge_now().loud(), "nothing to be said any more", every_s=5.0)


def test_of_pull_consumers_no_more_is_said_than_they_say(cluster: RocketMQCluster) -> None:
    look = LiveRounds(cluster)
    with _no_longer_pulled(cluster, look, pulls=True, pause_keys=(NO_MORE,)):
        if cluster.version.startswith("4."):  # which queues they hold
            found = _told(cluster, look, "accumulation")
            assert (found.variant, found.figures["stalled_queue_count"]) == ("pulled", len(LEFT))
        else:
            assert _told(cluster, look, "queue_not_pulled").figures["queue_count"] == len(LEFT)


@contextmanager
def _no_longer_pulled(
    cluster: RocketMQCluster, look: LiveRounds, **options: Any
) -> Iterator[tuple[RunningConsumers, RunningConsumers]]:
    """Run two clients of a group of which one leaves two queues alone while messages wait there."""
    spec = ConsumerSpec(GROUP, {TOPIC: "*"}, **options)
    with running_consumers(cluster, [spec]) as one, running_consumers(cluster, [spec]) as two:

        def consumed_by_both(count: int) -> None:
            wait_until(lambda: one.consumed() + two.consumed() >= count, f"{count} messages to be consumed")

        def shared() -> bool:
            produce(cluster, TOPIC, QUEUES)
            return min(one.consumed(), two.consumed()) > 0

        wait_until(shared, "each to have queues of its own", every_s=1.0)
        time.sleep(5.0)
        count = one.consumed() + two.consumed()
        for queue_id in LEFT:
            produce(cluster, TOPIC, 1, key=NO_MORE, queue_id=queue_id)
        consumed_by_both(count + len(LEFT))
        time.sleep(5.0)  # a pull that is under way comes back, and is the last one
        assert not look.judge_now().loud()
        produce(cluster, TOPIC, MESSAGES)
        yield one, two


def _told(cluster: RocketMQCluster, look: LiveRounds, rule_id: str) -> Finding:
    """Return what is told in the end: a client's silence is noticed before its last pull is old enough."""

    def told() -> list[Finding] | None:
        produce(cluster, TOPIC, QUEUES)  # the other two go on
        loud = look.judge_now().loud()
        return loud if [one.rule.id for one in loud] == [rule_id] else None

    (found,) = wait_until(told, f"{rule_id}, and nothing else, to be told", every_s=15.0, timeout_s=420.0)
    assert found.severity is Severity.WARNING
    lag = found.figures["effective_lag"]
    assert isinstance(lag, int)
    assert lag >= MESSAGES // QUEUES * len(LEFT)
    return found
