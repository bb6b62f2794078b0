"""What a round takes at most, whatever brokers say: bytes, and its share of a minute."""

import asyncio
import fcntl
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import read_manifest, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.collect.replica import CUT_OFF
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster, when
from offsetguard_peers.scripted.rounds import INTERVAL, NOW, config_for, healthy_broker

ROUNDS = """
import asyncio, gc, json, re, sys
from datetime import timedelta
from pathlib import Path

from offsetguard.collect.collector import collect_cluster
from offsetguard.model.intervals import Interval
from offsetguard_peers.scripted.rounds import INTERVAL, config_for

def peak_bytes():  # of this program: getrusage would tell of the one that started it, too
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

config, before, told = config_for(sys.argv[1]), peak_bytes(), []
for minute in range(int(sys.argv[3])):
    one = Interval(INTERVAL.start + timedelta(minutes=minute))
    collecting = collect_cluster("main", config, one, Path(sys.argv[2]), started_at=one.end, deadline_s=600.0)
    manifest = asyncio.run(collecting)
    told.append([manifest.row_counts["queue_snapshots"], [gap.what for gap in manifest.gaps]])
print(json.dumps([peak_bytes() - before, told]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "told", "most_bytes"),
    [
        ((8, 75, 1_000), [600_000, []], 600),
        ((1, 1, 600_000), [0, ["all pairs of topic and group with offsets"]], 600),  # one client that makes up names
        ((1, 1, 100_000), [100_000, []], 2_400),  # those that are taken make a row of a group each, too
    ],
)
def test_an_offset_of_one_broker_costs_no_more_than_so_many_bytes(
    shape: tuple[int, int, int], told: object, most_bytes: int, tmp_path: Path
) -> None:
    """At the peak of the second round, which compares all of them with those of the first."""
    queues, topics, groups = shape
    offsets = ",".join(f"{queue_id}:{queue_id}" for queue_id in range(queues))
    pairs = (f'"t{topic}@g{group}":{{{offsets}}}' for topic, group in product(range(topics), range(groups)))
    body = f'{{"offsetTable":{{{",".join(pairs)}}}}}'.encode()
    broker = ScriptedBroker("broker-a", topics={f"t{topic}": [(0, 10)] * queues for topic in range(topics)})
    broker.trouble = when(
        lambda request: request.code == RequestCode.GET_ALL_CONSUMER_OFFSET,
        lambda conversation, request: conversation.answer(request, body=body),
    )

    async def measure() -> bytes:
        async with scripted_cluster(broker) as (name_server, _):
            asked = (sys.executable, "-c", ROUNDS, name_server, str(tmp_path), "2")
            process = await asyncio.create_subprocess_exec(*asked, stdout=asyncio.subprocess.PIPE)
            printed, _ = await process.communicate()
            return printed

    peak_bytes, of_rounds = json.loads(asyncio.run(measure()))
    assert of_rounds == [told, told]
    assert peak_bytes / (queues * topics * groups) <= most_bytes


class SkippedTime(asyncio.SelectorEventLoop):
    """A loop whose clock can be set ahead: as if the work between two of its turns had taken so long."""

    skipped_s = 0.0

    def time(self) -> float:
        return super().time() + self.skipped_s


@contextmanager
def hanging(file: Path) -> Iterator[None]:
    """Let everybody hang who opens a file, as on a server that is away: they wait until its lease is given back."""
    heeded = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the system asks for it
    try:
        with file.open("r+") as leased:
            fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            yield
            fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    finally:
        signal.signal(signal.SIGIO, heeded)


def test_a_file_system_that_hangs_costs_the_logs_and_not_the_round(tmp_path: Path) -> None:
    log, loop, broker = tmp_path / "broker.log", SkippedTime(), healthy_broker()
    log.write_text(
        "2026-11-21 18:38:00 WARN PullMessageThread_1 - PULL_OFFSET_MOVED:correction offset. topic=orders,"
        " groupId=billing, requestOffset=1, newOffset=500, suggestBrokerId=0\n"
    )

    def skip(*_: object) -> bool:
        loop.skipped_s = 16.0  # of 40: logs may take 15, brokers 30
        return False

    broker.trouble = when(skip, lambda *_: None)

    async def collect(interval: Interval) -> Manifest:
        async with scripted_cluster(broker) as (name_server, _):
            config = config_for(name_server, logs=[{"name": "broker-a", "files": [str(log)]}])
            return await collect_cluster("main", config, interval, tmp_path / "landed", started_at=interval.end)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        with hanging(log):
            manifest = runner.run(collect(INTERVAL))
        told = {gap.what: gap.reason for gap in manifest.gaps}
        assert list(told) == ["log broker-a"]
        assert f"{log}: the file system has not answered for 15" in told["log broker-a"]
        assert manifest.row_counts["queue_snapshots"] == 2
        loop.skipped_s, broker.trouble = 0.0, None
        assert runner.run(collect(Interval(INTERVAL.end))).row_counts["log_events"] == 1


def test_work_that_takes_longer_than_a_round_ends_it_and_lands_what_is_there(tmp_path: Path) -> None:
    loop, broker = SkippedTime(), healthy_broker()

    def take_long(*_: object) -> None:
        loop.skipped_s = 30.0  # of 40, less than a request may take that is not answered

    broker.trouble = when(lambda request: request.code == RequestCode.GET_TOPIC_STATS_INFO, take_long)

    async def collect() -> None:
        async with scripted_cluster(broker) as (name_server, _):
            await collect_cluster("main", config_for(name_server), INTERVAL, tmp_path, started_at=NOW)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(collect())
    folder = snapshot_folder(tmp_path, "main", INTERVAL)
    told = {gap.what: gap.reason for gap in read_manifest(folder).gaps}
    assert told["the rest of the round"] == CUT_OFF
    queues = read_table(folder, QUEUE_SNAPSHOTS).to_pylist()
    assert [(row["consumer_offset"], row["max_offset"]) for row in queues] == [(10, None), (15, None)]
