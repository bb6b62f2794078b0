"""How many messages an ordered reset repeats is counted, though no round sees it: all are consumed again before."""

from __future__ import annotations

import time

import pytest

from offsetguard.judge.rule import Finding
from offsetguard_peers.rocketmq.admin import Admin, mqadmin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "reset-orders", "reset-billing"
BEFORE, AGAIN = 200, 600


@pytest.mark.parametrize("line", ["rocketmq_4", "rocketmq_5"])
def test_messages_that_are_consumed_again_are_counted_to_the_last_one(
    request: pytest.FixtureRequest, line: str
) -> None:
    cluster: RocketMQCluster = request.getfixturevalue(line)
    Admin(cluster).create_topic(TOPIC, queues=4)
    look = LiveRounds(cluster)
    with running_consumer(cluster, GROUP, TOPIC) as billing:
        produce(cluster, TOPIC, BEFORE)
        billing.wait_until_consumed(BEFORE)
        time.sleep(1)  # so that the moment lies between two messages, whatever the clocks' last digits are
        moment_ms = time.time_ns() // 1_000_000
        produce(cluster, TOPIC, AGAIN)
        billing.wait_until_consumed(BEFORE + AGAIN)
        wait_until(lambda: _committed(cluster) == BEFORE + AGAIN, "the commits of what was consumed")
        assert not _told(look)

        mqadmin(cluster, "resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", str(moment_ms))

        billing.wait_until_consumed(BEFORE + 2 * AGAIN)
        wait_until(lambda: _committed(cluster) == BEFORE + AGAIN, "the commits of what was consumed again")
        (reset,) = wait_until(lambda: _told(look), "a finding")
        assert (reset.figures["repeated"], reset.figures["skipped"]) == (AGAIN, 0)
        assert billing.consumed() == BEFORE + 2 * AGAIN


def _committed(cluster: RocketMQCluster) -> int:
    admin = Admin(cluster)
    return sum(admin.committed(GROUP, TOPIC, number, broker=broker) or 0 for broker, number in admin.queues(TOPIC))


def _told(look: LiveRounds) -> list[Finding]:
    return [
        one
        for one in look.judge_now().judgement.findings
        if (one.consumer_group, one.rule.id) == (GROUP, "offset_reset")
    ]
