"""RocketMQ's own command line, from the published jars: what an operator would have without OffsetGuard."""

from __future__ import annotations

import os
import subprocess

from offsetguard_peers.jvm import class_path, java_command
from offsetguard_peers.rocketmq import RocketMQCluster

# Enough for the largest listings; the distribution takes 1 GB from the start.
TOOLS_MEMORY = ("-Xms256m", "-Xmx1g")
WITHIN_S = 300.0
# What its client says when a connection was closed before it was used, as happens on a busy machine: run again.
NOT_SENT = ("RemotingSendRequestException", "RemotingConnectException")


class CommandFailed(Exception):
    """The command ended with an error or printed a stack trace (it ends with 0 then); the text is its output."""


def mqadmin_command(cluster: RocketMQCluster, *arguments: str) -> list[str]:
    """Build the command line of `mqadmin ARGUMENTS -n <name server>`; run it with `mqadmin_environment`."""
    command = java_command(
        class_path(cluster.version, "tools"),
        "org.apache.rocketmq.tools.command.MQAdminStartup",
        home=cluster.folder / "mqadmin",
        memory=TOOLS_MEMORY,
        properties=cluster.process_properties,
    )
    return [*command, *arguments, "-n", cluster.namesrv_list]


def mqadmin_environment(cluster: RocketMQCluster) -> dict[str, str]:
    """Our environment with the cluster's ROCKETMQ_HOME: logging of 4.x, accounts under access control."""
    return {**os.environ, "ROCKETMQ_HOME": str(cluster.home)}


def mqadmin(cluster: RocketMQCluster, *arguments: str) -> str:
    """Run one command, e.g. `mqadmin(cluster, "consumerProgress")`; returns what it printed."""
    result = _run(cluster, *arguments)
    if any(name in result.stdout + result.stderr for name in NOT_SENT):
        result = _run(cluster, *arguments)
    if result.returncode != 0 or "SubCommandException" in result.stdout + result.stderr:
        raise CommandFailed(result.stdout + result.stderr)
    return result.stdout


def _run(cluster: RocketMQCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mqadmin_command(cluster, *arguments),
        env=mqadmin_environment(cluster),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
