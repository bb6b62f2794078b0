"""A cluster on which every source has something to say, and how each of its replicas is asked for it.

It is guarded, encrypted, with a slave and two name servers. The slave starts with a copy of its master's topics, groups
and offsets, as if it had copied them itself a moment ago (which takes a 5.x slave a minute after its start). Probes use
the product's own client, one per source (`broker_probes.py`, `surroundings_probes.py`); each gives one cell for each
role of the source's section (`sources.py`).
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offsetguard.config import Tls
from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import ResponseCode
from offsetguard.sources.rocketmq.requests import PullMessage, Request
from offsetguard_peers.rocketmq import clients
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.rocketmq.requests import ChangingCode
from offsetguard_peers.source_matrix.sources import MASTER, NAME_SERVER, NO, NOT_IN_VERSION, REPLICAS, SLAVE, YES
from offsetguard_peers.waiting import wait_until

ORDERS, DEAD, POPPED, SILENT = "matrix-orders", "matrix-dead", "matrix-popped", "matrix-silent"
QUEUES, SENT = 2, 20
BILLING = "matrix-billing"  # offline; has committed one queue of ORDERS, at half of it
ORDERLY = "matrix-orderly"  # online, with locks
FAILING = "matrix-failing"  # online; its messages go back for a retry
GIVING_UP = "matrix-giving-up"  # online; its messages go to the dead-letter topic at once
DEAD_LETTERS = f"%DLQ%{GIVING_UP}"
BROADCASTING = "matrix-broadcasting"  # online; each client consumes everything
POPPER = "matrix-popper"
DELAYED, LONGEST_LEVEL = 3, 18  # messages that are to be delivered in 2 h
CHECKS = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000", "transactionCheckMax": "1"}  # ms, ms, times
# Listed by the name servers, and served; but the certificate is not for it, so that we need the address map.
LISTED_HOST = "127.0.0.2"
EXPORTER_OFFSET = 4  # a broker has ports -2 to +1 of its own; reservations are 10 apart


@dataclass(frozen=True, slots=True)
class Stage:
    """The running cluster, its consumers, and whether it knows POP."""

    cluster: RocketMQCluster
    consumers: clients.RunningConsumers
    pops: bool

    def client_id(self, group: str) -> str:
        """Client id of the member of a group."""
        (started,) = self.consumers.events("started", group)
        return str(started["client_id"])

    def exporter_url(self, broker_id: int) -> str:
        """Where a 5.x broker's Prometheus exporter is."""
        return f"http://127.0.0.1:{_exporter_port(self.cluster.broker(broker_id=broker_id).address)}/metrics"


@contextmanager
def staged(version: str) -> Iterator[Stage]:
    """Start everything (10 to 25 s) and end it with the context."""
    cluster = RocketMQCluster(version, slaves=1, acl=True, tls=True, advertised_host=LISTED_HOST, namesrvs=2)
    for broker in cluster.brokers:
        broker.configure(CHECKS)
    for broker in cluster.brokers if version.startswith("5.") else ():
        port = _exporter_port(broker.address)
        broker.configure(
            {
                "metricsExporterType": "PROM",
                "metricsPromExporterPort": str(port),
                "metricsPromExporterHost": "127.0.0.1",
            }
        )
        broker.configure({"timerWheelEnable": "true"})  # a broker without it refuses to pop
    try:
        pops = _start_with_a_slave_that_has_copied(cluster)
        with clients.running_consumers(cluster, _consumers(), signed=True) as consumers:
            consumers.wait_until_consumed(SENT, ORDERLY)
            consumers.wait_until_consumed(SENT, BROADCASTING)
            consumers.wait_until_failed(1, FAILING)
            consumers.wait_until_failed(1, GIVING_UP)
            yield Stage(cluster, consumers, pops=pops)
    finally:
        cluster.stop()


def _consumers() -> list[clients.ConsumerSpec]:
    return [
        clients.ConsumerSpec(ORDERLY, {ORDERS: "*"}, orderly=True, commit_every_ms=1000),
        clients.ConsumerSpec(BROADCASTING, {ORDERS: "*"}, broadcasting=True, commit_every_ms=1000),
        clients.ConsumerSpec(FAILING, {DEAD: "*"}, fail_always=True),
        clients.ConsumerSpec(GIVING_UP, {DEAD: "*"}, fail_always=True, max_reconsume_times=0),
    ]


