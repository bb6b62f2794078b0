"""RocketMQ's proxy 5.5.0 in CLUSTER mode: gRPC clients behind it are invisible for brokers.

with Proxy(cluster) as proxy:
    GrpcConsumers(cluster, proxy, [...])
    config["proxies"] = [proxy.remoting_address]
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

from offsetguard_peers.admin import Admin
from offsetguard_peers.jvm import class_path, java_command
from offsetguard_peers.ports import ReservedPort
from offsetguard_peers.processes import ChildProcess
from offsetguard_peers.rocketmq import RocketMQCluster

READY_SIGN = "rocketmq-proxy startup successfully"
READY_WITHIN_S = 180.0  # 3 to 6 s on an idle machine
PROXY_MEMORY = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")
HEARTBEAT_TOPIC = "DefaultHeartBeatSyncerTopic"


class Proxy:
    """One proxy process of a cluster of 5.5.0; it ends with the context, or with the cluster."""

    def __init__(self, cluster: RocketMQCluster) -> None:
        """Reserve its ports; entering the context starts it."""
        self._cluster = cluster
        ports = cluster.ports
        self._grpc = ReservedPort(ports.get("proxy-grpc"))
        self._remoting = ReservedPort(ports.get("proxy-remoting"))
        self._process: ChildProcess | None = None

    @property
    def endpoints(self) -> str:
        """Where gRPC clients connect."""
        return f"{self._cluster.host}:{self._grpc.port}"

    @property
    def remoting_address(self) -> str:
        """Where it answers remoting requests, e.g. 203 about the groups of its gRPC clients."""
        return f"{self._cluster.host}:{self._remoting.port}"

    def __enter__(self) -> Self:
        """Start it; returns when it serves. PeerNotStarted with its last output otherwise."""
        # It makes this topic itself, and ends when a broker that has just been started does not let it yet.
        Admin(self._cluster).create_topic(HEARTBEAT_TOPIC, queues=1)
        folder = self._cluster.folder / f"proxy-{self._grpc.port}"
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "rmq-proxy.json"
        configuration.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": self._cluster.name,
                    "namesrvAddr": self._cluster.namesrv_list,
                    "proxyMode": "CLUSTER",
                    "grpcServerPort": self._grpc.port,
                    "remotingListenPort": self._remoting.port,
                }
            )
        )
        command = java_command(
            class_path(self._cluster.version, "proxy"),
            "org.apache.rocketmq.proxy.ProxyStartup",
            home=folder,
            memory=PROXY_MEMORY,
            properties={},
        )
        command += ["-pm", "CLUSTER", "-n", self._cluster.namesrv_list, "-pc", str(configuration)]
        self._process = self._cluster.launch("proxy", command, folder)
        self._process.wait_for(READY_SIGN, timeout_s=READY_WITHIN_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it and give the ports back."""
        if self._process is not None:
            self._process.stop(hard=True)
        self._grpc.release()
        self._remoting.release()
