"""A controller makes the slave the master: what follows is told as the switch's consequence, and what is lost is said.

The slave is halted for some seconds before the master is killed, so that it lacks messages that the master had, and a
topic that was made then; its copy of the committed offsets is some seconds old (with a controller; a minute without).
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from offsetguard.judge.rule import Finding
from offsetguard.model.verdicts import Severity
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, Producer, ProducerRefused, produce, running_consumers
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, QUICK, ORDERLY, SLOW = "switch-orders", "switch-billing", "switch-orderly", "switch-slow"
LATE, LATE_GROUP = "switch-refunds", "switch-ledger"
QUEUES = 4
BEFORE, PEACEFUL_ROUNDS, IN_A_ROUND, UNREPLICATED = 3000, 14, 100, 400
EVERY_S = 5
WRONG = {"offset_reset", "messages_lost", "queue_recreated", "offset_moved_by_retention", "offset_store_not_persisting"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RocketMQCluster]:
    with RocketMQCluster("5.3.3", slaves=1, controller=True) as started:
        yield started


def test_a_switch_of_master_explains_what_follows_it_and_hides_no_loss(cluster: RocketMQCluster) -> None:
    master, slave = cluster.brokers
    admin, look = Admin(cluster), LiveRounds(cluster)
    admin.create_topic(TOPIC, queues=QUEUES)
    told: list[Finding] = []

    def judge() -> list[Finding]:
        found = list(look.judge_now().judgement.findings)
        told.extend(found)
        time.sleep(EVERY_S)
        return found

    with ExitStack() as stack:
        _consume(stack, cluster, ConsumerSpec(QUICK, {TOPIC: "*"}), ConsumerSpec(ORDERLY, {TOPIC: "*"}, orderly=True))
        _consume(stack, cluster, ConsumerSpec(SLOW, {TOPIC: "*"}, handling_ms=200, threads=2))
        produce(cluster, TOPIC, BEFORE)
        producer = Producer(cluster)
        for _ in range(PEACEFUL_ROUNDS):  # more than the minute in which a slave copies topics, groups and offsets
            producer.answer(producer.order(TOPIC, IN_A_ROUND, rate_per_s=20))
            assert not [one for one in judge() if one.severity.is_sent]

        assert slave.pid is not None
        written = BEFORE + PEACEFUL_ROUNDS * IN_A_ROUND
        os.kill(slave.pid, signal.SIGSTOP)
        admin.create_topic(LATE, queues=QUEUES)
        produce(cluster, LATE, IN_A_ROUND)
        _consume(stack, cluster, ConsumerSpec(LATE_GROUP, {LATE: "*"}))
        producer.order(TOPIC, UNREPLICATED)
        wait_until(lambda: _end(admin, master) >= written + UNREPLICATED, "messages that only the master has")
        judge()  # sees these ends
        before = _end(admin, master)
        master.kill()
        os.kill(slave.pid, signal.SIGCONT)

        (switch,) = wait_until(lambda: _of_masters(judge()), "the switch", timeout_s=120)
        lost = before - _end(admin, slave)
        assert lost > 0
        assert switch.figures["addresses"] == slave.address
        assert switch.severity is Severity.INFO

        wait_until(lambda: _writes(producer), "the new master to take messages")
        (cut,) = wait_until(lambda: _of_group(judge(), QUICK), "what was not replicated", timeout_s=60)
        assert (cut.variant, cut.severity, cut.figures["unreplicated"]) == ("cut", Severity.WARNING, lost)
        (skipped,) = wait_until(lambda: _skipped(judge()), "what the slow group's client dropped", timeout_s=120)
        assert skipped.severity is Severity.CRITICAL
        (vanished,) = wait_until(lambda: _vanished(judge()), "the topic that the new master never had", timeout_s=60)
        assert (vanished.topic, vanished.variant, vanished.severity) == (LATE, "default", Severity.WARNING)
        master.start()
        for _ in range(4):
            judge()
    loud = {one.rule.id for one in told if one.severity.is_sent}
    assert not loud & WRONG, [one.cause for one in told if one.rule.id in WRONG]
    # the slow group falls behind by design, and says so once five minutes of it have passed
    assert loud - {"slow_consumption"} == {"master_switched", "topic_vanished"}
    assert {one.consumer_group for one in told if one.rule.id == "slow_consumption" and one.severity.is_sent} <= {SLOW}


def _consume(stack: ExitStack, cluster: RocketMQCluster, *specs: ConsumerSpec) -> None:
    stack.enter_context(running_consumers(cluster, specs))


def _end(admin: Admin, broker: Broker) -> int:
    """Return how many messages a replica has of the topic."""
    return sum(admin.max_offset(TOPIC, queue_id, broker=broker) for queue_id in range(QUEUES))


def _writes(producer: Producer) -> bool:
    """Whether messages can be written; some are."""
    try:
        return bool(producer.answer(producer.order(TOPIC, IN_A_ROUND)))
    except ProducerRefused:
        return False


def _of_masters(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.rule.id == "master_switched" and one.consumer_group is None]


def _of_group(found: list[Finding], group: str) -> list[Finding]:
    return [one for one in found if (one.rule.id, one.consumer_group) == ("master_switched", group)]


def _vanished(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.rule.id == "topic_vanished"]


def _skipped(found: list[Finding]) -> list[Finding]:
    return [one for one in _of_group(found, SLOW) if one.variant == "skipped"]
