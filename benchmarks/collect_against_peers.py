"""OffsetGuard's round against mqadmin's and rocketmq-exporter's, on one real broker, in the same rounds.

    uv run python benchmarks/collect_against_peers.py [--rounds 5] [--waiting-share 0.02] [--exporter-jar FILE]

Compared, one after the other in each round:
    mqadmin consumerProgress                what operators type (published jars), the whole command
    offsetguard, warm round                 a process that has collected before, as a task of the pipeline
    offsetguard collect                     the whole command, from the start of the process to the written snapshot
and, where its jar is given, one round of a *warm* rocketmq-exporter, after the others, whom it would disturb. Besides
the time: the CPU that the broker spent for it, less what it spends anyway in such a time (a broker with a thousand
groups online is never idle).
The aims are for the worst case, in which every group waits and so is a suspect; `--waiting-share` gives another one.
Everybody has the same rounds before those that count: a broker that was just started compiles its own code meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import pyarrow.compute as pc
import pyarrow.parquet as pq
from many_groups import QUEUES, OnlineGroups, commit_offsets, cpu_s, subscriptions

from offsetguard.cli.parameters import default_config
from offsetguard.collect.collector import collect_cluster
from offsetguard.model.intervals import Interval
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.jvm import OPEN_INTERNALS, java
from offsetguard_spark.jars import jar_paths

MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
MQADMIN_COMMAND, EXPORTER = "mqadmin consumerProgress", "rocketmq-exporter, warm round"
WARM, COMMAND = "offsetguard, warm round", "offsetguard collect"
# (peer, ours) -> how many times quicker in the median and in the worst round, how much less CPU of the broker
AIMS = {(MQADMIN_COMMAND, WARM): (30, 10, 20), (MQADMIN_COMMAND, COMMAND): (12, 4, 20), (EXPORTER, WARM): (50, 10, 20)}
MESSAGES_PER_QUEUE = 5
AT_REST_S = 10.0  # of watching the broker while nobody collects
EXPORTER_WITHIN_S = 600
_STARTED = re.compile(r"INFO consumer offset collection task starting\.+")
_FINISHED = re.compile(r"INFO consumer offset collection task finished\.+([0-9]+)")
SETTLE_S = 3.0  # what the broker does after the last answer belongs to the round: memory to clean up, code to compile


@dataclass
class Peer:
    """One way to collect, and what its rounds cost."""

    name: str
    run: Callable[[], float | None]  # returns the round's seconds where waiting for it took longer than it did
    seconds: list[float] = field(default_factory=list)
    broker_cpu_s: list[float] = field(default_factory=list)


def main() -> None:
    arguments = parsed_arguments()
    with ExitStack() as stack:
        cluster = stack.enter_context(RocketMQCluster(arguments.version))
        broker = cluster.masters[0]
        groups = subscriptions(arguments.groups, arguments.topics)
        prepare(cluster, groups, stack, arguments.waiting_share)
        out = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peers = [
            Peer(MQADMIN_COMMAND, lambda: run_mqadmin(cluster)),
            Peer(WARM, stack.enter_context(WarmRounds(cluster.namesrv, out)).collect),
            Peer(COMMAND, lambda: run_offsetguard(cluster.namesrv, out)),
        ]
        for peer in peers * arguments.warm_up:
            peer.run()
        time.sleep(SETTLE_S)
        assert broker.pid is not None
        at_rest = cpu_at_rest(broker.pid)
        print(f"at rest the broker spends {at_rest:.3f} s CPU in a second; this is taken off")
        for number in range(1, arguments.rounds + 1):
            for peer in peers:
                measure(peer, broker.pid, at_rest, number)
        if arguments.exporter_jar:
            exporter = stack.enter_context(WarmExporter(arguments.exporter_jar, cluster, out))
            peers.append(Peer(EXPORTER, exporter.wait_for_end))
            for number in range(1, arguments.rounds + 1):
                exporter.wait_for_start()
                measure(peers[-1], broker.pid, at_rest, number)
        check_figures(out, groups)
        print_ratios(peers)
        check_aims(peers)


def measure(peer: Peer, broker_pid: int, at_rest: float, number: int) -> None:
    """Let a peer do one round; keep its seconds and the broker's CPU, less what that spends at rest."""
    cpu_before, started = cpu_s(broker_pid), time.perf_counter()
    seconds = peer.run()
    peer.seconds.append(time.perf_counter() - started if seconds is None else seconds)
    time.sleep(SETTLE_S)
    took_s = time.perf_counter() - started
    peer.broker_cpu_s.append(cpu_s(broker_pid) - cpu_before - at_rest * took_s)
    print(
        f"round {number}: {peer.name}: {peer.seconds[-1]:.2f} s, broker {peer.broker_cpu_s[-1]:.2f} s CPU", flush=True
    )


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="5.3.3", help="RocketMQ version (default: 5.3.3)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--waiting-share", type=float, default=1.0, help="of the groups, 0 to 1 (default: all wait)")
    parser.add_argument("--warm-up", type=int, default=6, help="rounds of everybody that do not count")
    parser.add_argument("--exporter-jar", type=Path, help="rocketmq-exporter, built from its source")
    return parser.parse_args()


