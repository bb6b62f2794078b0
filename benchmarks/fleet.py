"""A fleet, one minute after the other: every cluster asked, published together and judged, and what each part costs.

    uv run python benchmarks/fleet.py [--size S] [--minutes 10] [--warm-up 5] [--apart] [--workers 0]

Goal: a minute is done within a minute, and costs what its rows cost, however many clusters they come from.
Plan: the brokers are scripted (one process, ready-made answers over real sockets); each minute, as it begins, is
collected, published on one warm Spark and judged by a process each, forked from one that has imported everything, as
Airflow forks its tasks. One group in twenty is behind and stands still. Seconds are counted from the start of the
collection; CPU and memory are those of each process. `--apart`: every second minute has a publication per cluster, to
compare with. `--workers N`: Spark works on so many workers of a standalone cluster (one core each) instead of in its
server. Exit code 1: a minute was not done within a minute.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from collect_a_million_rows import MESSAGES, CannedBroker
from many_groups import cpu_s

import offsetguard_expectations.checkpoint  # noqa: F401 - before processes are forked, as the scheduler does
from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.judge import judge_interval
from offsetguard.facts.published import read_interval_facts
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard_peers.processes import ReservedPort
from offsetguard_peers.scripted.broker import scripted_cluster
from offsetguard_peers.spark.standalone import StandaloneSpark
from offsetguard_spark.connect_server import ConnectServer
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.publish import Publisher
from offsetguard_spark.reports import Progress, Publication
from offsetguard_spark.session import session_when_needed

BEHIND_EACH = 20  # of so many groups one is behind
GROUPS_PER_TOPIC = 5
WORKER_MEMORY = "1500m"  # an executor of Spark's default size


@dataclass(frozen=True)
class Size:
    """Clusters, and what each has."""

    clusters: int
    groups: int
    topics: int  # that a group reads
    queues: int  # of a topic

    def __str__(self) -> str:
        """Say it in words."""
        groups = self.clusters * self.groups
        pairs = groups * self.topics * self.queues
        return f"{self.clusters} clusters, {groups:,} groups, {pairs:,} group-queues and {groups:,} of retry topics"


SIZES = {
    "S": Size(5, 200, 5, 16),
    "M": Size(10, 500, 5, 20),
    "L": Size(100, 50, 2, 10),
    "XL": Size(10, 2_000, 5, 20),
}


def broker_of(size: Size, seed: int) -> CannedBroker:
    """Return the broker of one cluster: all groups are online."""
    chosen = Random(seed)  # noqa: S311 not a secret
    names = [f"orders-{number:03}" for number in range(max(size.groups // GROUPS_PER_TOPIC, size.topics))]
    groups = {f"service-{number:04}": sorted(chosen.sample(names, size.topics)) for number in range(size.groups)}
    committed = {
        (topic, group): dict.fromkeys(range(size.queues), 0 if number % BEHIND_EACH == 0 else MESSAGES)
        for number, (group, topics) in enumerate(groups.items())
        for topic in topics
    }
    return CannedBroker(
        "broker-a",
        topics={topic: [(0, MESSAGES)] * size.queues for topic in names}
        | {f"%RETRY%{one}": [(0, 0)] for one in groups},
        committed=committed | {(f"%RETRY%{group}", group): {0: 0} for group in groups},
        subscriptions={group: [*topics, f"%RETRY%{group}"] for group, topics in groups.items()},
    )


def serve(size: Size, ready: Connection) -> None:
    """Be all clusters until the process is ended; sends the address of each one's name server."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            worlds = (scripted_cluster(broker_of(size, number)) for number in range(size.clusters))
            ready.send([(await stack.enter_async_context(world))[0] for world in worlds])
            await asyncio.Event().wait()

    asyncio.run(run())


@dataclass(frozen=True)
class Cost:
    """Of one process, or of several one after the other."""

    seconds: float
    cpu_s: float
    memory_mib: float


