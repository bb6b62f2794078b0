"""Whom brokers list: instances that share a client id, and clients that run and are not listed at all, live."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread

import pytest

from offsetguard.judge.rule import Finding
from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.requests import PullMessage
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, producer_of, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

SHARED, UNKNOWN = "shared-billing", "unknown-billing"  # each group has its own topic
WITHIN_S = 600.0


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    """One master."""
    with RocketMQCluster(request.param) as running:
        yield running


def test_instances_that_share_an_id_are_named_and_so_are_clients_that_no_broker_lists(cluster: RocketMQCluster) -> None:
    admin, look = Admin(cluster), LiveRounds(cluster)
    for group in (SHARED, UNKNOWN):
        admin.create_topic(group, queues=6)
        admin.create_group(group)
        produce(cluster, group, 60)
    producer_of(cluster)
    with ExitStack() as running:
        for instance in ("one", "two", "two"):  # of three shares the third is nobody's
            running.enter_context(running_consumer(cluster, SHARED, SHARED, instance_name=instance))
        running.enter_context(_pulling_without_heartbeats(cluster, UNKNOWN))

        def found() -> dict[str | None, Finding] | None:
            for group in (SHARED, UNKNOWN):
                produce(cluster, group, 6)
            loud = {one.consumer_group: one for one in look.judge_now().loud()}
            named = {group: one.rule.id for group, one in loud.items()}
            wanted = {SHARED: "client_id_shared", UNKNOWN: "heartbeats_missing"}
            return loud if named.items() >= wanted.items() else None

        loud = wait_until(found, "both to be named", timeout_s=WITHIN_S, every_s=10.0)
        assert loud.keys() == {SHARED, UNKNOWN}
        assert {one.message_queue.queue_id for one in loud[SHARED].queues} == {4, 5}


@contextmanager
def _pulling_without_heartbeats(cluster: RocketMQCluster, group: str) -> Iterator[None]:
    """Pull as a client of the group that no broker has heard of: its subscription is not in the request."""
    admin, over = Admin(cluster), Event()

    def pull() -> None:
        while not over.wait(2.0):
            with suppress(BrokerRefused):
                admin.read(cluster.masters[0].address, PullMessage(group, 0, 0, consumer_group=group, sys_flag=0))

    thread = Thread(target=pull)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
