"""A healthy cluster with everything that happens to healthy clusters, and a judge after every round.

    soak = Soak("5.5.0", folder, seed=1)
    result = soak.run(minutes=20, every_s=15)
    result.warnings     # what people would have been told: should be nothing

Pods are JVMs with one consumer each. What happens is drawn from ACTIONS, again and again, by a seed that is kept: a run
can be repeated. Every topic gets messages all the time but for the idle one; bursts come on top. Orderly pods are only
stopped as they should be: a killed one is incident I4.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard_peers.admin import Admin
from offsetguard_peers.clients import ConsumerSpec, ProducerRefused, RunningConsumers, producer_of, running_consumers
from offsetguard_peers.judged_rounds import LiveRounds
from offsetguard_peers.kept_locks import kept_locks
from offsetguard_peers.rocketmq import RocketMQCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from offsetguard.rules.rule import Finding
    from offsetguard_peers.judged_rounds import JudgedRound

ORDERS, PAYMENTS, SEATS, ALARMS, AUDITS, PRICES, IDLE = (
    "orders",
    "payments",
    "seats",
    "alarms",
    "audits",
    "prices",
    "idle-topic",
)
TRAFFIC_PER_S = {ORDERS: 20, PAYMENTS: 10, SEATS: 12, ALARMS: 9, PRICES: 5}  # AUDITS: one in a while
AUDIT_EVERY_S = 20.0
BURST = 4_000
QUEUES = 4
MOST_PODS = 3

STANDING = (
    ConsumerSpec("seat-allocation", {SEATS: "*"}, orderly=True, handling_ms=200, threads=4),  # 60 % busy
    ConsumerSpec("alarm-pager", {ALARMS: "red"}),  # one message in three
    ConsumerSpec("audit-mail", {AUDITS: "*"}),
    ConsumerSpec("price-cache", {PRICES: "*"}, broadcasting=True, instance_name="price-cache"),
    ConsumerSpec("idle-reader", {IDLE: "*"}),
)
ORDER_POD = ConsumerSpec("order-billing", {ORDERS: "*"}, handling_ms=5)
PAYMENT_POD = ConsumerSpec("payment-ledger", {PAYMENTS: "*"}, orderly=True)


@dataclass(frozen=True, slots=True)
class Warned:
    """One finding above INFO."""

    round_number: int
    after_s: int
    rule: str
    consumer_group: str | None
    topic: str | None
    cause: str


@dataclass(slots=True)
class SoakResult:
    """What happened and what was said of it."""

    version: str
    minutes: float
    round_count: int = 0
    actions: list[tuple[int, str]] = field(default_factory=list)  # seconds since the start, what
    warnings: list[Warned] = field(default_factory=list)

    def action_counts(self) -> dict[str, int]:
        """How often each thing happened."""
        names = [name for _, name in self.actions]
        return {name: names.count(name) for name in sorted(set(names))}


class Soak:
    """One cluster with its pods; `run` starts and ends all of it."""

    def __init__(self, version: str, folder: Path, *, seed: int = 0, tell: Callable[[str], None] = print) -> None:
        """Describe it; nothing runs yet."""
        self._cluster = RocketMQCluster(version, slaves=1, folder=folder)
        self._admin = Admin(self._cluster)
        self._random = random.Random(seed)  # noqa: S311 what happens is no secret
        self._tell = tell
        self._ended = threading.Event()
        self._pods: dict[str, RunningConsumers] = {}
        self._stopped_clients: list[str] = []  # of the orderly group
        self._contexts = ExitStack()  # never left: the cluster kills its processes
        self._started_at = 0.0
        self.result = SoakResult(version, 0.0)

    def run(self, *, minutes: float, every_s: float) -> SoakResult:
        """Soak; returns what was said. Raises what breaks an action: a soak in which nothing happens proves nothing."""
        self.result.minutes = minutes
        try:
            self._start()
            threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._audit)]
            acting = _Acting(self._act_on)
            for thread in (*threads, acting):
                thread.start()
            self._judge(minutes * 60, every_s, acting)
            self._ended.set()
            acting.join()
            acting.raise_what_failed()
        finally:
            self._ended.set()
            self._cluster.stop()
        return self.result

    def _start(self) -> None:
        self._cluster.start()
        for topic in (*TRAFFIC_PER_S, AUDITS, IDLE):
            self._admin.create_topic(topic, queues=QUEUES)
        producer_of(self._cluster)
        self._start_pod("standing", STANDING)
        for number in range(2):
            self._start_pod(f"orders-{number}", [ORDER_POD])
            self._start_pod(f"payments-{number}", [PAYMENT_POD])
        self._started_at = time.monotonic()

    def _judge(self, seconds: float, every_s: float, acting: _Acting) -> None:
        live = LiveRounds(self._cluster)
        while (begun := time.monotonic()) - self._started_at < seconds and acting.is_alive():
            self._take(live.judge_now())
            time.sleep(max(0.0, begun + every_s - time.monotonic()))

    def _take(self, judged: JudgedRound) -> None:
        self.result.round_count += 1
        for finding in judged.loud():
            if self._is_true(finding):
                self._tell(f"{self._now_s()} s: a client that was stopped kept a lock, which is so: {finding.summary}")
                continue
            warned = Warned(
                self.result.round_count,
                self._now_s(),
                finding.rule.id,
                finding.consumer_group,
                finding.topic,
                finding.cause,
            )
            self.result.warnings.append(warned)
            self._tell(f"{warned.after_s} s, round {warned.round_number}: WARNING {warned.rule}: {warned.cause}")

    def _is_true(self, finding: Finding) -> bool:
        """Whether a client of the orderly group that was stopped as it should be kept a lock: RocketMQ's own race."""
        if finding.rule.id != "lock_not_released" or finding.consumer_group != PAYMENT_POD.group:
            return False
        return any(kept_locks(self._cluster, PAYMENT_POD.group, PAYMENTS, one) for one in self._stopped_clients)

    def _send(self) -> None:
        """Order a second's messages of every topic, every second; who cannot be reached now gets the next ones."""
        producer = producer_of(self._cluster)
        second = 0
        while not self._ended.wait(1.0):
            second += 1
            for topic, count in TRAFFIC_PER_S.items():
                tags = {"tags": "red" if second % 3 == 0 else "green"} if topic == ALARMS else {}
                producer.order(topic, count, rate_per_s=float(count), **tags)

    def _audit(self) -> None:
        while not self._ended.wait(AUDIT_EVERY_S):
            producer_of(self._cluster).order(AUDITS, 1)

    def _act_on(self) -> None:
        """Do one thing after the other until the soak ends."""
        while not self._ended.wait(self._random.uniform(5.0, 15.0)):
            name = self._random.choice(sorted(ACTIONS))
            self.result.actions.append((self._now_s(), name))
            self._tell(f"{self._now_s()} s: {name.replace('_', ' ')}")
            ACTIONS[name](self)

    def restart_a_pod(self) -> None:
        """Stop one pod of a concurrent group and start it again."""
        name = self._random.choice(self._pods_of("orders"))
        self._pods[name].stop()
        self._start_pod(name, [ORDER_POD])

    def kill_a_pod(self) -> None:
        """Kill one pod of a concurrent group and start it again."""
        name = self._random.choice(self._pods_of("orders"))
        self._pods[name].kill()
        self._start_pod(name, [ORDER_POD])

    def redeploy(self) -> None:
        """Replace the pods of the orderly group one after the other, each stopped as it should be."""
        for name in self._pods_of("payments"):
            self._stopped_clients += self._pods[name].client_ids
            self._pods[name].stop()
            self._start_pod(name, [PAYMENT_POD])

    def scale(self) -> None:
        """Add a pod, or go back to two."""
        pods = self._pods_of("orders")
        if len(pods) < MOST_PODS:
            self._start_pod(f"orders-{len(pods)}", [ORDER_POD])
        else:
            self._pods.pop(pods[-1]).stop()

    def burst(self) -> None:
        """Send many messages at once."""
        producer = producer_of(self._cluster)
        try:
            producer.answer(producer.order(ORDERS, BURST))
        except ProducerRefused as refused:  # a broker restarts meanwhile: the burst was shorter
            self._tell(f"{self._now_s()} s: burst cut short: {refused}")

    def pause(self) -> None:
        """Let half a minute pass."""
        self._ended.wait(30.0)

    def restart_a_broker(self) -> None:
        """Stop the master, or its slave, softly and start it again."""
        self._random.choice(self._cluster.brokers).restart(hard=False)

    def _pods_of(self, deployment: str) -> list[str]:
        return sorted(name for name in self._pods if name.startswith(deployment))

    def _start_pod(self, name: str, specs: Sequence[ConsumerSpec]) -> None:
        home = self._cluster.folder / "clients" / name
        self._pods[name] = self._contexts.enter_context(running_consumers(self._cluster, specs, folder=home))

    def _now_s(self) -> int:
        return round(time.monotonic() - self._started_at)


class _Acting(threading.Thread):
    """The thread of the actions; keeps what ended it."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Act, and keep the failure: raised where the result is read."""
        try:
            self._act()
        except BaseException as failure:  # noqa: BLE001 raised again by `raise_what_failed`
            self._failure = failure

    def raise_what_failed(self) -> None:
        """Raise what ended the actions before the soak did."""
        if self._failure is not None:
            raise self._failure


ACTIONS: dict[str, Callable[[Soak], None]] = {
    one.__name__: one
    for one in (
        Soak.restart_a_pod,
        Soak.kill_a_pod,
        Soak.redeploy,
        Soak.scale,
        Soak.burst,
        Soak.pause,
        Soak.restart_a_broker,
    )
}
