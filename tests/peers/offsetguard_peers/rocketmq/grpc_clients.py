"""Real gRPC consumers (rocketmq-client-java 5.2.0) behind RocketMQ's proxy 5.5.0, where brokers do not see them.

with Proxy(cluster) as proxy, running_grpc_consumers(cluster, proxy, [GrpcSpec("jobs-workers", "jobs")]) as consumers:
    consumers.receive("jobs-workers", 40)
    consumers.ack("jobs-workers", 30)
    config["proxies"] = [proxy.remoting_address]
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

from offsetguard_peers.processes import ChildProcess, ReservedPort
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import CLIENT_MEMORY, STARTED_WITHIN_S, OrderedProgram
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.jvm import class_path, grpc_programs_class_path, java_command

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

    def __exit__(self, *_: object) -> None:
        """Kill it and give the ports back."""
        if self._process is not None:
            self._process.stop(hard=True)
        self._grpc.release()
        self._remoting.release()


INVISIBLE_S = 900  # long enough for a test on a slow machine: nothing expires meanwhile

_client_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class GrpcSpec:
    """One consumer: a simple one, which takes orders, or a push one, which handles what comes.

    With `lite_topics` a push consumer consumes these lite topics of `topic`.
    """

    group: str
    topic: str
    push: bool = False
    threads: int = 4
    handling_ms: int = 0
    lite_topics: Sequence[str] = ()


class GrpcConsumers(OrderedProgram):
    """A JVM with gRPC consumers in it."""

    def receive(self, group: str, count: int, *, invisible_s: int = INVISIBLE_S) -> None:
        """Receive until `count` more messages are held, without acknowledging any."""
        self._order(group, "receive", count, invisible_s=invisible_s)

    def ack(self, group: str, count: int) -> None:
        """Acknowledge the first `count` messages that are held."""
        self._order(group, "ack", count)

    def send(self, topic: str, lite_topics: Sequence[str], count: int) -> None:
        """Send `count` messages to each of the lite topics of a topic."""
        self._order("", "send", count, topic=topic, lite_topics=list(lite_topics))

    def handling(self, group: str) -> int:
        """How many messages the push consumer's listener has begun with."""
        return sum(event["event"] == "handling" and event["group"] == group for event in self._events())

    def kill(self) -> None:
        """SIGKILL: nothing is acknowledged or given back."""
        self.process.stop(hard=True)

    def _order(self, group: str, order: str, count: int, **options: Any) -> None:
        answer = self.answer_to(self.give(order=order, group=group, count=count, **options))
        assert "error" not in answer, answer["error"]

    def _events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.process.printed().splitlines() if line.startswith('{"event"')]


@contextmanager
def running_grpc_consumers(
    cluster: RocketMQCluster, proxy: Proxy, specs: Sequence[GrpcSpec]
) -> Iterator[GrpcConsumers]:
    """Run consumers in one JVM until the context ends."""
    home = cluster.folder / "clients" / f"grpc-{next(_client_numbers)}"
    options = {"endpoints": proxy.endpoints, "consumers": [asdict(spec) for spec in specs]}
    command = java_command(grpc_programs_class_path(), "GrpcConsumers", home=home, memory=CLIENT_MEMORY, properties={})
    name = f"gRPC consumers of {', '.join(spec.group for spec in specs)}"
    consumers = GrpcConsumers(cluster.launch(name, [*command, json.dumps(options)], home))
    try:
        for spec in specs:
            consumers.process.wait_for(f'{{"event":"started","group":"{spec.group}"', timeout_s=STARTED_WITHIN_S)
        yield consumers
    finally:
        consumers.kill()
