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
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from offsetguard_peers.processes import COMMAND
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, RunningConsumers, produce, producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import (
    commit_at_end,
    forbid_to_write,
    move_min_offset_past_end,
    wait_until_saved,
)
from offsetguard_peers.trials import incident_groups as groups
from offsetguard_peers.trials.incident_groups import Pair
from offsetguard_peers.trials.judged_rounds import QUEUE, kept_locks, lock_lines
from offsetguard_peers.waiting import wait_until

EVERY_S = 5
PEACEFUL_ROUNDS = 2
TROUBLED_ROUNDS = 26  # two minutes, after which who is overrun is named; a killed client's locks live one
PATIENCE_S = 900.0
_BROKERS_ZONE = timezone(timedelta(hours=8))  # of their logs, wherever they run
OFTEN_REBALANCING = {"rocketmq.client.rebalance.waitInterval": "5000"}  # of 4.x: 20 s; it asks again as often
OVERTAKEN_COUNT = 100  # messages of the stock that are deleted before they are read
ABANDONED_COUNT = 12_000  # messages for a group whose clients are gone: more than the default limit
BACKLOG = 8_000  # less than the default limit, and read for more than three minutes
SLOW_COUNT = 2_000
LASTING_COUNT = 120  # on one queue: more than is consumed between two commits, so no end is reached any more
FILTERED_COUNT, WANTED_COUNT = 5_000, 500  # one message in ten is for the group, evenly on each of its four queues
FILTERED_TAGS = [groups.OTHER_TAG] * 36 + [groups.WANTED_TAG] * 4


