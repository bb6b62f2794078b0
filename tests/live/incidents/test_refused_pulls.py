"""Pulls that brokers refuse because of a setting are named as that, and the printed command ends them, live."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetguard.judge.rule import Finding, Severity
from offsetguard_peers.printed_commands import run_as_printed
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

# each group has its own topic
GROWN, OFF, HIDDEN, CACHES, FORBIDDEN = "grown-billing", "off-billing", "hidden-billing", "caches", "forbidden-billing"
LOST = "lost-billing"
MESSAGES = 100


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    """Two masters that make no group by themselves."""
    with RocketMQCluster(request.param, masters=2, broker_conf={"autoCreateSubscriptionGroup": "false"}) as running:
        yield running


def test_a_group_that_may_not_pull_is_named_with_the_setting_and_goes_on_after_the_printed_command(
    cluster: RocketMQCluster, tmp_path: Path
) -> None:
    admin, look = Admin(cluster), LiveRounds(cluster)
    forbidden = [FORBIDDEN] if cluster.version.startswith("5.") else []
    groups = (GROWN, OFF, HIDDEN, CACHES, *forbidden)
    for group in groups:
        admin.create_topic(group, queues=2)
        admin.create_group(group, brokers=cluster.masters[:1] if group == GROWN else None)
    specs = [ConsumerSpec(group, {group: "*"}, broadcasting=group == CACHES) for group in groups]
    with running_consumers(cluster, specs) as consumers:

        def consumed(group: str, count: int) -> None:
            wait_until(lambda: consumers.consumed(group) >= count, f"{group} to consume {count}")

        for group in groups:
            produce(cluster, group, MESSAGES)
        for group in groups[1:]:
            consumed(group, MESSAGES)
        admin.create_group(OFF, consumeEnable=False)
        admin.create_topic(HIDDEN, queues=2, perm=2)
        admin.create_group(CACHES, consumeBroadcastEnable=False)
        _let_read(admin, forbidden, readable=False)
        wait_until(lambda: consumers.consumed(GROWN) == MESSAGES // 2, "the half of it that may be consumed")
        for group in groups:
            produce(cluster, group, MESSAGES)

        expected = {
            GROWN: ("group_not_created", "default"),
            OFF: ("consumption_switched_off", "default"),
            HIDDEN: ("consumption_switched_off", "topic"),
            CACHES: ("consumption_switched_off", "broadcast"),
            **dict.fromkeys(forbidden, ("consumption_switched_off", "forbidden")),
        }
        found: dict[str | None, Finding] = {}

        def all_named() -> bool:
            found.clear()
            found.update({one.consumer_group: one for one in look.judge_now().loud()})
            return found.keys() >= expected.keys()

        wait_until(all_named, "each of them to be named", every_s=5.0)
        assert {one: (found[one].rule.id, found[one].variant) for one in found if one is not None} == expected
        assert {one.severity for one in found.values()} == {Severity.WARNING}
        for finding in found.values():
            for command in finding.commands:
                run_as_printed(cluster, command, tmp_path)
        _let_read(admin, forbidden, readable=True)  # no command is printed for it
        for group in groups:
            consumed(group, 2 * MESSAGES)
        wait_until(lambda: not look.judge_now().loud(), "nothing to be said any more", every_s=5.0)


def test_a_group_that_no_broker_knows_is_named(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic(LOST, queues=2)
    produce(cluster, LOST, MESSAGES)
    with running_consumers(cluster, [ConsumerSpec(LOST, {LOST: "*"})]) as consumers:
        look = LiveRounds(cluster, consumers.log_file)

        def named() -> list[Finding] | None:
            return [one for one in look.judge_now().loud() if one.consumer_group == LOST] or None

        (found,) = wait_until(named, "it to be named", every_s=10.0, timeout_s=600.0)
        # 4.x keeps what its clients commit; 5.x passes over their heartbeats, so that they take no queue
        variant = "default" if cluster.version.startswith("4.") else "unlisted"
        assert (found.rule.id, found.variant, found.severity) == ("group_not_created", variant, Severity.WARNING)


def _let_read(admin: Admin, groups: list[str], *, readable: bool) -> None:
    for group in groups:
        admin.let_read(group, group, readable=readable)
