"""Real RocketMQ clients: consumers of every kind, and a producer, driven from Python.

produce(cluster, "orders", 100, tags="tagA")
with running_consumer(cluster, "billing", {"orders": "tagA || tagB"}, orderly=True) as consumers:
    consumers.wait_until_consumed(100)
"""

import itertools
import json
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from offsetguard.model.errors import BrokerRefused
from offsetguard_peers.processes import ChildProcess
from offsetguard_peers.rocketmq import security
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.rocketmq.jvm import java_command, programs_class_path
from offsetguard_peers.waiting import wait_until

CLIENT_MEMORY = ("-Xms32m", "-Xmx128m", "-XX:MaxDirectMemorySize=64m")
STARTED_WITHIN_S = 180.0  # 1 to 3 s on an idle machine
DONE_WITHIN_S = 300.0  # seconds; but a killed client keeps its locks for a minute
UNLIMITED_BY_DEFAULT = -1

_client_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """One consumer. `topics`: topic -> tag expression (`*` for all). The defaults are RocketMQ's own."""

    group: str
    topics: Mapping[str, str]
    orderly: bool = False
    broadcasting: bool = False
    handling_ms: int = 0
    fail_always: bool = False
    fail_keys: Sequence[str] = ()
    hang_keys: Sequence[str] = ()  # the listener never comes back from these messages
    hang_in: str = "sleep"  # what it does meanwhile: sleep, lock, socket (a read), deadlock (of two such messages)
    error_keys: Sequence[str] = ()  # with such a message an Error ends the threads that pull and rebalance
    threads: int = 20
    max_reconsume_times: int = UNLIMITED_BY_DEFAULT
    pulls: bool = False  # a DefaultLitePullConsumer, which polls
    pause_keys: Sequence[str] = ()  # it pauses the queues of these messages, for good
    instance_name: str | None = None
    client_ip: str | None = None  # by which its client id begins; its host's by default
    commit_every_ms: int = 5000
    pull_threshold_for_queue: int = 1000
    client_rebalance: bool = True  # 5.x: False lets the broker decide, also on consumption by POP