@dataclass(slots=True)
class StagedRun:
    """What was staged, and what was recorded of it."""

    version: str
    bundle: Path
    namesrv: str
    began: dict[str, int] = field(default_factory=dict)  # what happened -> unix ms
    clients: dict[str, list[str]] = field(default_factory=dict)  # who -> client ids
    offsets: dict[str, Mapping[int, int]] = field(default_factory=dict)  # what -> queue id -> offset
    blocked_queues: list[int] = field(default_factory=list)  # whose locks the killed client took along
    wanted_left: int | None = None  # messages that match the filter and were not consumed at the end
    kept_locks: bool = False  # by a redeployed member: real ones do at times
    slow_left: int | None = None  # messages of the slow consumer that were not consumed at the end

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
        for queue_id, end in self._ends(stock.topic).items():
            wait_until_saved(self.cluster.broker(), *stock, queue_id, end)
        with running_consumers(self.cluster, [groups.BROADCASTING], folder=self._home("prices")) as cache:
            cache.wait_until_consumed(8)
            (client_id,) = cache.client_ids
        self.run.clients["prices"] = [client_id]
        self.run.offsets["requested"] = self._ends(prices)
        forbid_to_write(cache.local_offsets_file(client_id, groups.PRICES.group))
        produce(self.cluster, stock.topic, OVERTAKEN_COUNT)
        move_min_offset_past_end(self.cluster, prices, stock.topic)
        self.run.offsets["oldest_prices"] = self._starts(prices)
        self.run.offsets["oldest_stock"] = self._starts(stock.topic)

    def start_clients(self) -> None:
        """Start the JVMs of those who run from the beginning, side by side."""
        starts: dict[str, Sequence[ConsumerSpec]] = {
            "holder": [groups.LOCK_HOLDER],
            "member-1": [groups.MEMBER],
            "member-2": [groups.MEMBER],
            "archive": [groups.SLAVE_READER],
            "busy": groups.BUSY_SPECS,
        }
        produce(self.cluster, groups.TRADES.topic, 4)
        with ThreadPoolExecutor(len(starts)) as pool:
            list(pool.map(lambda start: self._start(*start), starts.items()))
        self._members["holder"].wait_until_consumed(4, timeout_s=PATIENCE_S)  # it holds all locks, and gives half away
        self._start("standing", groups.STANDING)
        self._wait_until_the_filter_has_committed()

    def _wait_until_the_filter_has_committed(self) -> None:
        """Return once its offsets are known: what a filter lets through is counted between two commits."""
        produce(self.cluster, groups.ALARMS.topic, 2 * groups.QUEUES[groups.ALARMS], tags=groups.OTHER_TAG)
        self._wait_for_lag(groups.ALARMS, lambda lag: lag <= 0)

    def _wait_for_lag(self, pair: Pair, fits: Callable[[int], bool]) -> None:
        """Return once the lag of a group fits on every queue of the topic."""
        wait_until(
            lambda: all(map(fits, self._lags(pair))),
            lambda: f"other lags of {pair.group} on {pair.topic} than {self._lags(pair)}",
            timeout_s=PATIENCE_S,
            every_s=0.5,
        )

    def record(self, when_troubled: Callable[[StagedRun], None]) -> None:
        """Record rounds: some in peace, the others in trouble."""
        for pair, rate in groups.TRAFFIC.items():
            self._send(pair, int(rate * PATIENCE_S) + 1, rate_per_s=rate)
        folders = [f"--logs={one.name}-{one.broker_id}={one.log_folder}" for one in self.cluster.brokers]
        folders += [f"--logs={name}={one.log_file.parent}" for name, one in self._members.items()]
        folders.append(f"--logs=prices={self._home('prices') / 'logs' / 'rocketmqlogs'}")
        command = [*COMMAND, "record", "--namesrv", self.cluster.namesrv, *folders]
        command += [f"--for={PATIENCE_S:.0f}s", f"--every={EVERY_S}s", "--out", str(self.run.bundle)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
            self._wait_for_rounds(recorder, PEACEFUL_ROUNDS)
            peaceful_rounds = self._make_trouble()
            self._wait_for_rounds(recorder, peaceful_rounds + TROUBLED_ROUNDS - 3)
            when_troubled(self.run)
            self._wait_for_rounds(recorder, peaceful_rounds + TROUBLED_ROUNDS)
            self._wait_for_logs()
            self._wait_for_rounds(recorder, len(self.run.rounds_ms()) + 1)
            self._look_around()
            recorder.send_signal(signal.SIGINT)
            _, said = recorder.communicate(timeout=PATIENCE_S)
        assert recorder.returncode == 0, said

    def _wait_for_logs(self) -> None:
        """Return once the dead client's locks have expired, and the broadcasting one has asked thrice on each queue."""
        asked = 3 * groups.QUEUES[groups.PRICES]

        def expired() -> list[int] | None:
            refused = self._locks_of_the_dead("locked by other client")
            enough = len(self._log("broker.log", "correction offset", f"groupId={groups.PRICES.group},")) >= asked
            return refused if enough and refused == self._locks_of_the_dead("expired") else None

        what = f"{asked} corrected offsets in {self.cluster.broker().log_folder}, and an expired lock of each refused"
        self.run.blocked_queues = wait_until(expired, what, timeout_s=PATIENCE_S, every_s=0.5)

    def _look_around(self) -> None:
        """Note what only the clients and the broker know."""
        consumed = self._members["standing"].consumed(groups.ALARMS.group)
        self.run.slow_left = SLOW_COUNT - self._members["standing"].consumed(groups.INVOICES.group)
        self._mark("looked around")
        self.run.kept_locks = any(
            kept_locks(self.cluster, *groups.PAYMENTS, one) for one in self.run.clients["redeployed"]
        )
        self.run.wanted_left = WANTED_COUNT - consumed
        blocked = self._admin.committed(*groups.POSTINGS, groups.POISON_QUEUE)
        assert blocked is not None
        self.run.offsets["poison"] = {groups.POISON_QUEUE: blocked}

    def _locks_of_the_dead(self, *words: str) -> list[int]:
        """Return the queues of whose locks, held by the killed client, the broker has said this since it was killed."""
        (dead,) = self.run.clients["holder"]
        killed = datetime.fromtimestamp(self.run.began["killed"] // 1000, _BROKERS_ZONE).strftime("%Y-%m-%d %H:%M:%S")
        said = [
            line for line in lock_lines(self.cluster, f"topic={groups.TRADES.topic},", dead, *words) if line >= killed
        ]
        return sorted({int(match[1]) for line in said if (match := QUEUE.search(line))})

    def _log(self, file: str, *words: str) -> list[str]:
        """Return the lines of a log of the master with all of these words."""
        log = self.cluster.broker().log_folder / file
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return [line for line in lines if all(word in line for word in words)]

    def _make_trouble(self) -> int:
        """Make all of it; returns after how many rounds the last began that needs its minute."""
        self._mark("killed")
        self._members["holder"].kill()
        self._mark("abandoned")
        produce(self.cluster, groups.EXPORT.topic, ABANDONED_COUNT)
        self._mark("poisoned")
        poison = {"key": groups.POISON_KEY, "queue_id": groups.POISON_QUEUE}
        produce(self.cluster, groups.POSTINGS.topic, 1, **poison)  # type: ignore[arg-type]
        self._mark("capped")
        self._send(groups.BOOKINGS, int(80 * PATIENCE_S), rate_per_s=80.0)
        # A busy machine's producer comes late, and until a minute after an end was reached this may be a burst
        self._wait_for_lag(groups.BOOKINGS, lambda lag: lag > LASTING_COUNT)
        peaceful_rounds = len(self.run.rounds_ms()) - 1
        self._mark("slowed")
        produce(self.cluster, groups.INVOICES.topic, SLOW_COUNT)
        produce(self.cluster, groups.IMAGES.topic, SLOW_COUNT)
        together = (self._filter, self._read_from_slave, self._overtake, self._redeploy)
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(each) for each in together]:
                done.result()
        return peaceful_rounds

    def _filter(self) -> None:
        self._mark("filtered")
        produce(self.cluster, groups.ALARMS.topic, FILTERED_COUNT, tags=FILTERED_TAGS)

    def _read_from_slave(self) -> None:
        """Restart the consumers of a group, for the noise that this makes, and give it a distant backlog."""
        for broker in self.cluster.brokers:
            self._admin.configure(broker, accessMessageInMemoryMaxRatio=0)
        self._members["archive"].stop()
        self._start("archive", [groups.SLAVE_READER])
        self._mark("moved_to_slave")
        produce(self.cluster, groups.ARCHIVE.topic, BACKLOG)

    def _overtake(self) -> None:
        self._mark("unwritable")
        self._start("prices", [groups.BROADCASTING, groups.OVERTAKEN], java_properties=OFTEN_REBALANCING)

    def _redeploy(self) -> None:
        for name in ("member-1", "member-2"):
            self.run.clients.setdefault("redeployed", []).extend(self.run.clients[name])
            self._members[name].stop()
            self._start(name, [groups.MEMBER])

    def _start(
        self, name: str, specs: Sequence[ConsumerSpec], *, java_properties: Mapping[str, str] | None = None
    ) -> None:
        home = self._home(name)
        started = running_consumers(self.cluster, specs, folder=home, java_properties=java_properties)
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

    def _lags(self, pair: Pair) -> list[int]:
        return [end - (self._admin.committed(*pair, at) or 0) for at, end in self._ends(pair.topic).items()]

    def _starts(self, topic: str) -> dict[int, int]:
        return {queue_id: self._admin.min_offset(topic, queue_id) for _, queue_id in self._admin.queues(topic)}

    def _wait_for_rounds(self, recorder: subprocess.Popen[str], count: int) -> None:
        wait_until(
            lambda: len(self.run.rounds_ms()) > count or recorder.poll() is not None,
            lambda: f"{count} rounds; there were {len(self.run.rounds_ms())}",
            timeout_s=PATIENCE_S,
        )
        assert recorder.poll() is None, recorder.communicate()[1]