def prepare(cluster: RocketMQCluster, groups: dict[str, list[str]], stack: ExitStack, waiting_share: float) -> None:
    """Bring the broker into the state that is compared; `waiting_share`: of the groups, those that are behind."""
    started = time.perf_counter()
    address = cluster.masters[0].address
    topics = sorted({topic for names in groups.values() for topic in names})
    for topic in topics:
        Admin(cluster).create_topic(topic, queues=QUEUES)
        produce(cluster, topic, MESSAGES_PER_QUEUE * QUEUES, body_bytes=100)  # to one queue after the other
    stack.enter_context(OnlineGroups(address, groups))
    commit_offsets(address, groups, at_most=MESSAGES_PER_QUEUE, waiting_share=waiting_share)
    rows = sum(len(names) * QUEUES + 1 for names in groups.values())
    took_s = time.perf_counter() - started
    state = f"{len(groups)} groups online, {waiting_share:.0%} of them behind, {len(topics)} topics, {rows:,} offsets"
    print(f"{cluster.version}: {state} ({took_s:.0f} s)")
    time.sleep(15)  # let the JVM and the name server come to rest


def cpu_at_rest(pid: int) -> float:
    """Return the CPU seconds that a process spends in a second while nobody asks it anything."""
    before = cpu_s(pid)
    time.sleep(AT_REST_S)
    return (cpu_s(pid) - before) / AT_REST_S


def run_mqadmin(cluster: RocketMQCluster) -> None:
    class_path = os.pathsep.join(map(str, jar_paths(f"rocketmq-{cluster.version}")))
    environment = {**os.environ, "ROCKETMQ_HOME": str(cluster.home), "NAMESRV_ADDR": cluster.namesrv}
    command = [java(), *OPEN_INTERNALS, f"-Duser.home={cluster.folder}", "-cp", class_path, MQADMIN, "consumerProgress"]
    ended = subprocess.run(
        [*command, "-n", cluster.namesrv], env=environment, capture_output=True, text=True, check=True
    )
    shown = [line for line in ended.stdout.splitlines() if line.startswith("GID_svc_order_")]
    assert shown, ended.stdout[-2000:]


