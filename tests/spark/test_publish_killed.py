"""A driver killed with SIGKILL at any step leaves readers on the last good state, and the rerun repairs what it left.

The drivers are the real job in processes of their own, against one warm Spark Connect server.
"""

import os
import re
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.database import open_database
from offsetguard.tables import QUEUE_STATE
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.lake.readers import Readers
from offsetguard_peers.spark.publish_driver import running_job
from offsetguard_spark.connect import TOKEN_VARIABLE
from offsetguard_spark.connect_server import ConnectServer

pytestmark = pytest.mark.slow

CLUSTERS = ("demo", "other")  # both in each publication
STEPS_BEFORE_SHOWN = (
    "landed",
    "session",
    "tables",
    "write",
    "state",
    "facts",
    "gate",
    "results",
    "forward",
    "show",
)
AMIDST = ("write", "facts", "results", "forward")  # killed once more there, after a first commit
LOOKS_APART_S = 0.005  # less than between two commits, and the job has the processor
OCCUPIES_ALL_CORES = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.registerProgressHandler(lambda inflight_tasks, **_: print(inflight_tasks, "tasks", flush=True))
spark.range(0, 2, 1, 2).selectExpr("java_method('java.lang.Thread', 'sleep', 600000L)").collect()
"""
NEEDS_A_CORE = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print(spark.range(0, 4, 1, 2).selectExpr("sum(id)").collect()[0][0])
spark.stop()
"""
ENDED_WITHIN_S = 30.0  # 16, and what a client takes to start
LARGEST_FILE_BYTES = 200_000  # enough for metadata and the catalog, not for the rows


@dataclass(frozen=True)
class Jobs(Readers):
    """Runs the job on a workspace and reads what readers see."""

    server: ConnectServer

    @property
    def environment(self) -> dict[str, str]:
        connect = {"SPARK_REMOTE": self.server.remote, TOKEN_VARIABLE: self.server.token}
        return self.workspace.variables | connect

    def run(self, interval: Interval, *, again: bool = True) -> tuple[int, list[str]]:
        """Run it to its end; returns exit code and lines."""
        with running_job(self.environment, _arguments(interval, again=again)) as job:
            lines = list(job.lines())
            job.process.join()
            assert job.process.exitcode is not None
            return job.process.exitcode, lines

    def kill_at(self, step: str, interval: Interval, *, amidst: bool, again: bool = True) -> None:
        """Kill it when it announces a step, or after the first commit of that step."""
        with running_job(self.environment, _arguments(interval, again=again)) as job:
            seen = []
            for line in job.lines():
                seen.append(line)
                if line.startswith(f"{step}:"):
                    break
            assert seen[-1].startswith(f"{step}:"), seen
            before = self.commits()
            while amidst and job.process.is_alive() and self.commits() == before:
                time.sleep(LOOKS_APART_S)
            job.kill()

    def commits(self) -> list[tuple[str, str]]:
        """Return what the catalog says of every table: it changes with each commit."""
        if not self.workspace.catalog_file.exists():
            return []
        with closing(sqlite3.connect(self.workspace.catalog_file, timeout=60)) as catalog:
            return catalog.execute("SELECT table_name, metadata_location FROM iceberg_tables ORDER BY 1").fetchall()


def _arguments(interval: Interval, *, again: bool) -> list[str]:
    """`--again`: both clusters in one publication, however often that failed; without it all that waits."""
    asked_for = [*(f"--cluster={one}" for one in CLUSTERS), "--interval-start", interval.start.isoformat()]
    return [*asked_for, "--again"] if again else asked_for


@pytest.fixture
def jobs(workspace: Workspace, spark_server: ConnectServer) -> Jobs:
    config = one_team_text(**dict.fromkeys(CLUSTERS, "127.0.0.1:9876"))
    workspace.config_file.write_text(config, encoding="utf-8")
    return Jobs(workspace, spark_server)


@pytest.fixture
def first(jobs: Jobs, snapshot: Any) -> Interval:
    """Publish an interval."""
    snapshot.queue("g", "orders", 0, (0, 5, 9))
    snapshot.topic_queue("orders", 0, 0, 9)
    _land(snapshot, jobs)
    assert jobs.run(snapshot.interval)[0] == 0
    return Interval(snapshot.interval.start)


def _land(snapshot: Any, jobs: Jobs) -> None:
    """Land the same of each cluster."""
    for cluster in CLUSTERS:
        rows = {name: [row | {"cluster": cluster} for row in rows] for name, rows in snapshot.rows.items()}
        replace(snapshot, cluster=cluster, rows=rows).land(jobs.workspace)


def _next_minute(snapshot: Any) -> Interval:
    """Move the snapshot on by a minute, with a queue more; returns its interval."""
    snapshot.move_on()
    snapshot.queue("g", "orders", 1, (0, 1, 9))
    snapshot.topic_queue("orders", 1, 0, 9)
    return Interval(snapshot.interval.start)


