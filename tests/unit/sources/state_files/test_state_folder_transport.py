"""State files answer what they hold, with the time at which they were written, and nothing else."""

import asyncio
import os
import shutil
import struct
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard.model.errors import NotRecorded
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetAllTopicConfig,
    GetBrokerClusterInfo,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetTopicStatsInfo,
)
from offsetguard.sources.state_files.folder import CONSUMER_OFFSETS, read_state_folder
from offsetguard.sources.state_files.transport import UNIT_BYTES, StateFolderTransport

STATE = Path(__file__).parents[3] / "data" / "state_files" / "4.9.8"
WRITTEN = datetime(2026, 11, 21, 7, 54, 44, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(STATE, tmp_path / "state")
    for file in tmp_path.glob(f"state/*/{CONSUMER_OFFSETS}"):
        os.utime(file, (WRITTEN.timestamp(), WRITTEN.timestamp()))
    return tmp_path / "state"


@pytest.fixture
def transport(folder: Path) -> StateFolderTransport:
    return StateFolderTransport("pay", read_state_folder(folder))


def test_the_name_server_lists_one_broker_for_each_folder(transport: StateFolderTransport) -> None:
    info = asyncio.run(transport.call("anything:9876", GetBrokerClusterInfo()))
    listed = {(one.broker_name, broker_id) for one in info.brokers for broker_id in one.addresses}
    assert listed == {("broker-a", 0), ("broker-a", 1), ("broker-b", 0)}
    assert info.broker_names_by_cluster.keys() == {"pay", "DefaultCluster"}


def test_offsets_topics_and_groups_come_from_the_files_with_their_time(transport, folder):
    address = str(folder / "broker-b-0")
    requests = [GetAllTopicConfig(), GetAllSubscriptionGroupConfig(), GetAllConsumerOffset()]
    topics, groups, offsets = asyncio.run(transport.call_many(address, requests))
    assert transport.now(address) == WRITTEN
    assert "OrderPay" in topics
    assert "G_ORDER_PAY" in groups
    assert offsets.offsets["OrderPay", "G_ORDER_PAY"] == {0: 272, 1: 272, 2: 272, 3: 271}


def test_the_ends_of_queues_come_from_the_store_around_the_files(folder: Path) -> None:
    broker = folder / "broker-b-0"
    config = broker / "store" / "config"
    config.mkdir(parents=True)
    for file in broker.glob("*.json*"):
        file.rename(config / file.name)
    queue, commit_log = broker / "store" / "consumequeue" / "OrderPay" / "2", broker / "store" / "commitlog"
    queue.mkdir(parents=True)
    commit_log.mkdir()
    (commit_log / f"{0:020}").write_bytes(b"")
    units = [struct.pack(">qiq", 100 * number, 100, 0) for number in range(271)]
    (queue / f"{140 * UNIT_BYTES:020}").write_bytes(b"".join(units[140:]).ljust(300 * UNIT_BYTES, b"\0"))
    transport = StateFolderTransport("pay", read_state_folder(folder))
    ends = asyncio.run(transport.call(str(config), GetTopicStatsInfo("OrderPay")))
    found = dict(zip(ends.queue_ids, zip(ends.min_offsets, ends.max_offsets, strict=True), strict=True))
    assert found == {0: (0, 0), 1: (0, 0), 2: (140, 271), 3: (0, 0)}, "a queue without files never held a message"


@pytest.mark.parametrize(
    "request_", [GetBrokerRuntimeInfo(), GetConsumerConnectionList("G_ORDER_PAY"), GetTopicStatsInfo("OrderPay")]
)
def test_what_no_file_holds_is_not_made_up(transport: StateFolderTransport, folder: Path, request_: object) -> None:
    with pytest.raises(NotRecorded, match=r"state files do not hold it|the store .* is not there"):
        asyncio.run(transport.call(str(folder / "broker-b-0"), request_))  # type: ignore[arg-type]