def run_offsetguard(namesrv: str, out: Path) -> None:
    command = [str(Path(sys.executable).with_name("offsetguard")), "collect", "--namesrv", namesrv]
    command += ["--out", str(out / f"{time.time_ns()}")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


class WarmRounds:
    """A process that collects a round whenever it is asked to; entered, it has imported everything."""

    def __init__(self, namesrv: str, out: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=collect_when_asked, args=(theirs, namesrv, out), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()

    def collect(self) -> float:
        """Return the seconds that a round took."""
        self._connection.send(None)
        return float(self._connection.recv())


def collect_when_asked(connection: Connection, namesrv: str, out: Path) -> None:
    config = default_config({"main": [namesrv]})
    while True:
        connection.recv()
        started, now = time.perf_counter(), datetime.now(UTC)
        landing = out / f"{time.time_ns()}"
        manifest = asyncio.run(collect_cluster("main", config, Interval.containing(now), landing, started_at=now))
        assert not manifest.unseen_broker_names
        connection.send(time.perf_counter() - started)


def check_figures(out: Path, groups: dict[str, list[str]]) -> None:
    """Every row that should be there is there, with a consumer offset and a max offset."""
    newest = max(out.glob("[0-9]*"))
    (file,) = newest.rglob("queue_snapshots.parquet")
    rows = pq.read_table(file)
    expected = sum(len(topics) * QUEUES + 1 for topics in groups.values())
    known = pc.sum(pc.and_(rows["consumer_offset"].is_valid(), rows["max_offset"].is_valid())).as_py()
    print(f"offsetguard: {known:,} of {expected:,} rows with consumer and max offset; {json.dumps(sizes(newest))}")
    assert known == expected == rows.num_rows


def sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(folder.rglob("*.parquet"))[:3]}


def compared(theirs: Peer, ours: Peer) -> tuple[float, float, float]:
    """Return how many times quicker we are in the median and in the worst round, and how much less CPU it takes."""
    ratios = [slow / quick for slow, quick in zip(theirs.seconds, ours.seconds, strict=True)]
    cpu = statistics.median(theirs.broker_cpu_s) / max(statistics.median(ours.broker_cpu_s), 0.01)
    return statistics.median(ratios), min(ratios), cpu


def check_aims(peers: list[Peer]) -> None:
    """Exit with 1 when we are not as much quicker and cheaper than the peers as we are meant to be."""
    by_name = {peer.name: peer for peer in peers}
    missed = [
        f"{theirs} / {ours}: {what} {found:.1f} instead of {aim}"
        for (theirs, ours), aims in AIMS.items()
        if theirs in by_name
        for what, found, aim in zip(
            ("times quicker, median", "worst", "times less broker CPU"),
            compared(by_name[theirs], by_name[ours]),
            aims,
            strict=True,
        )
        if found < aim
    ]
    if missed:
        sys.exit("; ".join(missed))


def print_ratios(peers: list[Peer]) -> None:
    ours = [next(peer for peer in peers if peer.name == name) for name in (WARM, COMMAND)]
    heads = " | ".join(f"time / {one.name}, median (worst) | CPU" for one in ours)
    print(f"\n| collector | seconds, median (range) | broker CPU, median | {heads} |")
    print("|---|---|---|" + "---|---|" * len(ours))
    for peer in peers:
        cells = " | ".join("{:.1f} ({:.1f}) | {:.1f}".format(*compared(peer, one)) for one in ours)
        spread = f"{min(peer.seconds):.2f} to {max(peer.seconds):.2f}"
        cpu = statistics.median(peer.broker_cpu_s)
        print(f"| {peer.name} | {statistics.median(peer.seconds):.2f} ({spread}) | {cpu:.2f} s | {cells} |")


class WarmExporter:
    """A running rocketmq-exporter; entered, it has done its first round.

    It collects in the 15th second of every minute, several tasks at once, and does so while others are measured: so it
    runs alone, when they are done. Its own log says when its longest task, the offsets of all consumer groups, starts
    and ends; what it asks of clients goes on for longer and is not counted in its favour or against it.
    """

    def __init__(self, jar: Path, cluster: RocketMQCluster, out: Path) -> None:
        self._log = out / "exporter.log"
        self._command = [
            java(),
            f"-Duser.home={out}",
            "-jar",
            str(jar),
            f"--rocketmq.config.namesrvAddr={cluster.namesrv}",
            "--server.port=0",
            "--grpc.server.port=0",
        ]

    def __enter__(self) -> WarmExporter:
        self._output = self._log.open("w")
        self._process = subprocess.Popen(self._command, stdout=self._output, stderr=subprocess.STDOUT)
        self.wait_for_start()
        self.wait_for_end()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._output.close()

    def wait_for_start(self) -> None:
        """Return when a further round has started."""
        self._wait_for(_STARTED, 1 + len(_STARTED.findall(self._log.read_text())))

    def wait_for_end(self) -> float:
        """Return how long the round took that was waited for, seconds, as its log says."""
        self._wait_for(_FINISHED, len(_STARTED.findall(self._log.read_text())))
        return int(_FINISHED.findall(self._log.read_text())[-1]) / 1000

    def _wait_for(self, line: re.Pattern[str], count: int) -> None:
        deadline = time.monotonic() + EXPORTER_WITHIN_S
        while len(line.findall(self._log.read_text())) < count:
            assert self._process.poll() is None, f"the exporter ended: {self._log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"no {line.pattern} within {EXPORTER_WITHIN_S} s: {self._log}"
            time.sleep(0.05)


if __name__ == "__main__":
    main()