def test_killed_at_any_step_readers_stay_on_the_last_good_state_and_the_rerun_repairs(
    jobs: Jobs, first: Interval, snapshot: Any
) -> None:
    last_good, last_state = jobs.facts(first), jobs.rows(QUEUE_STATE, first)
    assert last_good is not None
    others = jobs.of("other")
    others_last_good = others.facts(first)
    interval = _next_minute(snapshot)
    _land(snapshot, jobs)

    tries = 0
    for step in STEPS_BEFORE_SHOWN:
        for amidst in (False, True) if step in AMIDST else (False,):
            jobs.kill_at(step, interval, amidst=amidst)
            assert jobs.facts(first) == last_good, (step, amidst)
            assert jobs.facts(interval) is None, (step, amidst)
            assert (others.facts(first), others.facts(interval)) == (others_last_good, None), (step, amidst)
            killed = cycles.newest(open_database(jobs.workspace.database_url), failed=True)
            tries += 1
            assert len(killed) == len(CLUSTERS) * tries, "each has its row"
            newest = {(one.cluster, one.failed_step, one.error) for one in killed[: len(CLUSTERS)]}
            assert newest == {(cluster, step, cycles.KILLED) for cluster in CLUSTERS}, (step, amidst)

    jobs.kill_at("history", interval, amidst=False)
    facts = jobs.facts(interval)
    assert facts is not None
    assert [(group.queue_count, group.lag) for group in facts.groups] == [(2, 12)]
    assert others.facts(interval).groups == facts.groups
    assert jobs.facts(first) == last_good
    assert jobs.rows(QUEUE_STATE, first) == last_state
    counts = {row["queue_id"]: row["sample_count"] for row in jobs.rows(QUEUE_STATE, interval)}
    assert counts == {0: 2, 1: 1}, "the snapshot was folded once, however often it was tried"
    assert jobs.branch_names() == {"main"}


def test_killed_while_minutes_that_waited_go_to_main_all_of_them_follow(
    jobs: Jobs, first: Interval, snapshot: Any
) -> None:
    last_good, clusters = jobs.facts(first), [jobs, jobs.of("other")]
    waiting = [_next_minute(snapshot)]
    _land(snapshot, jobs)
    waiting.append(snapshot.move_on())
    _land(snapshot, jobs)

    for step in ("forward", "show"):  # the second run is again one of all; the third goes one by one
        jobs.kill_at(step, waiting[-1], amidst=step == "forward", again=False)
        assert jobs.facts(first) == last_good, step
        assert [one.facts(minute) for one in clusters for minute in waiting] == [None] * 4, step
        killed = cycles.newest(open_database(jobs.workspace.database_url), failed=True)[:4]
        assert {one.failed_step for one in killed} == {step}
        assert len({one.run_id for one in killed}) == 1
    code, lines = jobs.run(waiting[-1], again=False)
    assert code == 0, lines
    for one in clusters:
        assert [one.facts(minute).groups[0].queue_count for minute in waiting] == [2, 2]
        counts = {row["queue_id"]: row["sample_count"] for row in one.rows(QUEUE_STATE, waiting[-1])}
        assert counts == {0: 3, 1: 2}
    assert jobs.facts(first) == last_good
    assert jobs.branch_names() == {"main"}


def test_what_a_killed_client_left_running_ends_within_seconds(spark_server: ConnectServer) -> None:
    environment = os.environ | {"SPARK_REMOTE": spark_server.remote, TOKEN_VARIABLE: spark_server.token}
    command = [sys.executable, "-c", OCCUPIES_ALL_CORES]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert any(line == "2 tasks\n" for line in client.stdout)
        client.kill()
    command = [sys.executable, "-c", NEEDS_A_CORE]
    answer = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=ENDED_WITHIN_S
    )
    assert answer.stdout == "6\n"


def test_a_disk_that_fills_up_is_an_error_that_says_so_and_the_next_run_is_fine(
    jobs: Jobs, first: Interval, snapshot: Any
) -> None:
    last_good = jobs.facts(first)
    interval = _next_minute(snapshot)
    offsets = Random(5)  # noqa: S311 - rows that do not compress
    for queue_id in range(2, 20_000):
        snapshot.queue("g", "orders", queue_id, (0, offsets.getrandbits(40), 2**40 + offsets.getrandbits(40)))
    _land(snapshot, jobs)
    process_id = jobs.server.process_id()
    assert process_id is not None
    limits = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (LARGEST_FILE_BYTES, limits[1]))
    try:
        code, lines = jobs.run(interval)
    finally:
        resource.prlimit(process_id, resource.RLIMIT_FSIZE, limits)
    assert code == 1
    assert lines[-1].startswith("error: "), "\n".join(lines)
    named = r"File too large; [\d,]+ bytes are free there: make room|could not keep .*; is its disk full\? .*chunks"
    assert re.search(named, lines[-1]), lines
    assert jobs.facts(interval) is None
    assert jobs.facts(first) == last_good

    assert jobs.run(interval)[0] == 0
    assert jobs.facts(interval) is not None
