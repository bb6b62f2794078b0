"""What a cycle of the folded window costs as the number of queues grows, on a warm session of Spark.

    uv run python benchmarks/window_cycle.py [--rounds 5] [--sizes 20000,200000,2000000]
    uv run python benchmarks/window_cycle.py --engine local[1] --sizes 20000,200000,600000
    uv run python benchmarks/window_cycle.py --engine workers --sizes 20000,200000,600000

A cycle reads the state and the newest snapshot, folds, writes the state and writes the suspects (Iceberg tables, as
published). The snapshots are generated as Parquet files; a few have been folded before the cycles that count, which is
enough: what lies behind a cycle costs nothing. The other two lines tell from which size on two workers of one core each
(a standalone cluster) are worth it, beside one core without a cluster.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.config.workspace import Workspace
from offsetguard.facts.parameters import fold_parameters
from offsetguard.lake.creation import create_missing_tables
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_peers.spark.standalone import StandaloneSpark
from offsetguard_spark.engines import SERVER_CONFIG, local_config
from offsetguard_spark.facts import rows_of_query
from offsetguard_spark.queue_state import fold_snapshot
from offsetguard_spark.session import session_config, suit_row_count
from offsetguard_spark.tables import spark_schema, table_name

FIRST = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
WORKERS = "workers"

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
_GROUP_CLIENTS = "cluster string, consumer_group string, subscriptions_differ boolean"


def make_snapshots(folder: Path, queue_count: int, count: int) -> None:
    """Write the snapshots of the first intervals, all queues in each."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2; SET TimeZone = 'UTC'")
        connection.execute(_QUEUES.format(count=queue_count))
        for number in range(count):
            start, file = interval(number).start.isoformat(), folder / f"{number:04d}.parquet"
            connection.execute(_SNAPSHOT.format(cluster=folder.name, start=start, number=number, file=file))


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
        of = interval(number)
        moment = {"cluster": self.cluster, "start": of.start, "now": of.end}
        query = "SELECT :cluster AS cluster, :start AS interval_start, :now AS now"
        self.spark.sql(query, args=moment).createOrReplaceTempView("intervals")
        self.spark.createDataFrame([], _GROUP_CLIENTS).createOrReplaceTempView("group_clients")
        state = self.spark.table(self.state).where(F.col("cluster") == self.cluster)
        state.createOrReplaceTempView(QUEUE_STATE.name)
        suspects = rows_of_query(self.spark, "queue_curves", fold_parameters(of.start)).where("suspect")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="20000,200000,2000000", help="numbers of queues")
    parser.add_argument("--history", type=int, default=10, help="snapshots that lie behind the cycles")
    parser.add_argument("--engine", default="local[2]", help=f"a local master, or {WORKERS!r}: a cluster of two")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="window_cycle_")))
        master = options.engine
        if master == WORKERS:
            master = stack.enter_context(StandaloneSpark(folder / WORKERS, workers=2, worker_memory="3g")).master
        spark = warm_session(folder, master)
        stack.callback(spark.stop)
        print("| queues | median, s | minimum, s | CPU, s | us per queue |\n|---|---|---|---|---|", flush=True)
        for size in map(int, options.sizes.split(",")):
            cycles(spark, folder / f"{size}_queues", size, options.rounds, options.history)


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


def cycles(spark: SparkSession, folder: Path, queue_count: int, rounds: int, history: int) -> None:
    """Time the cycle, again and again from the same state, and print a line."""
    suit_row_count(spark, queue_count)
    folder.mkdir()
    make_snapshots(folder, queue_count, history + 1)
    fold = Fold(spark, folder)
    for number in range(history):
        fold.fold(number)
    base = fold.snapshot_id()
    seconds, cpu = zip(*(cost(lambda: fold.fold(history, fold.as_of(base))) for _ in range(rounds)), strict=True)
    shutil.rmtree(folder)
    median = statistics.median(seconds)
    print(
        f"| {queue_count:,} | {median:.2f} | {min(seconds):.2f} | {statistics.median(cpu):.2f} "
        f"| {median / queue_count * 1e6:.1f} |",
        flush=True,
    )


def cost(work: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds that work takes, and the CPU seconds of this process and of the JVM."""
    began, cpu = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - began, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Return the CPU time so far of this process and of all that it started."""
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


if __name__ == "__main__":
    main()
