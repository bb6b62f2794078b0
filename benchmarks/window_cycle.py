"""The window cycle, folded by Spark, against DuckDB re-reading the 60 snapshots of the window.

    uv run python benchmarks/window_cycle.py [--queues N] [--rounds 5] [--sizes 20000,2000000]
    uv run python benchmarks/window_cycle.py --cycles-only --engine local[1] --sizes 20000,200000,600000
    uv run python benchmarks/window_cycle.py --cycles-only --engine workers --sizes 20000,200000,600000

Data is generated once: 61 snapshots of all queues, as Parquet files. In each round, interleaved, on two threads:

spark     the product's cycle on a warm session: read the state and the newest snapshot, fold, write the state, write
          the suspects (Iceberg tables, as published)
windows   DuckDB reads the 60 snapshots and writes the suspects with the same features; those that need the sample
          before (advances, rewinds, recreated queues, moved min offsets) with window functions
sums      as much of it as plain aggregates can tell: neither advances, rewinds, points nor pauses

Before that the figures of both are compared. After it: the cycle with a shorter history behind it, and other sizes.
Ends with exit code 1 when Spark's median is not below that of `windows`, its aim. The other two lines tell from which
size on two workers of one core each (a standalone cluster) are worth it, beside one core without a cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.config.workspace import Workspace
from offsetguard.facts.parameters import fold_parameters
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_peers.spark.standalone import StandaloneSpark
from offsetguard_spark.facts import SparkEngine
from offsetguard_spark.queue_state import fold_snapshot
from offsetguard_spark.session import SERVER_CONFIG, local_config, session_config, suit_row_count
from offsetguard_spark.tables import create_missing_tables, spark_schema, table_name

FIRST = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
WINDOW_SNAPSHOTS = 60
WORKERS = "workers"
KEY = "broker_name, topic, queue_id, consumer_group"
AT = "max_offset_read_at"
Figures = dict[str, list[tuple[float, float]]]  # seconds, and CPU seconds

_QUEUES = """CREATE OR REPLACE TABLE queues AS
SELECT i, 'broker-' || i % 4 AS broker_name, 'topic-' || i // 64 AS topic, (i // 4 % 16)::INT AS queue_id,
       'group-' || i // 640 AS consumer_group, (hash(i) % 1000)::BIGINT AS rate, (hash(i + 7) % 100)::INT AS kind
