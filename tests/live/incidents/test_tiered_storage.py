"""Messages that only a tiered storage has: a group reads them, and nobody calls them lost or at risk before."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetguard.sources.rocketmq.requests import GetBrokerRuntimeInfo
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.trials.judged_rounds import LiveRounds
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "tiered-orders", "tiered-late"
QUEUES, COUNT, CONSUMED, BODY_BYTES = 2, 8000, 200, 4000  # eight commit-log files of 4 MiB
TIERED = {
    "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
    "tieredBackendServiceProvider": "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
    "tieredStoreGroupCommitTimeout": "5000",  # ms; 30 s by default
    "tieredStoreGroupCommitCount": "500",
}
LOSSES = {"loss_ahead", "messages_lost"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RocketMQCluster]:
    described = RocketMQCluster("5.3.3", broker_conf=TIERED)
    broker = described.broker()
    broker.configure({"tieredStoreFilePath": str(_tier(broker))})
    with described as started:
        yield started


def test_what_only_the_tiered_storage_has_is_neither_lost_nor_about_to_be(cluster: RocketMQCluster) -> None:
    broker, admin, look = cluster.broker(), Admin(cluster), LiveRounds(cluster)
    admin.create_topic(TOPIC, queues=QUEUES)
    admin.create_group(GROUP)
    produce(cluster, TOPIC, COUNT, body_bytes=BODY_BYTES)
    for queue_id in range(QUEUES):
        admin.commit(GROUP, TOPIC, queue_id, CONSUMED // QUEUES)
    wait_until(lambda: _bytes_below(broker) >= COUNT * BODY_BYTES, "the tiered storage to have all messages")
    look.judge_now()
    admin.configure(broker, fileReservedTime=0)
    admin.delete_expired_commitlog(broker)
    wait_until(lambda: _oldest_byte(admin, broker) > 0, "the broker to delete commit-log files")

    for _ in range(3):
        time.sleep(10)  # two looks in one second tell nothing of a group that stands still
        said = look.judge_now().judgement
        assert not LOSSES & {one.rule.id for one in said.findings}
        assert {one.rule_id for one in said.cannot_tell if broker.name in one.broker_names} >= LOSSES
    with running_consumer(cluster, GROUP, TOPIC) as consumers:
        consumers.wait_until_consumed(COUNT - CONSUMED)


def _tier(broker: Broker) -> Path:
    return broker.folder / "tiered"


def _bytes_below(broker: Broker) -> int:
    return sum(file.stat().st_size for file in _tier(broker).rglob("*") if file.is_file())


def _oldest_byte(admin: Admin, broker: Broker) -> int:
    return int(admin.read(broker.address, GetBrokerRuntimeInfo()).table["commitLogMinOffset"])
