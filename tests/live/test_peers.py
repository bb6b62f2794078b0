"""Nothing of a cluster is left, however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_a_cluster_that_was_left_leaves_nothing() -> None:
    with RocketMQCluster() as cluster:
        Admin(cluster).create_topic("orders")
        produce(cluster, "orders", 1)
        process_ids = [process.pid for process in cluster.processes]
        assert len(process_ids) == 3  # name server, master, producer
    assert [process_id for process_id in process_ids if Path(f"/proc/{process_id}").exists()] == []
    assert not cluster.folder.exists()


def test_nothing_survives_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from offsetguard_peers.rocketmq.cluster import RocketMQCluster\n"
        "cluster = RocketMQCluster(folder=pathlib.Path(sys.argv[1]))\n"
        "cluster.start_namesrv()\n"
        "print(cluster.processes[0].pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{int(parent.stdout.readline())}")
        assert child.exists()
        os.kill(parent.pid, signal.SIGKILL)
        wait_until(lambda: not child.exists(), f"the end of {child}")