FROM range({count}) AS numbers(i)"""
# 70 % have read everything, 20 % lag by a few, 5 % stand still or have never moved, 5 % fall behind; some are reset.
_SNAPSHOT = """COPY (
    SELECT '{cluster}' AS cluster, TIMESTAMPTZ '{start}' AS interval_start,
           consumer_group, topic, broker_name, queue_id, low::BIGINT AS min_offset, high::BIGINT AS max_offset,
           (CASE WHEN kind < 70 THEN high WHEN kind < 90 THEN high - (hash(i * 61 + {number}) % 50)::BIGINT
                WHEN kind < 92 THEN 950000 WHEN kind < 95 THEN 1000000 + rate * ({number} - {number} // 13 * 13)
                ELSE 1000000 + rate * {number} // 2 END)::BIGINT AS consumer_offset,
           NULL::BIGINT AS pull_offset, NULL::TIMESTAMPTZ AS last_timestamp, NULL::TIMESTAMPTZ AS oldest_unconsumed_at,
           read_at AS consumer_offset_read_at, NULL::TIMESTAMPTZ AS pull_offset_read_at, read_at AS max_offset_read_at,
           'broker' AS origin
    FROM (SELECT *, 1000000 + rate * {number} AS high, 900000 + rate * ({number} // 20 * 20) AS low,
                 TIMESTAMPTZ '{start}' + INTERVAL 5 SECOND + INTERVAL (i % 4 * 137) MILLISECOND AS read_at
          FROM queues ORDER BY i)
) TO '{file}' (FORMAT parquet, COMPRESSION zstd)"""
_SUMS = f"""SELECT {KEY}, arg_max(min_offset, {AT}) AS seen_min_offset, arg_max(max_offset, {AT}) AS seen_max_offset,
    arg_max(consumer_offset, {AT}) AS committed_offset, max({AT}) AS seen_at, min({AT}) AS first_seen_at,
    count(max_offset) AS sample_count, count_if(max_offset IS NULL) AS unknown_count,
    max({AT}) FILTER (greatest(consumer_offset, min_offset) >= max_offset) AS end_reached_at,
    max({AT}) FILTER (consumer_offset < min_offset) AS lost_at,
    max({AT}) FILTER (consumer_offset > least(pull_offset, max_offset)
                      OR greatest(pull_offset, min_offset) > max_offset) AS disordered_at,
    arg_min(max_offset, {AT}) AS first_max_offset, arg_min(consumer_offset, {AT}) AS first_committed_offset"""
_DIFFERENCES = f""", max({AT}) FILTER (consumer_offset > was) AS advanced_at,
    max({AT}) FILTER (consumer_offset < was AND was <= max_offset) AS rewound_at,
    max({AT}) FILTER (max_offset < max_was) AS recreated_at, max({AT}) FILTER (min_offset > min_was) AS min_moved_at"""
_WITH_THE_ONE_BEFORE = f"""(SELECT *, lag(consumer_offset) OVER queue AS was, lag(max_offset) OVER queue AS max_was,
    lag(min_offset) OVER queue AS min_was FROM {{source}} WINDOW queue AS (PARTITION BY {KEY} ORDER BY {AT}))"""
_SUSPECTS = """COPY (SELECT * FROM features WHERE committed_offset IS NULL OR committed_offset < seen_max_offset
    OR lost_at IS NOT NULL OR disordered_at IS NOT NULL {more}) TO '{file}' (FORMAT parquet)"""
_COMPARED = ("seen_at", "committed_offset", "advanced_at", "end_reached_at", "rewound_at", "min_moved_at")
_GROUP_CLIENTS = "cluster string, consumer_group string, subscriptions_differ boolean"


class Duck:
    """DuckDB on two threads: makes the snapshots, and re-reads a window of them."""

    def __init__(self, folder: Path, queue_count: int) -> None:
        self.folder = folder
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 2; SET TimeZone = 'UTC'")
        self.connection.execute(_QUEUES.format(count=queue_count))

    def make_snapshot(self, number: int) -> Path:
        """Write the snapshot of an interval, unless it is there."""
        file = self.folder / f"{number:04d}.parquet"
        start = interval(number).start.isoformat()
        if not file.exists():
            self.connection.execute(_SNAPSHOT.format(cluster=self.folder.name, start=start, number=number, file=file))
        return file

    def features(self, last: int, *, with_differences: bool) -> str:
        """Return the query that makes the features of the window that ends with a snapshot."""
        numbers = range(last - WINDOW_SNAPSHOTS + 1, last + 1)
        source = f"read_parquet({[str(self.folder / f'{number:04d}.parquet') for number in numbers]})"
        if not with_differences:
            return f"{_SUMS} FROM {source} GROUP BY {KEY}"
        return f"{_SUMS}{_DIFFERENCES} FROM {_WITH_THE_ONE_BEFORE.format(source=source)} GROUP BY {KEY}"

    def write_suspects(self, last: int, *, with_differences: bool) -> None:
        """Re-read the window, make the features and write the suspects."""
        more = "OR rewound_at IS NOT NULL OR recreated_at IS NOT NULL" if with_differences else ""
        suspects = _SUSPECTS.format(more=more, file=self.folder / "suspects_of_duckdb.parquet")
        features = self.features(last, with_differences=with_differences)
        self.connection.execute(suspects.replace("FROM features", f"FROM ({features})"))


class Fold:
    """The product's cycle in a warm session."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.cluster = folder.name
        self.state, self.suspects = table_name(QUEUE_STATE), f"{table_name(QUEUE_STATE)}_suspects"
        if not spark.catalog.tableExists(self.suspects):
            spark.table(self.state).limit(0).writeTo(self.suspects).using("iceberg").partitionedBy("cluster").create()

    def snapshot(self, number: int) -> DataFrame:
        """Return a landed snapshot."""
        file = self.folder / f"{number:04d}.parquet"
        return self.spark.read.schema(spark_schema(QUEUE_SNAPSHOTS)).parquet(str(file))

    def fold(self, number: int, before: DataFrame | None = None) -> None:
        """Move the state forward by a snapshot and write the suspects."""
        own = F.col("cluster") == self.cluster
        stands = (self.spark.table(self.state) if before is None else before).where(own)
        folded = fold_snapshot(stands, self.snapshot(number).where(own), interval(number))
        folded.writeTo(self.state).overwrite(own)
        self._suspects(number).writeTo(self.suspects).overwrite(own)

    def _suspects(self, number: int) -> DataFrame:
        engine, of = SparkEngine(self.spark), interval(number)
        moment = {"cluster": self.cluster, "start": of.start, "now": of.end}
        query = "SELECT :cluster AS cluster, :start AS interval_start, :now AS now"
        engine.add("intervals", self.spark.sql(query, args=moment))
        engine.add("group_clients", self.spark.createDataFrame([], _GROUP_CLIENTS))
        engine.add(QUEUE_STATE.name, self.spark.table(self.state).where(F.col("cluster") == self.cluster))
        suspects = engine.run("queue_curves", fold_parameters(of.start)).where("suspect")
        return suspects.select(*[column.name for column in QUEUE_STATE.columns])

    def snapshot_id(self) -> int:
        """Return the state's present Iceberg snapshot."""
        history = self.spark.table(f"{self.state}.history").orderBy(F.desc("made_current_at"))
        return int(history.first()["snapshot_id"])

    def as_of(self, snapshot_id: int) -> DataFrame:
        """Return the state as it was then."""
        return self.spark.read.option("versionAsOf", snapshot_id).table(self.state)


def interval(number: int) -> Interval:
    return Interval(FIRST + timedelta(minutes=number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="20000,2000000", help="other numbers of queues, for the slope; '' = none")
    parser.add_argument("--history", type=int, default=10, help="snapshots that lie behind the cycles of those sizes")
    parser.add_argument("--cycles-only", action="store_true", help="only Spark's cycle, for each of the sizes")
    parser.add_argument("--engine", default="local[2]", help=f"a local master, or {WORKERS!r}: a cluster of two")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",") if size]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="window_cycle_")))
        master = options.engine
        if master == WORKERS:
            master = stack.enter_context(StandaloneSpark(folder / WORKERS, workers=2, worker_memory="3g")).master
        spark = warm_session(folder, master)
        stack.callback(spark.stop)
        figures = {} if options.cycles_only else compare(spark, folder, options.queues, options.rounds)
        by_size = {size: cycles_alone(spark, folder, size, options.rounds, options.history) for size in sizes}
    if figures:
        by_size[options.queues] = figures["spark"]
    report_sizes(by_size)
    return report(figures, options.queues) if figures else 0