@dataclass(slots=True)
class RunningConsumers:
    """A JVM with one or more consumers in it."""

    process: ChildProcess
    folder: Path

    def events(self, kind: str | None = None, group: str | None = None) -> list[dict[str, Any]]:
        """Parse what the program printed so far: `started`, `consumed`, `stopped`."""
        lines = [json.loads(line) for line in self.process.printed().splitlines() if line.startswith('{"event"')]
        return [
            line
            for line in lines
            if (kind is None or line["event"] == kind) and (group is None or line["group"] == group)
        ]

    @property
    def client_ids(self) -> list[str]:
        """Client ids in the order of the consumers."""
        return [event["client_id"] for event in self.events("started")]

    def consumed(self, group: str | None = None) -> int:
        """How many messages the listeners accepted so far; of one group, or of all of them."""
        return self._total("consumed", group)

    def wait_until_consumed(self, count: int, group: str | None = None, *, timeout_s: float = DONE_WITHIN_S) -> None:
        """Return once at least `count` messages were accepted; TimeoutError with the totals otherwise."""
        self._wait("consumed", count, group, timeout_s)

    def wait_until_failed(self, count: int, group: str | None = None, *, timeout_s: float = DONE_WITHIN_S) -> None:
        """Return once listeners refused at least `count` times; TimeoutError with the totals otherwise."""
        self._wait("failed", count, group, timeout_s)

    def stop(self) -> None:
        """SIGTERM: the consumers commit, give their locks back and unregister."""
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL: nothing is committed, unlocked or unregistered."""
        self.process.stop(hard=True)

    @property
    def log_file(self) -> Path:
        """The client log."""
        return self.folder / "logs" / "rocketmqlogs" / "rocketmq_client.log"

    def local_offsets_file(self, client_id: str, group: str) -> Path:
        """Where a broadcasting consumer keeps its offsets."""
        return self.folder / ".rocketmq_offsets" / client_id / group / "offsets.json"

    def _total(self, counter: str, group: str | None) -> int:
        newest = {event["group"]: event[counter] for event in self.events("consumed", group)}
        return sum(newest.values())

    def _wait(self, counter: str, count: int, group: str | None, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while (reached := self._total(counter, group)) < count:
            if time.monotonic() > deadline or not self.process.alive:
                msg = f"{self.process.name}: {reached} of {count} messages {counter} within {timeout_s:.0f} s"
                raise TimeoutError(msg)
            time.sleep(0.05)


@contextmanager
def running_consumers(
    cluster: RocketMQCluster,
    specs: Sequence[ConsumerSpec],
    *,
    java_properties: Mapping[str, str] | None = None,
    folder: Path | None = None,
    signed: bool = False,
) -> Iterator[RunningConsumers]:
    """Run consumers in one JVM until the context ends (SIGTERM, so that offsets are committed).

    `java_properties`: e.g. `{"rocketmq.client.rebalance.lockInterval": "30000"}`. `folder`: its home, with log and
    local offsets; give the same again to start it anew with them. `signed`: as the ACL administrator.
    """
    number = next(_client_numbers)
    home = folder or cluster.folder / "clients" / f"consumers-{number}"
    options = {**_connection(cluster, signed=signed), "consumers": [asdict(spec) for spec in specs]}
    command = _command(cluster, "Consumers", home, options, java_properties or {})
    name = f"consumers of {', '.join(spec.group for spec in specs)}"
    consumers = RunningConsumers(cluster.launch(name, command, home), home)
    try:
        for spec in specs:
            consumers.process.wait_for(f'{{"event":"started","group":"{spec.group}"', timeout_s=STARTED_WITHIN_S)
        yield consumers
    finally:
        consumers.stop()


@contextmanager
def running_consumer(
    cluster: RocketMQCluster, group: str, topics: str | Mapping[str, str], **options: Any
) -> Iterator[RunningConsumers]:
    """Run one consumer in a JVM of its own; `topics`: one topic, or topic -> tag expression; `options`: of its spec."""
    spec = ConsumerSpec(group, {topics: "*"} if isinstance(topics, str) else dict(topics), **options)
    with running_consumers(cluster, [spec]) as consumers:
        yield consumers


class ProducerRefused(Exception):
    """The producer could not send; the text is the Java client's."""


class OrderedProgram:
    """A program of ours that takes orders, one line of JSON each, and answers each of them."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self._ids = itertools.count(1)

    def give(self, **order: Any) -> int:
        """Give an order without waiting; returns its id."""
        order_id = next(self._ids)
        self.process.write_line(json.dumps({"id": order_id, **order}))
        return order_id

    def answer_to(self, order_id: int) -> dict[str, Any]:
        """Wait for the answer to an order; TimeoutError when the program ended, or is too slow."""
        deadline = time.monotonic() + DONE_WITHIN_S
        while time.monotonic() < deadline and self.process.alive:
            for line in self.process.printed().splitlines():
                if line.startswith('{"event":"answer"'):
                    answer: dict[str, Any] = json.loads(line)
                    if answer["id"] == order_id:
                        return answer
            time.sleep(0.02)
        msg = f"{self.process.name}: no answer to order {order_id} within {DONE_WITHIN_S:.0f} s"
        raise TimeoutError(msg)


class Producer(OrderedProgram):
    """A JVM with one producer that takes orders; starts at once (about a second)."""

    def __init__(self, cluster: RocketMQCluster, *, signed: bool = False) -> None:
        """Start it as a process of the cluster: it ends with it."""
        number = next(_client_numbers)
        home = cluster.folder / "clients" / f"producer-{number}"
        command = _command(cluster, "Producer", home, _connection(cluster, signed=signed), {})
        super().__init__(cluster.launch(f"producer {number}", command, home))
        self.process.wait_for('{"event":"started"', timeout_s=STARTED_WITHIN_S)

    def order(self, topic: str, count: int, **options: Any) -> int:
        """Begin to send without waiting; `answer(id)` collects the result."""
        return self.give(**{"topic": topic, "count": count, "body_bytes": 64, **options})

    def answer(self, order_id: int) -> dict[str, int]:
        """Wait for an order; the offsets behind what was sent, by `broker_name/queue_id`. Raises ProducerRefused."""
        answer = self.answer_to(order_id)
        if "error" in answer:
            raise ProducerRefused(answer["error"])
        ends: dict[str, int] = answer["ends"]
        return ends


_producers: weakref.WeakKeyDictionary[RocketMQCluster, dict[bool, Producer]] = weakref.WeakKeyDictionary()


def producer_of(cluster: RocketMQCluster, *, signed: bool = False) -> Producer:
    """Give the cluster's producer; it is started on first use and ends with the cluster."""
    known = _producers.setdefault(cluster, {})
    if signed not in known or not known[signed].process.alive:
        known[signed] = Producer(cluster, signed=signed)
    return known[signed]


