"""The five incidents and their harmless look-alikes, staged side by side on one cluster, recorded as a bundle.

    run = stage_incidents("4.9.7", folder)
    run.bundle            # what `offsetguard record` kept: raw answers and logs, a round every few seconds
    run.began["killed"]   # when the orderly client was killed, unix ms

Goal: every trouble of `incident_groups.py` once, in about two minutes, on a master and a slave with RocketMQ's own time
limits (locks live for 60 s, clients rebalance every 20 s). Plan: what needs an empty slave or a restarted master comes
first (offsets below the oldest message); then everybody runs in peace for some rounds; then all troubles at once.
Only the archive's group may read from the slave: a broker takes every message for a distant one, so that setting
would move everybody's reads.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard_peers import incident_groups as groups
from offsetguard_peers.admin import Admin
from offsetguard_peers.clients import RunningConsumers, produce, producer_of, running_consumers
from offsetguard_peers.rocketmq import RocketMQCluster
from offsetguard_peers.staging import commit_at_end, move_min_offset_past_end

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from offsetguard_peers.clients import ConsumerSpec
    from offsetguard_peers.incident_groups import Pair

EVERY_S = 5
PEACEFUL_ROUNDS = 2
TROUBLED_ROUNDS = 17  # rates of a minute must pass, and the minute that a killed client's locks live
PATIENCE_S = 300.0
OVERTAKEN_COUNT = 100  # messages of the stock that are deleted before they are read
ABANDONED_COUNT = 2_000  # messages for a group whose clients are gone
BACKLOG = 20_000


@dataclass(slots=True)
class StagedRun:
    """What was staged, and what was recorded of it."""

    version: str
    bundle: Path
    namesrv: str
    began: dict[str, int] = field(default_factory=dict)  # what happened -> unix ms
    clients: dict[str, list[str]] = field(default_factory=dict)  # who -> client ids
    offsets: dict[str, Mapping[int, int]] = field(default_factory=dict)  # what -> queue id -> offset

    def rounds_ms(self) -> list[int]:
        """When each recorded round began."""
        meta = self.bundle / "meta.json"
        return json.loads(meta.read_text()).get("rounds_ms", []) if meta.exists() else []


def stage_incidents(
    version: str, folder: Path, *, when_troubled: Callable[[StagedRun], None] | None = None
) -> StagedRun:
    """Stage everything and record it to `folder/bundle`; nothing runs any more when it returns.

    `when_troubled` is called near the end, while all troubles stand and the cluster still serves.
    """
    cluster = RocketMQCluster(version, slaves=1, folder=folder / "cluster")
    stage = _Stage(cluster, StagedRun(version, folder / "bundle", cluster.namesrv))
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        stage.prepare()
        stage.start_clients()
        stage.record(when_troubled or (lambda _: None))
    return stage.run


class _Stage:
    def __init__(self, cluster: RocketMQCluster, run: StagedRun) -> None:
        self.cluster, self.run = cluster, run
        self._admin = Admin(cluster)
        self._contexts = ExitStack()  # never left: the cluster kills its processes, which is quicker
        self._members: dict[str, RunningConsumers] = {}

    def prepare(self) -> None:
        """Topics, groups, and two groups whose offsets lie below the oldest message; then the slave."""
        self.cluster.start_namesrv()
        master, slave = self.cluster.brokers
        master.start()
        for pair, queues in groups.QUEUES.items():
            self._admin.create_topic(pair.topic, queues=queues)
            reads_slave = pair is groups.ARCHIVE
            self._admin.create_group(pair.group, brokerId=0, whichBrokerWhenConsumeSlowly=int(reads_slave))
        produce(self.cluster, groups.EXPORT.topic, 8)
        commit_at_end(self.cluster, *groups.EXPORT)
        self._fall_below_the_oldest_message()
        slave.start()

    def _fall_below_the_oldest_message(self) -> None:
        prices, stock = groups.PRICES.topic, groups.STOCK
        produce(self.cluster, prices, 8)
        produce(self.cluster, stock.topic, 8)
        commit_at_end(self.cluster, *stock)
        self.run.offsets["committed"] = self._ends(stock.topic)
        with running_consumers(self.cluster, [groups.BROADCASTING], folder=self._home("prices")) as cache:
            cache.wait_until_consumed(8)
            (client_id,) = cache.client_ids
        self.run.clients["prices"] = [client_id]
        self.run.offsets["requested"] = self._ends(prices)
        _forbid_to_write(cache.local_offsets_file(client_id, groups.PRICES.group))
        produce(self.cluster, stock.topic, OVERTAKEN_COUNT)
        move_min_offset_past_end(self.cluster, prices, stock.topic)
        self.run.offsets["oldest_prices"] = self._starts(prices)
        self.run.offsets["oldest_stock"] = self._starts(stock.topic)

    def start_clients(self) -> None:
        """Start the JVMs of those who run from the beginning, side by side."""
        starts: dict[str, Sequence[ConsumerSpec]] = {
            "standing": groups.STANDING,
            "holder": [groups.LOCK_HOLDER],
            "member-1": [groups.MEMBER],
            "member-2": [groups.MEMBER],
            "archive": [groups.SLAVE_READER],
        }
        with ThreadPoolExecutor(len(starts)) as pool:
            list(pool.map(lambda start: self._start(*start), starts.items()))

    def record(self, when_troubled: Callable[[StagedRun], None]) -> None:
        """Record rounds: some in peace, the others in trouble."""
        for pair, rate in groups.TRAFFIC.items():
            self._send(pair, int(rate * PATIENCE_S) + 1, rate_per_s=rate)
        folders = [f"--logs={one.name}-{one.broker_id}={one.log_folder}" for one in self.cluster.brokers]
        folders += [f"--logs={name}={one.log_file.parent}" for name, one in self._members.items()]
        folders.append(f"--logs=prices={self._home('prices') / 'logs' / 'rocketmqlogs'}")
        command = [sys.executable, "-m", "offsetguard.cli.main", "record", "--namesrv", self.cluster.namesrv, *folders]
        command += [f"--for={PATIENCE_S:.0f}s", f"--every={EVERY_S}s", "--out", str(self.run.bundle)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
            self._wait_for_rounds(recorder, PEACEFUL_ROUNDS)
            self._make_trouble()
            self._wait_for_rounds(recorder, PEACEFUL_ROUNDS + TROUBLED_ROUNDS - 3)
            when_troubled(self.run)
            self._wait_for_rounds(recorder, PEACEFUL_ROUNDS + TROUBLED_ROUNDS)
            recorder.send_signal(signal.SIGINT)
            _, said = recorder.communicate(timeout=PATIENCE_S)
        assert recorder.returncode == 0, said

    def _make_trouble(self) -> None:
        self._mark("killed")
        self._members["holder"].kill()
        self._mark("abandoned")
        produce(self.cluster, groups.EXPORT.topic, ABANDONED_COUNT)
        self._mark("poisoned")
        poison = {"key": groups.POISON_KEY, "queue_id": groups.POISON_QUEUE}
        produce(self.cluster, groups.POSTINGS.topic, 1, **poison)  # type: ignore[arg-type]
        self._mark("capped")
        self._send(groups.BOOKINGS, int(80 * PATIENCE_S), rate_per_s=80.0)
        self._mark("slowed")
        produce(self.cluster, groups.INVOICES.topic, 2_000)
        produce(self.cluster, groups.IMAGES.topic, 2_000)
        self._mark("filtered")
        for _ in range(10):
            produce(self.cluster, groups.ALARMS.topic, 450, tags=groups.OTHER_TAG)
            produce(self.cluster, groups.ALARMS.topic, 50, tags=groups.WANTED_TAG)
        self._mark("moved_to_slave")
        for broker in self.cluster.brokers:
            self._admin.configure(broker, accessMessageInMemoryMaxRatio=0)
        self._members["archive"].stop()
        produce(self.cluster, groups.ARCHIVE.topic, BACKLOG)
        self._start("archive", [groups.SLAVE_READER])
        self._mark("unwritable")
        self._start("prices", [groups.BROADCASTING, groups.OVERTAKEN])
        self._members["member-1"].stop()
        self._start("member-1", [groups.MEMBER])
        self._members["member-2"].stop()
        self._start("member-2", [groups.MEMBER])

    def _start(self, name: str, specs: Sequence[ConsumerSpec]) -> None:
        started = running_consumers(self.cluster, specs, folder=self._home(name))
        self._members[name] = self._contexts.enter_context(started)
        self.run.clients[name] = self._members[name].client_ids

    def _home(self, name: str) -> Path:
        return self.cluster.folder / "clients" / name

    def _send(self, pair: Pair, count: int, **options: object) -> None:
        producer_of(self.cluster).order(pair.topic, count, **options)

    def _mark(self, what: str) -> None:
        self.run.began[what] = time.time_ns() // 1_000_000

    def _ends(self, topic: str) -> dict[int, int]:
        return {queue_id: self._admin.max_offset(topic, queue_id) for _, queue_id in self._admin.queues(topic)}

    def _starts(self, topic: str) -> dict[int, int]:
        return {queue_id: self._admin.min_offset(topic, queue_id) for _, queue_id in self._admin.queues(topic)}

    def _wait_for_rounds(self, recorder: subprocess.Popen[str], count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.run.rounds_ms()) <= count:
            if recorder.poll() is not None or time.monotonic() > deadline:
                recorder.kill()
                msg = f"{len(self.run.rounds_ms())} of {count} rounds: {recorder.communicate()[1]}"
                raise TimeoutError(msg)
            time.sleep(0.1)


def _forbid_to_write(offsets_file: Path) -> None:
    """Let writing of a local offset file fail, also for root: clients write a .tmp (4.x) or .bak (5.x) first."""
    for ending in (".tmp", ".bak"):
        path = offsets_file.with_name(offsets_file.name + ending)
        path.unlink(missing_ok=True)
        path.mkdir()