def warm_session(folder: Path, master: str) -> SparkSession:
    """Start a session as a warm Connect server's is: compiled as far as the JVM can."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    workspace = Workspace(folder / "home", folder / "offsetguard.yml", f"sqlite:///{folder / 'offsetguard.db'}")
    create_missing_tables(workspace)
    builder = SparkSession.builder.master(master).appName("window_cycle")
    local = local_config()
    server = {"spark.driver.extraJavaOptions": "-Djava.net.preferIPv4Stack=true", "spark.driver.memory": "4g"}
    workers = {
        "spark.executor.memory": "2g",
        "spark.executor.extraClassPath": local["spark.driver.extraClassPath"],
        "spark.executor.extraJavaOptions": "-Djava.net.preferIPv4Stack=true",
    }
    for name, value in (SERVER_CONFIG | session_config(workspace) | local | server | workers).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def compare(spark: SparkSession, folder: Path, queue_count: int, rounds: int) -> Figures:
    """Time the three on the same data, one after the other in each round."""
    duck, fold, last = prepare(spark, folder, queue_count, WINDOW_SNAPSHOTS)
    base = fold.snapshot_id()
    figures: Figures = {"spark": [], "windows": [], "sums": [], "spark, 10 snapshots of history": []}
    fold.fold(last, fold.as_of(base))
    check_figures(duck, fold, last)
    for number in range(rounds):
        figures["spark"].append(cost(lambda: fold.fold(last, fold.as_of(base))))
        figures["windows"].append(cost(lambda: duck.write_suspects(last, with_differences=True)))
        figures["sums"].append(cost(lambda: duck.write_suspects(last, with_differences=False)))
        say(
            f"round {number + 1}: "
            + ", ".join(
                f"{name} {times[-1][0]:.2f} s ({times[-1][1]:.2f} CPU)" for name, times in figures.items() if times
            )
        )
    shutil.rmtree(duck.folder)
    figures["spark, 10 snapshots of history"] = cycles_alone(spark, folder, queue_count, rounds, 10)
    return figures


def cycles_alone(
    spark: SparkSession, folder: Path, queue_count: int, rounds: int, history: int
) -> list[tuple[float, float]]:
    """Time the cycle with some snapshots behind it."""
    duck, fold, last = prepare(spark, folder, queue_count, history)
    base = fold.snapshot_id()
    times = [cost(lambda: fold.fold(last, fold.as_of(base))) for _ in range(rounds)]
    say(
        f"{queue_count} queues, {history} snapshots: "
        + ", ".join(f"{wall:.2f} s ({cpu:.2f} CPU)" for wall, cpu in times)
    )
    shutil.rmtree(duck.folder)
    return times


def prepare(spark: SparkSession, folder: Path, queue_count: int, snapshots: int) -> tuple[Duck, Fold, int]:
    """Make the snapshots and fold all but the newest; returns that one's number."""
    suit_row_count(spark, queue_count)
    data = folder / f"{queue_count}_queues_{snapshots}_snapshots"
    data.mkdir()
    duck = Duck(data, queue_count)
    for number in range(snapshots + 1):
        duck.make_snapshot(number)
    fold = Fold(spark, data)
    began = time.perf_counter()
    for number in range(snapshots):
        fold.fold(number)
    say(f"{queue_count} queues: {snapshots} snapshots folded in {time.perf_counter() - began:.0f} s")
    return duck, fold, snapshots


