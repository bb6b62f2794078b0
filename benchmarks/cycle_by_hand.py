"""The steps of a publication, written down by hand for plain Parquet folders: what `small_cycle.py` compares with.

The same formulas, and nothing that a rerun or a reader could rely on: no Iceberg, no branches, no database.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from offsetguard.collect.landing import read_manifest, snapshot_folder
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.tables import INVARIANT_RESULTS, QUEUE_SNAPSHOTS, QUEUE_STATE, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_spark.facts import FACT_TABLES, FactSources
from offsetguard_spark.gate import check_written
from offsetguard_spark.invariants import mark, sound_rows
from offsetguard_spark.landed import check_landed, read_landed
from offsetguard_spark.queue_state import fold_snapshot
from offsetguard_spark.rows import WRITTEN_AS_LANDED
from offsetguard_spark.session import suit_row_count, tagged
from offsetguard_spark.tables import spark_schema

CLUSTER = "demo"


@dataclass(frozen=True)
class PlainTables:
    """What the hand-written script has written: a folder per table and interval."""

    spark: SparkSession
    interval: Interval
    folder: Path
    tables: tuple[Table, ...]
    cluster: str = CLUSTER

    def path(self, table: Table) -> str:
        """Where the table's rows of the interval lie."""
        name = "state" if table == QUEUE_STATE else self.interval.name
        return str(self.folder / table.name / name)

    def write(self, table: Table, rows: DataFrame) -> None:
        """Replace them."""
        with tagged(self.spark, f"plain {table.name}"):
            rows.coalesce(1).write.mode("overwrite").parquet(self.path(table))

    def read(self, table: Table) -> DataFrame:
        """Return them; none when nothing was written."""
        if not Path(self.path(table)).exists():
            return self.spark.createDataFrame([], spark_schema(table))
        return self.spark.read.schema(spark_schema(table)).parquet(self.path(table))

    def read_with_history(self, table: Table) -> DataFrame:
        """Return the rows of all intervals."""
        paths = [str(path) for path in (self.folder / table.name).glob("*")]
        if not paths:
            return self.spark.createDataFrame([], spark_schema(table))
        return self.spark.read.schema(spark_schema(table)).parquet(*paths)

    def may_hold(self, table: Table, _first: datetime, _last: datetime) -> bool:
        """Whether there are any."""
        return (self.folder / table.name).exists()


def by_hand(spark: SparkSession, workspace: Workspace, config: Config, interval: Interval, folder: Path) -> None:
    """Do what a publication does, as one would write it down for plain Parquet."""
    landing = snapshot_folder(workspace.landing_folder, CLUSTER, interval)
    manifest = read_manifest(landing)
    landed = check_landed(landing, manifest)
    suit_row_count(spark, sum(manifest.row_counts.values()))
    with_rows = [table for table in WRITTEN_AS_LANDED if landed[table.name].row_count]
    plain = PlainTables(spark, interval, folder, tuple(with_rows))
    for name, rows in read_landed(spark, landing, landed).items():
        table = landed[name].table
        sound = sound_rows(mark(rows, table)).select(*[column.name for column in table.columns])
        plain.write(table, sound)
    before = plain.read(QUEUE_STATE).localCheckpoint()  # the folder that is read is replaced
    plain.write(QUEUE_STATE, fold_snapshot(before, plain.read(QUEUE_SNAPSHOTS), interval))
    counts = {name: found.row_count for name, found in landed.items()}
    sources = FactSources(spark, CLUSTER, interval, config, plain, counts, plain.read(QUEUE_STATE))
    facts = [table for table, has_work in FACT_TABLES.items() if has_work(sources)]
    for table in facts:
        plain.write(table, sources.facts(table.name))
    sources.release()
    written = PlainTables(spark, interval, folder, (*with_rows, QUEUE_STATE, *facts))
    previous = Interval(interval.start - timedelta(minutes=1))
    gate = check_written(written, landed, manifest, folder / "data-docs", previous=previous)
    gate.raise_problems()
    transaction = {"cluster": CLUSTER, "interval_start": interval.start}
    results = [transaction | asdict(result) for result in gate.results]
    results_table = pa.Table.from_pylist(results, schema=arrow_schema(INVARIANT_RESULTS))
    plain.write(INVARIANT_RESULTS, spark.createDataFrame(results_table))
    (folder / "newest.json").write_text(json.dumps({"interval": interval.name, "rows": gate.rows}), "utf-8")
