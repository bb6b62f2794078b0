"""Real gRPC consumers (rocketmq-client-java 5.2.0) behind a proxy, driven from Python.

with Proxy(cluster) as proxy, running_grpc_consumers(cluster, proxy, [GrpcSpec("jobs-workers", "jobs")]) as consumers:
    consumers.receive("jobs-workers", 40)
    consumers.ack("jobs-workers", 30)
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from offsetguard_peers.clients import CLIENT_MEMORY, DONE_WITHIN_S, STARTED_WITHIN_S
from offsetguard_peers.java_programs import grpc_programs_class_path
from offsetguard_peers.jvm import java_command
from offsetguard_peers.processes import ChildProcess
from offsetguard_peers.proxy import Proxy
from offsetguard_peers.rocketmq import RocketMQCluster

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


class GrpcConsumers:
    """A JVM with gRPC consumers in it."""

    def __init__(self, process: ChildProcess) -> None:
        """Drive a program that was started."""
        self.process = process
        self._ids = itertools.count(1)

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

    def _order(self, group: str, order: str, count: int, *, timeout_s: float = DONE_WITHIN_S, **options: Any) -> None:
        order_id = next(self._ids)
        self.process.write_line(json.dumps({"id": order_id, "order": order, "group": group, "count": count, **options}))
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.process.alive:
            for answer in self._events():
                if answer["event"] == "answer" and answer["id"] == order_id:
                    assert "error" not in answer, answer["error"]
                    return
            time.sleep(0.05)
        msg = f"{self.process.name}: {order} of {count} messages was not done within {timeout_s:.0f} s"
        raise TimeoutError(msg)

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
