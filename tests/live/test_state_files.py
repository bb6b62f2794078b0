"""The files that a killed broker leaves tell what it told while it lived: offsets, and the ends of every queue."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from offsetguard.model.errors import NotRecorded
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset, GetAllTopicConfig, GetTopicStatsInfo
from offsetguard.sources.state_files.folder import read_state_folder
from offsetguard.sources.state_files.transport import StateFolderTransport
from offsetguard_peers.rocketmq.admin import Admin, mqadmin_command, mqadmin_environment
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.rocketmq.staging import commit_beyond_end, stage_overtaken_by_retention
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

Ends = dict[str, dict[int, tuple[int, int]]]  # topic -> queue id -> (min, max)


def live_ends(admin: Admin, broker: Broker) -> Ends:
    ends: Ends = {}
    for topic in admin.read(broker.address, GetAllTopicConfig()).topics:
        stats = admin.read(broker.address, GetTopicStatsInfo(topic))
        ends[topic] = {
            queue.queue_id: (offsets.min_offset, offsets.max_offset) for queue, offsets in stats.queues.items()
        }
    return ends


async def ends_in_files(transport: StateFolderTransport, address: str) -> Ends:
    ends: Ends = {}
    for topic in (await transport.call(address, GetAllTopicConfig())).topics:
        stats = await transport.call(address, GetTopicStatsInfo(topic))
        ends[topic] = {
            queue.queue_id: (offsets.min_offset, offsets.max_offset) for queue, offsets in stats.queues.items()
        }
    return ends


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_files_of_a_killed_broker_say_what_it_said(version: str, tmp_path: Path) -> None:
    with RocketMQCluster(version) as cluster:
        admin, broker = Admin(cluster), cluster.broker()
        stage_overtaken_by_retention(cluster, "overtaken", "Trimmed", queues=2)
        admin.create_topic("Some", queues=3)
        produce(cluster, "Some", 50, queue_id=1)
        admin.create_topic("Never", queues=2)
        commit_beyond_end(cluster, "reader", "Some", by=0)
        said = live_ends(admin, broker)
        offsets = admin.read(broker.address, GetAllConsumerOffset()).offsets
        wait_until_saved(broker, {key: dict(queues) for key, queues in offsets.items()})
        broker.kill()

        (files,) = read_state_folder(broker.store)
        assert (files.broker_name, files.broker_id, files.own_cluster) == ("broker-a", 0, "DefaultCluster")
        transport, address = StateFolderTransport("main", [files]), str(files.config)
        saved = asyncio.run(transport.call(address, GetAllConsumerOffset())).offsets
        assert {key: dict(queues) for key, queues in saved.items()} == {
            key: dict(queues) for key, queues in offsets.items()
        }
        found = asyncio.run(ends_in_files(transport, address))
        for topic, queues in said.items():
            assert {queue_id: found[topic][queue_id] for queue_id in queues} == queues, topic
        assert said["Trimmed"][0][0] > 0
        assert said["Some"][1] == (0, 50)

        command = [sys.executable, "-m", "offsetguard.cli.main", "collect", "--state-dir", str(broker.store)]
        result = subprocess.run(
            [*command, "--cluster", "main", "--out", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert result.returncode == 1, result.stderr  # who is connected is in no file
        folder = json.loads(result.stdout)["folder"]
        rows = pq.read_table(f"{folder}/queue_snapshots.parquet").to_pylist()
        (row,) = (
            row for row in rows if (row["consumer_group"], row["topic"], row["queue_id"]) == ("reader", "Some", 1)
        )
        assert (row["min_offset"], row["consumer_offset"], row["max_offset"]) == (0, 50, 50)
        assert row["pull_offset"] is None
        assert {row["origin"] for row in rows} == {"state_file"}


def test_a_broker_on_rocksdb_is_read_after_the_export_that_is_advised(tmp_path: Path) -> None:
    with RocketMQCluster("5.5.0", broker_conf={"storeType": "defaultRocksDB"}) as cluster:
        admin, broker = Admin(cluster), cluster.broker()
        admin.create_topic("Some", queues=2)
        produce(cluster, "Some", 10, queue_id=0)
        commit_beyond_end(cluster, "reader", "Some", by=0)
        broker.stop()
        (files,) = read_state_folder(broker.store)
        assert set(files.missing) == {"consumerOffset.json", "topics.json", "subscriptionGroup.json"}
        copy = shutil.copytree(broker.store / "config", tmp_path / "COPY" / "config")
        for reason in files.missing.values():
            advised = re.search(r"mqadmin (rocksDBConfigToJson [^`]*)`", reason)
            assert advised is not None
            arguments = advised[1].replace("COPY", str(copy)).split()
            command = [
                part for part in mqadmin_command(cluster, *arguments) if part not in ("-n", cluster.namesrv_list)
            ]
            exported = subprocess.run(command, env=mqadmin_environment(cluster), capture_output=True, check=False)
            assert exported.returncode == 0, exported.stdout
        (files,) = read_state_folder(copy)
        assert (files.broker_name, files.missing, files.notes) == ("broker-a", {}, [])
        transport = StateFolderTransport("main", [files])
        saved = asyncio.run(transport.call(str(files.config), GetAllConsumerOffset())).offsets
        assert dict(saved["Some", "reader"]) == {0: 10, 1: 0}
        (files,) = read_state_folder(broker.store)
        ends = asyncio.run(StateFolderTransport("main", [files]).outcome(str(files.config), GetTopicStatsInfo("Some")))
        assert isinstance(ends, NotRecorded)


def wait_until_saved(broker: Broker, offsets: dict[tuple[str, str], dict[int, int]]) -> None:
    def saved() -> dict[tuple[str, str], dict[int, int]]:
        folder = read_state_folder(broker.store)
        if "consumerOffset.json" not in folder[0].files:
            return {}
        transport = StateFolderTransport("main", folder)
        found = asyncio.run(transport.call(str(broker.store / "config"), GetAllConsumerOffset())).offsets
        return {key: dict(queues) for key, queues in found.items()}

    wait_until(lambda: saved() == offsets, lambda: f"{offsets} in {broker.store}, not {saved()}")
