"""Time and memory of `offsetguard collect` as the cluster grows: 81,000 offset rows per broker, up to 13 brokers.

    uv run python benchmarks/collect_a_million_rows.py [--rounds 3] [--brokers 1 2 4 8 13]

The brokers are scripted (a process of their own that answers with ready-made bytes), so that what is measured is our
side; the whole command is measured, from the start of the process to the written snapshot. "A later round" compares
with the snapshot of a minute before, as every round of the product does.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow.parquet as pq
from many_groups import QUEUES, subscriptions

from offsetguard.sources.rocketmq.codes import ResponseCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation

Answer = tuple[int, str | None, "Mapping[str, str] | None", bytes]

GROUPS, TOPICS, MESSAGES = 1000, 200, 20
MEMORY_LIMIT_MIB = 400


class _Kept:
    """Stands in for a conversation: keeps what the broker answers."""

    def __init__(self) -> None:
        self.arguments: Answer = (ResponseCode.SYSTEM_ERROR, "not answered", None, b"")

    def answer(
        self,
        _request: RemotingCommand,
        code: int = 0,
        remark: str | None = None,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        self.arguments = (code, remark, ext_fields, body)


@dataclass(slots=True)
class CannedBroker(ScriptedBroker):
    """Makes each answer once."""

    ready: dict[tuple[object, ...], Answer] = field(default_factory=dict)

    def answer(self, conversation: Conversation, request: RemotingCommand) -> None:
        """Answer from what was made before."""
        key = (request.code, *sorted(request.ext_fields.items()))
        if key not in self.ready:
            kept = _Kept()
            try:
                ScriptedBroker.answer(self, kept, request)  # type: ignore[arg-type]
                self.ready[key] = kept.arguments
            except KeyError:
                self.ready[key] = (ResponseCode.SYSTEM_ERROR, "not known here", None, b"")
        conversation.answer(request, *self.ready[key])


def canned_broker(name: str, seed: int) -> CannedBroker:
    """Return a broker with 1,000 online groups, 200 topics of 16 queues, and their retry topics."""
    chosen = random.Random(seed)  # noqa: S311 not a secret
    groups = subscriptions(GROUPS, TOPICS)
    topics = {topic: [(0, MESSAGES)] * QUEUES for names in groups.values() for topic in names}
    retries = {f"%RETRY%{group}": [(0, 0)] for group in groups}
    committed = {
        (topic, group): {queue_id: chosen.randint(0, MESSAGES) for queue_id in range(QUEUES)}
        for group, names in groups.items()
        for topic in names
    }
    committed |= {(f"%RETRY%{group}", group): {0: 0} for group in groups}
    return CannedBroker(
        name,
        topics=topics | retries,
        committed=committed,
        subscriptions={group: [*names, f"%RETRY%{group}"] for group, names in groups.items()},
    )


def serve(count: int, ready: Connection) -> None:
    """Be a cluster until the process is ended."""

    async def run() -> None:
        brokers = [canned_broker(f"broker-{number:02}", number) for number in range(count)]
        async with scripted_cluster(*brokers) as (name_server, _):
            ready.send(name_server)
            await asyncio.Event().wait()

    asyncio.run(run())


def collect(name_server: str, folder: Path) -> tuple[float, float, float]:
    """Run the command; returns wall seconds, CPU seconds and the largest resident memory in MiB."""
    command = [str(Path(sys.executable).with_name("offsetguard")), "collect", "--namesrv", name_server]
    started = time.perf_counter()
    process = subprocess.Popen([*command, "--out", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), told.decode()
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 2, 4, 8, 13])
    arguments = parser.parse_args()
    print(
        "| brokers | offset rows | seconds, median | CPU s | us of CPU per row | largest memory, MiB | a later round |"
    )
    print("|---|---|---|---|---|---|---|")
    context = multiprocessing.get_context("spawn")
    for count in arguments.brokers:
        ours, theirs = context.Pipe()
        cluster = context.Process(target=serve, args=(count, theirs), daemon=True)
        cluster.start()
        name_server = ours.recv()
        with tempfile.TemporaryDirectory() as folder:
            collect(name_server, Path(folder) / "warm")  # the answers are made now
            runs = [collect(name_server, Path(folder) / str(number)) for number in range(arguments.rounds)]
            (file,) = (Path(folder) / "0").rglob("queue_snapshots.parquet")
            rows = pq.read_metadata(file).num_rows
            time.sleep(60 - time.time() % 60 + 1)  # a snapshot is of a minute
            later = collect(name_server, Path(folder) / "0")  # goes on from the first one
        cluster.terminate()
        cluster.join()
        wall, cpu = (statistics.median(run[part] for run in runs) for part in (0, 1))
        memory = max(run[2] for run in (*runs, later))
        shown = f"{later[0]:.2f} s, {later[1]:.2f} s CPU, {later[2]:.0f} MiB"
        print(
            f"| {count} | {rows:,} | {wall:.2f} | {cpu:.2f} | {cpu / rows * 1e6:.1f} | {memory:.0f} | {shown} |",
            flush=True,
        )
    assert memory < MEMORY_LIMIT_MIB, f"{memory:.0f} MiB"


if __name__ == "__main__":
    main()
