"""A topic and a group that an operator deletes are told as that, by the thread of the broker's log, live."""

from collections.abc import Iterator

import pytest

from offsetguard.judge.rule import Finding, Severity
from offsetguard_peers.rocketmq.admin import Admin, mqadmin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "deleted-orders", "deleted-billing"
MESSAGES = 40


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    """One master that makes no group by itself: clients would create it again. 5.x deletes with its timers only."""
    settings = {"autoCreateSubscriptionGroup": "false", "timerWheelEnable": "true"}
    with RocketMQCluster(request.param, broker_conf=settings) as running:
        yield running


def test_what_an_operator_deletes_is_told_as_deleted_by_hand(cluster: RocketMQCluster) -> None:
    admin, look = Admin(cluster), LiveRounds(cluster)
    admin.create_topic(TOPIC, queues=2)
    admin.create_group(GROUP)
    produce(cluster, TOPIC, MESSAGES)
    with running_consumers(cluster, [ConsumerSpec(GROUP, {TOPIC: "*"})]) as consumers:
        consumers.wait_until_consumed(MESSAGES)
        wait_until(lambda: not look.judge_now().loud(), "nothing to be said", every_s=5.0)
    mqadmin(cluster, "deleteSubGroup", "-c", cluster.name, "-g", GROUP)
    mqadmin(cluster, "deleteTopic", "-c", cluster.name, "-t", TOPIC)

    def told() -> dict[str, Finding] | None:
        found = {one.rule.id: one for one in look.judge_now().judgement.findings if one.rule.id.endswith("_vanished")}
        return found if len(found) == 2 and all(one.variant == "by_hand" for one in found.values()) else None

    found = wait_until(told, "both to be told", every_s=5.0)
    assert (found["topic_vanished"].topic, found["group_vanished"].consumer_group) == (TOPIC, GROUP)
    assert {one.severity for one in found.values()} == {Severity.INFO}
    assert all(str(one.figures["thread"]).startswith("AdminBrokerThread") for one in found.values())