def in_process(work: Callable[[], None]) -> Cost:
    """Do something in a process that is forked for it; raises RuntimeError where it fails."""
    started = time.perf_counter()
    if not (process_id := os.fork()):
        code = 1
        try:
            with redirect_stdout(StringIO()):
                work()
            code = 0
        except BaseException:  # noqa: BLE001 the parent raises
            traceback.print_exc()
        os._exit(code)
    _, status, usage = os.wait4(process_id, 0)
    if status:
        raise RuntimeError("a step failed; its traceback is above")
    return Cost(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class Fleet:
    """What watches the clusters: its workspace, its warm Spark, and the steps of a minute."""

    def __init__(self, folder: Path, addresses: list[str], server: ConnectServer) -> None:
        self._server_pid = server.start()
        self._server_environment = server.client_environment
        home = folder / "home"
        self.workspace = Workspace(home, folder / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        self.config = Config.model_validate(
            {
                "clusters": {f"c{number:03}": {"name_servers": [one]} for number, one in enumerate(addresses)},
                "teams": {"ops": {"mail": ["ops@example.org"]}},
                "default_team": "ops",
            }
        )

    def collect(self, interval: Interval) -> None:
        """Ask all clusters side by side."""

        async def run() -> list[Manifest]:
            now = datetime.now(UTC)
            landing = self.workspace.landing_folder
            return await asyncio.gather(
                *(collect_cluster(one, self.config, interval, landing, started_at=now) for one in self.config.clusters)
            )

        for manifest in asyncio.run(run()):
            assert manifest.complete, manifest.gaps[:3]

    def publish(self, interval: Interval, clusters: list[str]) -> None:
        """Publish what has landed of some clusters, in one session."""
        engine = open_database(self.workspace.database_url)
        with session_when_needed(self.workspace, self._server_environment) as start_spark:
            publisher = Publisher(self.workspace, self.config, engine, start_spark, Progress(print))
            publication = Publication()
            publisher.publish_together(Minutes(tuple(clusters), (interval,)), publication, now=datetime.now(UTC))
        assert not publication.failed, publication.failed

    def judge(self, interval: Interval) -> None:
        """Judge each cluster."""
        engine = open_database(self.workspace.database_url)
        for cluster in self.config.clusters:
            published = published_intervals.get(engine, cluster, interval)
            assert published is not None
            facts = read_interval_facts(self.workspace, published, Manifest.from_json(published.manifest_json))
            judge_interval(engine, facts, self.config, now=datetime.now(UTC))

    def minute(self, *, apart: bool) -> dict[str, Cost]:
        """Play the minute that begins now."""
        interval = Interval.containing(datetime.now(UTC))
        server_before = cpu_s(self._server_pid)
        costs = {"collect": in_process(lambda: self.collect(interval))}
        clusters = list(self.config.clusters)
        shares = [[one] for one in clusters] if apart else [clusters]
        published = [in_process(lambda share=share: self.publish(interval, share)) for share in shares]  # type: ignore[misc]
        seconds, cpu, memory = zip(*((one.seconds, one.cpu_s, one.memory_mib) for one in published), strict=True)
        costs["publish"] = Cost(sum(seconds), sum(cpu), max(memory))
        costs["judge"] = in_process(lambda: self.judge(interval))
        costs["Spark"] = Cost(0, cpu_s(self._server_pid) - server_before, _peak_mib(self._server_pid))
        return costs


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def running(size: Size, workers: int) -> Iterator[Fleet]:
    """Run brokers and Spark; gives the fleet."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    brokers = multiprocessing.get_context("spawn").Process(target=serve, args=(size, theirs), daemon=True)
    brokers.start()
    port = ReservedPort()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = StandaloneSpark(folder, workers=workers, worker_memory=WORKER_MEMORY) if workers else None
        master = stack.enter_context(cluster).master if cluster is not None else "local[2]"
        server = ConnectServer(folder / "spark-server", port.port, master=master)
        try:
            yield Fleet(folder, ours.recv(), server)
        finally:
            server.stop()
            port.release()
            brokers.terminate()
            brokers.join()


def main() -> int:
    """Measure, and say whether each minute was done within one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="S")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=5, help="minutes before")
    parser.add_argument("--apart", action="store_true", help="each second minute has a publication per cluster")
    parser.add_argument("--workers", type=int, default=0, help="of a standalone Spark; 0: the server works itself")
    options = parser.parse_args()
    size = SIZES[options.size]
    print(f"{options.size}: {size}", flush=True)
    measured: dict[bool, list[dict[str, Cost]]] = defaultdict(list)
    with running(size, options.workers) as fleet:
        for number in range(options.warm_up + options.minutes):
            time.sleep(60 - time.time() % 60 + 0.1)
            apart = options.apart and number % 2 == 1
            costs = fleet.minute(apart=apart)
            shown = "  ".join(f"{name} {one.seconds:.1f} s, {one.cpu_s:.1f} s CPU" for name, one in costs.items())
            done = sum(one.seconds for one in costs.values())
            print(f"{number:3} {'apart' if apart else 'as one'}: done after {done:.1f} s  {shown}", flush=True)
            if number >= options.warm_up:
                measured[apart].append(costs)
    for apart, minutes in measured.items():
        print(f"\n{len(minutes)} minutes, {'a publication per cluster' if apart else 'one publication'}, medians")
        print("part      seconds   CPU s   peak MiB")
        for name in minutes[0]:
            seconds, cpu, peak = (
                statistics.median(values)
                for values in zip(
                    *((one[name].seconds, one[name].cpu_s, one[name].memory_mib) for one in minutes), strict=True
                )
            )
            print(f"{name:8} {seconds:8.1f} {cpu:7.1f} {peak:10.0f}")
    longest = max(sum(one.seconds for one in costs.values()) for costs in measured[False])
    print(f"\nlongest minute: {longest:.1f} s (bound: 60)")
    return 0 if longest < 60 else 1


if __name__ == "__main__":
    sys.exit(main())
