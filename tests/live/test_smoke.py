"""What everybody runs of the tests with real brokers: per line of RocketMQ a round and a look."""

import json
from pathlib import Path
from typing import Any

import pytest

from offsetguard_peers.processes import run_command
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import stage_backlog
from offsetguard_peers.waiting import wait_until

pytestmark = pytest.mark.live

PATIENCE_S = 600.0  # a machine that does other things as well
BACKLOG = 10_500  # the default limit is 10,000


def findings(*arguments: str) -> list[dict[str, Any]]:
    """Return what `offsetguard check` finds of groups."""
    done = run_command("check", *arguments, "--format", "json")
    assert done.returncode in (0, 1), f"check {arguments}: exit code {done.returncode}: {done.stderr}"
    return [one for one in map(json.loads, done.stdout.splitlines()) if one["consumer_group"] is not None]


def test_a_round_lands_and_a_look_names_the_group_that_stopped(cluster: RocketMQCluster, tmp_path: Path) -> None:
    stage_backlog(cluster, "smoke-export", "smoke-orders", BACKLOG)
    collected = run_command("collect", "--namesrv", cluster.namesrv, "--out", tmp_path)
    assert collected.returncode == 0, f"not everything was seen: {collected.stdout} {collected.stderr}"
    (manifest,) = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text(encoding="utf-8"))["row_counts"]["queue_snapshots"] >= 4

    look = ("--namesrv", cluster.namesrv, "--group", "^smoke-export$", "--samples", "1")
    # in the first minute after a broker's start nobody can tell who is away
    (finding,) = wait_until(lambda: findings(*look), "the group that stopped", timeout_s=PATIENCE_S, every_s=5)
    assert (finding["rule"], finding["topic"]) == ("consumer_offline", "smoke-orders")
    assert f"{BACKLOG:,}" in finding["cause"]
