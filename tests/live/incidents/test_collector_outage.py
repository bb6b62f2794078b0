"""A collector that was away for minutes: who stood still meanwhile is named by the 4th round, and nobody else."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from offsetguard.tables.queue_state import MISSED_AFTER
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds

pytestmark = [pytest.mark.live, pytest.mark.slow]

EVERY_S = 60.0  # as the pipeline collects
OUTAGE_S = MISSED_AFTER.total_seconds() + 60
ROUNDS_BEFORE = 3
TOPIC, HEALTHY, STOPPED, HANGING = "outage-orders", "outage-audit", "outage-export", "outage-ledger"
EACH_ROUND, BURST = 20, 12_000  # the default limit is 10,000
HOUR_MS = 3_600_000
Said = dict[str, set[str]]  # by group the rules that people would be told of


def test_who_stood_still_in_an_outage_is_named_by_the_fourth_round(
    rocketmq_4: RocketMQCluster, rocketmq_5: RocketMQCluster
) -> None:
    looks = [LiveRounds(cluster) for cluster in (rocketmq_4, rocketmq_5)]
    clusters = dict(zip(looks, (rocketmq_4, rocketmq_5), strict=True))
    before = ROUNDS_BEFORE * EACH_ROUND
    with ExitStack() as stack:
        healthy = []
        for cluster in clusters.values():
            Admin(cluster).create_topic(TOPIC, queues=4)
            healthy.append(stack.enter_context(running_consumers(cluster, [ConsumerSpec(HEALTHY, {TOPIC: "*"})])))
        with ExitStack() as until_the_outage:
            specs = [ConsumerSpec(group, {TOPIC: "*"}) for group in (STOPPED, HANGING)]
            for cluster in clusters.values():
                until_the_outage.enter_context(running_consumers(cluster, specs))
            said_before = [_round(clusters) for _ in range(ROUNDS_BEFORE)]
        for cluster, ours in zip(clusters.values(), healthy, strict=True):
            hanging = ConsumerSpec(HANGING, {TOPIC: "*"}, handling_ms=HOUR_MS)
            stack.enter_context(running_consumers(cluster, [hanging]))
            produce(cluster, TOPIC, BURST)
            ours.wait_until_consumed(before + BURST)
        time.sleep(OUTAGE_S)
        said_after = [_round(clusters) for _ in range(4)]
    assert said_before == [[{}, {}]] * ROUNDS_BEFORE
    for line in range(2):
        course = [said[line] for said in said_after]
        assert course[-1].keys() == {STOPPED, HANGING}, course
        assert not any(HEALTHY in said for said in course), course
        assert "consumer_offline" in course[-1][STOPPED], course


def _round(clusters: dict[LiveRounds, RocketMQCluster]) -> list[Said]:
    """Let a round's messages come, and look at each cluster."""
    for cluster in clusters.values():
        produce(cluster, TOPIC, EACH_ROUND)
    time.sleep(EVERY_S)
    return [_said(look) for look in clusters]


def _said(look: LiveRounds) -> Said:
    said: Said = {}
    for finding in look.judge_now().loud():
        if finding.consumer_group in (HEALTHY, STOPPED, HANGING):
            said.setdefault(finding.consumer_group, set()).add(finding.rule.id)
    return said