def _start_with_a_slave_that_has_copied(cluster: RocketMQCluster) -> bool:
    """Return whether the brokers know POP."""
    admin = Admin(cluster, signed=True)
    master, slave = cluster.broker(), cluster.broker(broker_id=1)
    cluster.start_namesrv()
    master.start()
    for topic, queues in ((ORDERS, QUEUES), (DEAD, 1), (POPPED, 1), (SILENT, 1)):
        admin.create_topic(topic, queues=queues)
        clients.produce(cluster, topic, SENT, signed=True)
    admin.create_topic(DEAD_LETTERS, queues=1)  # it would come by itself, too late for the slave's copy
    for group in (BILLING, ORDERLY, FAILING, GIVING_UP, BROADCASTING, POPPER):
        admin.create_group(group)
    clients.produce_held_back(cluster, SILENT, 2, never_ended=True, signed=True)
    clients.produce_held_back(cluster, SILENT, DELAYED, delay_level=LONGEST_LEVEL, signed=True)
    pops = _pop(cluster)
    admin.commit(BILLING, ORDERS, 0, SENT // QUEUES // 2)
    config = master.store / "config"
    _wait_for_text(config / "consumerOffset.json", f"{ORDERS}@{BILLING}")
    if pops:
        _wait_for_text(config / "consumerOffset.json", f"{POPPED}@{POPPER}")
    (slave.store / "config").mkdir(parents=True)
    for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
        shutil.copy(config / name, slave.store / "config" / name)
    slave.start()
    return pops


def _pop(cluster: RocketMQCluster) -> bool:
    """Take a few messages as a POP consumer, without acknowledging them; False where the broker does not know how."""
    fields = {
        "consumerGroup": POPPER,
        "topic": POPPED,
        "queueId": -1,
        "maxMsgNums": 4,
        "invisibleTime": 600_000,  # ms
        "pollTime": 60_000,  # not waited for: messages are there; but a late request is refused
        "bornTime": int(time.time() * 1000),
        "initMode": 0,
    }
    try:
        Admin(cluster, signed=True).change(cluster.broker().address, ChangingCode.POP_MESSAGE, fields)
    except BrokerRefused as refused:
        if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return False
        raise
    return True


def _exporter_port(address: str) -> int:
    return int(address.rpartition(":")[2]) + EXPORTER_OFFSET


def _wait_for_text(file: Path, text: str) -> None:
    wait_until(lambda: file.exists() and text in file.read_text(encoding="utf-8"), f"{file} to hold {text!r}")


AnswerT = TypeVar("AnswerT")
Cells = dict[str, str]

PULLED_AT = {MASTER: "matrix-pulled-at-master", SLAVE: "matrix-pulled-at-slave"}  # groups, by the replica that serves
MOVED = {MASTER: "matrix-moved-at-master", SLAVE: "matrix-moved-at-slave"}
BEYOND = 9999  # an offset that no queue has
ANSWERED_WITHIN_MS = 60_000  # some milliseconds on an idle machine
SEEN_WITHIN_S = 180.0  # what a broker does after its answer: dispatch of a message, replication, a heartbeat
ABSENT_AFTER_S = 1.0  # how long we look before we say that something is not there


@dataclass(frozen=True, slots=True)
class Probes:
    """A staged cluster and the client that asks it: over TLS, as the account that may only read."""

    stage: Stage
    client: RocketMQClient
    tls: Tls

    def broker(self, role: str) -> Broker:
        """Return the replica of a role."""
        return self.stage.cluster.broker(broker_id=0 if role == MASTER else 1)

    def address(self, role: str) -> str:
        """Where we ask: what the address map leads to."""
        return self.stage.cluster.namesrv if role == NAME_SERVER else self.broker(role).address

    async def pull_everywhere(self) -> None:
        """Let each replica serve pulls of groups of its own: one at the start of a queue, one beyond its end."""
        for role in REPLICAS:
            await self.until(
                lambda role=role: self.pulled(role, PULLED_AT[role], 0),  # type: ignore[misc]
                lambda cell: cell == YES,
            )
            await self.pulled(role, MOVED[role], BEYOND)

    async def pulled(self, role: str, group: str, offset: int) -> str:
        """Pull once for a group; YES when messages came."""
        return await self.cell(role, PullMessage(ORDERS, 0, offset, consumer_group=group), lambda pull: pull.messages)

    async def cell(self, role: str, request: Request[AnswerT], tells: Callable[[AnswerT], object]) -> str:
        """Ask once; YES or NO as `tells` finds what is looked for in the answer."""
        try:
            return YES if tells(await self.client.call(self.address(role), request)) else NO
        except BrokerRefused as refused:
            return cell_of(refused)

    async def until(
        self, ask: Callable[[], Awaitable[str]], ends: Callable[[str], bool], *, within_s: float = SEEN_WITHIN_S
    ) -> str:
        """Ask again until the answer ends it, for what takes a moment; the last answer otherwise."""
        deadline = time.monotonic() + within_s
        while not ends(cell := await ask()) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return cell


def cell_of(refused: BrokerRefused) -> str:
    """Say which refusal it was."""
    if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return NOT_IN_VERSION
    return f"refused, code {refused.code}"
