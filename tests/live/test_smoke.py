"""What everybody runs of the tests with real brokers: per line of RocketMQ a round and a look, and one incident."""

import json
from pathlib import Path
from typing import Any

import pytest

from offsetguard_peers.processes import run_command
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumers
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
    wait_until(lambda: bool(findings(*look)), "the group that stopped", timeout_s=PATIENCE_S)
    (finding,) = findings(*look)
    assert (finding["rule"], finding["topic"]) == ("consumer_offline", "smoke-orders")
    assert f"{BACKLOG:,}" in finding["cause"]


def test_a_poison_message_is_named_with_its_queue_and_offset(rocketmq_5: RocketMQCluster) -> None:
    """Incident I5. The others, and what only looks like them: `make test-all PART=incidents`."""
    group, topic, queue_id = "smoke-ledger", "smoke-postings", 1
    Admin(rocketmq_5).create_topic(topic, queues=4)
    with running_consumers(
        rocketmq_5, [ConsumerSpec(group, {topic: "*"}, orderly=True, fail_keys=("poison",))]
    ) as ours:
        produce(rocketmq_5, topic, 40)
        ours.wait_until_consumed(40)
        produce(rocketmq_5, topic, 1, key="poison", queue_id=queue_id)
        ours.wait_until_failed(1)
        found: list[dict[str, Any]] = []

        def is_named() -> bool:
            for other in (0, 2, 3):  # they advance
                produce(rocketmq_5, topic, 5, queue_id=other)
            look = ("--namesrv", rocketmq_5.namesrv, "--group", f"^{group}$", "--samples", "4", "--every", "10s")
            found[:] = findings(*look)
            return "poison_message" in {one["rule"] for one in found}

        wait_until(is_named, lambda: f"the poison message; what was found at last: {found}", timeout_s=PATIENCE_S)
        (finding,) = [one for one in found if one["rule"] == "poison_message"]
        blocked = Admin(rocketmq_5).committed(group, topic, queue_id)
    assert [(one["queue_id"], one["blocked_offset"]) for one in finding["queues"]] == [(queue_id, blocked)]
    assert "maxReconsumeTimes" in finding["do_next"]
