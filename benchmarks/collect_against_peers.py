"""OffsetGuard's round against mqadmin's and rocketmq-exporter's, on one real broker, in the same rounds.

    uv run python benchmarks/collect_against_peers.py [--rounds 5] [--waiting-share 0.02] [--exporter-jar FILE]

Compared are whole commands, from the start of the process to their last line or written snapshot:
    mqadmin consumerProgress                what operators type (published jars)
    offsetguard collect --namesrv ... --out the product's command
and, where its jar is given, one round of a *warm* rocketmq-exporter, after the others, whom it would disturb. Besides
the time: the CPU that the broker spent for it, less what it spends anyway in such a time (a broker with a thousand
groups online is never idle).
The aims are for the worst case, in which every group waits and so is a suspect; `--waiting-share` gives another one.
Everybody has the same rounds before those that count: a broker that was just started compiles its own code meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from many_groups import (
    OnlineGroups,
    commit_offsets,
    cpu_s,
    create_topics,
    send_messages,
    subscriptions,
)
from warm_exporter import WarmExporter

from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.jvm import OPEN_INTERNALS, java
from offsetguard_spark.jars import jar_paths

MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
MQADMIN_COMMAND, EXPORTER = "mqadmin consumerProgress", "rocketmq-exporter, warm round"
AIMS = {
    MQADMIN_COMMAND: {"times quicker, median": 30, "worst": 10, "times less broker CPU": 20},
    EXPORTER: {"times quicker, median": 50, "worst": 10, "times less broker CPU": 20},
}
PROGRAM = "from offsetguard.cli.main import main; main()"  # what the console script says
MESSAGES_PER_QUEUE = 5
AT_REST_S = 10.0  # of watching the broker while nobody collects
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
            Peer("offsetguard collect", lambda: run_offsetguard(cluster.namesrv, out)),
        ]
        if arguments.python:
            name = f"offsetguard collect by {arguments.python}"
            peers.append(Peer(name, lambda: run_offsetguard(cluster.namesrv, out, arguments.python)))
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
    parser.add_argument("--python", type=Path, help="another interpreter of this version, for a row of its own")
    parser.add_argument("--exporter-jar", type=Path, help="rocketmq-exporter, built from its source")
    return parser.parse_args()


def prepare(cluster: RocketMQCluster, groups: dict[str, list[str]], stack: ExitStack, waiting_share: float) -> None:
    """Bring the broker into the state that is compared; `waiting_share`: of the groups, those that are behind."""
    started = time.perf_counter()
    address = cluster.masters[0].address
    topics = sorted({topic for names in groups.values() for topic in names})
    create_topics(address, topics)
    send_messages(address, topics, MESSAGES_PER_QUEUE)
    stack.enter_context(OnlineGroups(address, groups))
    commit_offsets(address, groups, at_most=MESSAGES_PER_QUEUE, waiting_share=waiting_share)
    rows = sum(len(names) * 16 + 1 for names in groups.values())
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


def run_offsetguard(namesrv: str, out: Path, python: Path | None = None) -> None:
    program = [str(Path(sys.executable).with_name("offsetguard"))] if python is None else [str(python), "-c", PROGRAM]
    command = [*program, "collect", "--namesrv", namesrv]
    folder = out / f"{time.time_ns()}"
    # bytecode is kept, as after any ordinary installation: where PYTHONDONTWRITEBYTECODE is set, every start would
    # compile 300 modules again; the first round still does
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(out / "bytecode")}
    if python is not None:
        own = [path for path in sys.path[1:] if not path.startswith(sys.base_prefix)]
        environment["PYTHONPATH"] = os.pathsep.join(own)
    ended = subprocess.run(
        [*command, "--out", str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def check_figures(out: Path, groups: dict[str, list[str]]) -> None:
    """Every row that should be there is there, with a consumer offset and a max offset."""
    newest = max(out.glob("[0-9]*"))
    (file,) = newest.rglob("queue_snapshots.parquet")
    rows = pq.read_table(file)
    expected = sum(len(topics) * 16 + 1 for topics in groups.values())
    known = pc.sum(pc.and_(rows["consumer_offset"].is_valid(), rows["max_offset"].is_valid())).as_py()
    print(f"offsetguard: {known:,} of {expected:,} rows with consumer and max offset; {json.dumps(sizes(newest))}")
    assert known == expected == rows.num_rows


def sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(folder.rglob("*.parquet"))[:3]}


def check_aims(peers: list[Peer]) -> None:
    """Exit with 1 when the command is not as much quicker and cheaper than its peers as it is meant to be."""
    ours = next(peer for peer in peers if peer.name.startswith("offsetguard"))
    missed = []
    for peer in peers:
        aims = AIMS.get(peer.name)
        if aims is None:
            continue
        ratios = [theirs / own for theirs, own in zip(peer.seconds, ours.seconds, strict=True)]
        cpu = statistics.median(peer.broker_cpu_s) / statistics.median(ours.broker_cpu_s)
        found = {"times quicker, median": statistics.median(ratios), "worst": min(ratios), "times less broker CPU": cpu}
        missed += [
            f"{peer.name}: {what}: {found[what]:.1f} instead of {aim}"
            for what, aim in aims.items()
            if found[what] < aim
        ]
    if missed:
        sys.exit("; ".join(missed))


def print_ratios(peers: list[Peer]) -> None:
    ours = next(peer for peer in peers if peer.name.startswith("offsetguard"))
    print("\n| collector | seconds, median (range) | broker CPU, median | time / ours, median (worst) | CPU / ours |")
    print("|---|---|---|---|---|")
    for peer in peers:
        time_ratios = [theirs / own for theirs, own in zip(peer.seconds, ours.seconds, strict=True)]
        cpu = statistics.median(peer.broker_cpu_s)
        cpu_ratio = cpu / max(statistics.median(ours.broker_cpu_s), 0.01)
        spread = f"{min(peer.seconds):.2f} to {max(peer.seconds):.2f}"
        print(
            f"| {peer.name} | {statistics.median(peer.seconds):.2f} ({spread}) | {cpu:.2f} s"
            f" | {statistics.median(time_ratios):.1f} ({min(time_ratios):.1f}) | {cpu_ratio:.1f} |"
        )


if __name__ == "__main__":
    main()
