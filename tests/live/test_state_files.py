"""The files that a killed broker leaves tell what it told while it lived: offsets, and the ends of every queue."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from offsetguard.model.errors import NotRecorded
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset, GetAllTopicConfig, GetTopicStatsInfo, Request
from offsetguard.sources.state_files.folder import read_state_folder
from offsetguard.sources.state_files.transport import StateFolderTransport
from offsetguard_peers.processes import run_command
from offsetguard_peers.rocketmq.admin import Admin, mqadmin_command, mqadmin_environment
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.rocketmq.requests import AnswerT
from offsetguard_peers.rocketmq.staging import commit_beyond_end, stage_overtaken_by_retention
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

Ends = dict[str, dict[int, tuple[int, int]]]  # topic -> queue id -> (min, max)


class Files:
    """The state files of a folder, which answer as its broker did."""

    def __init__(self, folder: Path) -> None:
        (self.found,) = read_state_folder(folder)

    def read(self, request: Request[AnswerT]) -> AnswerT:
        transport = StateFolderTransport("main", [self.found])
        return asyncio.run(transport.call(str(self.found.config), request))


def ends_of(read: Callable[[Request[Any]], Any]) -> Ends:
    return {
        topic: {
            queue.queue_id: (offsets.min_offset, offsets.max_offset)
            for queue, offsets in read(GetTopicStatsInfo(topic)).queues.items()
        }
        for topic in read(GetAllTopicConfig())
    }


def offsets_of(read: Callable[[Request[Any]], Any]) -> dict[tuple[str, str], dict[int, int]]:
    return {key: dict(queues) for key, queues in read(GetAllConsumerOffset()).offsets.items()}


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_the_files_of_a_killed_broker_say_what_it_said(version: str, tmp_path: Path) -> None:
    with RocketMQCluster(version) as cluster:
        admin, broker = Admin(cluster), cluster.broker()
        stage_overtaken_by_retention(cluster, "overtaken", "Trimmed", queues=2)
        admin.create_topic("Some", queues=3)
        produce(cluster, "Some", 50, queue_id=1)
        admin.create_topic("Never", queues=2)
        commit_beyond_end(cluster, "reader", "Some", by=0)
        live = partial(admin.read, broker.address)
        said, offsets = ends_of(live), offsets_of(live)
        wait_until(lambda: saved_offsets(broker) == offsets, lambda: f"{offsets}, not {saved_offsets(broker)}")
        broker.kill()

        files = Files(broker.store)
        place = files.found.broker_name, files.found.broker_id, files.found.own_cluster
        assert place == ("broker-a", 0, "DefaultCluster")
        assert offsets_of(files.read) == offsets
        found = ends_of(files.read)
        for topic, queues in said.items():
            assert {queue_id: found[topic][queue_id] for queue_id in queues} == queues, topic
        assert said["Trimmed"][0][0] > 0
        assert said["Some"][1] == (0, 50)

        result = run_command("collect", "--state-dir", broker.store, "--cluster", "main", "--out", tmp_path)
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
            done = subprocess.run(command, env=mqadmin_environment(cluster), capture_output=True, check=False)
            assert done.returncode == 0, done.stdout
        exported_files = Files(copy)
        found = exported_files.found
        assert (found.broker_name, found.missing, found.notes) == ("broker-a", {}, [])
        assert offsets_of(exported_files.read)["Some", "reader"] == {0: 10, 1: 0}
        with pytest.raises(NotRecorded):
            Files(broker.store).read(GetTopicStatsInfo("Some"))


def saved_offsets(broker: Broker) -> dict[tuple[str, str], dict[int, int]]:
    files = Files(broker.store)
    return offsets_of(files.read) if "consumerOffset.json" in files.found.files else {}