def produce(
    cluster: RocketMQCluster,
    topic: str,
    count: int,
    *,
    tags: str | Sequence[str] | None = None,
    key: str | None = None,
    body_bytes: int = 64,
    queue_id: int | None = None,
    signed: bool = False,
) -> None:
    """Send `count` messages and wait until they can be read.

    `tags`: of all messages, or a list that is gone through again and again. `key`: the same for all, else `key-` and a
    running number. `queue_id`: all go to one queue. Raises ProducerRefused.
    """
    options = {"tags": tags, "key": key, "body_bytes": body_bytes, "queue_id": queue_id}
    producer = producer_of(cluster, signed=signed)
    ends = producer.answer(producer.order(topic, count, **options))
    _wait_until_readable(cluster, topic, ends, signed=signed)


def produce_held_back(
    cluster: RocketMQCluster,
    topic: str,
    count: int,
    *,
    never_ended: bool = False,
    delay_level: int = 0,
    timer_s: int = 0,
    signed: bool = False,
) -> None:
    """Send messages that nobody can read yet: of transactions never ended, delayed, or timers (5.x)."""
    options = {"never_ended": never_ended, "delay_level": delay_level, "timer_s": timer_s}
    producer = producer_of(cluster, signed=signed)
    producer.answer(producer.order(topic, count, **options))


def _wait_until_readable(cluster: RocketMQCluster, topic: str, ends: Mapping[str, int], *, signed: bool) -> None:
    """Return once every queue shows what it took: a broker accepts a message a moment before.

    A broker that was killed meanwhile shows nothing, and nothing is expected of it.
    """
    admin = Admin(cluster, signed=signed)
    for name, end in ends.items():
        broker_name, _, queue_id = name.partition("/")
        broker = cluster.broker(broker_name)
        wait_until(
            lambda: _is_readable(admin, topic, broker, int(queue_id), end),  # noqa: B023 called at once
            f"{topic} {name} to show offset {end - 1}",
            timeout_s=DONE_WITHIN_S,
        )


def _is_readable(admin: Admin, topic: str, broker: Broker, queue_id: int, end: int) -> bool:
    """Whether a queue has got so far, or its broker is not there to tell."""
    try:
        return admin.max_offset(topic, queue_id, broker=broker) >= end
    except (OSError, BrokerRefused):
        return True


def _connection(cluster: RocketMQCluster, *, signed: bool) -> dict[str, str]:
    keys = {"access_key": security.ADMIN.access_key, "secret_key": security.ADMIN.secret_key} if signed else {}
    return {"namesrv": cluster.namesrv_list, **keys}


def _command(
    cluster: RocketMQCluster, program: str, home: Path, options: Mapping[str, object], properties: Mapping[str, str]
) -> list[str]:
    return [
        *java_command(
            programs_class_path(cluster.version),
            program,
            home=home,
            memory=CLIENT_MEMORY,
            properties={**cluster.process_properties, **properties},
        ),
        json.dumps(options),
    ]