def check_figures(duck: Duck, fold: Fold, last: int) -> None:
    """Compare what both say of each queue over the window; stops the benchmark when they differ."""
    ours = (
        fold.spark.table(fold.state)
        .where(F.col("cluster") == fold.cluster)
        .select(*KEY.split(", "), *_COMPARED)
        .toArrow()
    )
    # What differs between the window's first sample and the one before it, only the fold can tell.
    since = interval(last - WINDOW_SNAPSHOTS + 2).start.isoformat()

    def differs(name: str) -> str:
        moments = name.endswith("_at")
        sides = (f"{side}.{name}" for side in ("ours", "theirs"))
        ours, theirs = (f"CASE WHEN {one} >= TIMESTAMPTZ '{since}' THEN {one} END" if moments else one for one in sides)
        return f"count_if({ours} IS DISTINCT FROM {theirs}) AS {name}"

    features = duck.features(last, with_differences=True)
    found = duck.connection.execute(
        f"SELECT count(*) AS queues, {', '.join(map(differs, _COMPARED))}"
        f" FROM ({features}) AS theirs JOIN ours USING ({KEY})"
    )
    row: dict[str, Any] = dict(zip([one[0] for one in found.description], found.fetchone(), strict=True))
    say(f"queues and differing figures: {row}")
    if row.pop("queues") != ours.num_rows or any(row.values()):
        raise SystemExit("the figures differ")


def cost(work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds that work takes, and the CPU seconds of this process and of the JVM."""
    began, cpu = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - began, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Return the CPU time so far of this process and of all that it started: JVMs, which DuckDB leaves idle."""
    started_by: dict[int, tuple[int, int]] = {}  # process -> its parent, ticks
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            started_by[int(stat.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    ticks, found = 0, {os.getpid()}
    while found:
        ticks += sum(started_by[process][1] for process in found)
        found = {process for process, (parent, _) in started_by.items() if parent in found}
    return ticks / os.sysconf("SC_CLK_TCK")


def report(figures: Figures, queue_count: int) -> int:
    """Print medians, minima and ratios; returns the exit code."""
    medians = {name: median(times) for name, times in figures.items()}
    ours, least = medians["spark"], min(figures["spark"])[0]
    say(f"\n| {queue_count:,} queues | median, s | minimum, s | CPU, s | median / spark | minimum / spark |")
    say("|---|---|---|---|---|---|")
    for name, times in figures.items():
        ratios = f"{medians[name] / ours:.2f} | {min(times)[0] / least:.2f}"
        say(f"| {name} | {medians[name]:.2f} | {min(times)[0]:.2f} | {cpu_median(times):.2f} | {ratios} |")
    missed = ours > medians["windows"]
    say(f"\naim (not slower than DuckDB re-reading the window, same features): {'MISSED' if missed else 'reached'}")
    return int(missed)


def report_sizes(by_size: dict[int, list[tuple[float, float]]]) -> None:
    """Print the cycle of each size."""
    say("\n| queues | median, s | minimum, s | CPU, s | us per queue |\n|---|---|---|---|---|")
    for size, times in sorted(by_size.items()):
        per_queue = median(times) / size * 1e6
        say(f"| {size:,} | {median(times):.2f} | {min(times)[0]:.2f} | {cpu_median(times):.2f} | {per_queue:.1f} |")


def median(times: list[tuple[float, float]]) -> float:
    return statistics.median(wall for wall, _ in times)


def cpu_median(times: list[tuple[float, float]]) -> float:
    return statistics.median(cpu for _, cpu in times)


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
