"""Spark, Iceberg and Parquet have the columns of `offsetguard.tables`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from offsetguard.config.workspace import Workspace
from offsetguard.tables import BROKER_SNAPSHOTS, LANDED, MANIFEST, PUBLISHED, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_expectations.invariants import ALL
from offsetguard_spark.tables import prepare_tables, spark_schema, table_name

MOST_MANIFESTS = 5


@pytest.mark.parametrize("table", LANDED, ids=lambda table: table.name)
def test_landed_files_and_spark_agree_on_every_column(table: Table) -> None:
    from_parquet = from_arrow_schema(arrow_schema(table), prefer_timestamp_ntz=False)
    assert [(f.name, f.dataType.simpleString()) for f in from_parquet] == [
        (f.name, f.dataType.simpleString()) for f in spark_schema(table)
    ]


def test_tables_carry_meanings_and_are_created_once(spark: SparkSession, workspace: Workspace) -> None:
    lines: list[str] = []
    created_now = prepare_tables(spark, workspace, lines.append)
    found_later = prepare_tables(spark, workspace, lines.append)
    assert lines == [], "nothing has to be evolved"
    assert list(created_now) == list(PUBLISHED)
    for table, created in found_later.items():
        assert created.metadata_location == created_now[table].metadata_location
        found = {field.name: (field.doc, field.optional) for field in created.schema().fields}
        assert found == {column.name: (column.meaning, column.nullable) for column in table.columns}
        names = [field.name for field in created.spec().fields]
        assert names == [
            transform.replace("days(interval_start)", "interval_start_day") for transform in table.partition
        ]
        assert created.properties["write.metadata.delete-after-commit.enabled"] == "true"


def test_a_day_of_small_commits_leaves_few_manifests_to_open(spark: SparkSession, workspace: Workspace) -> None:
    """Iceberg opens all of them for each scan and each commit of that day."""
    states = prepare_tables(spark, workspace, print)
    minute = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    for number in range(MOST_MANIFESTS + 2):
        row: dict[str, object] = dict.fromkeys(column.name for column in BROKER_SNAPSHOTS.columns)
        row |= {"cluster": "demo", "interval_start": minute + timedelta(minutes=number), "broker_name": "broker-a"}
        row |= {"broker_id": 0, "address": "127.0.0.1:10911", "answered": True}
        rows = spark.createDataFrame(pa.Table.from_pylist([row], schema=arrow_schema(BROKER_SNAPSHOTS)))
        rows.writeTo(table_name(BROKER_SNAPSHOTS)).append()
    written = states[BROKER_SNAPSHOTS].refresh()
    snapshot = written.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(written.io)) <= MOST_MANIFESTS
    assert written.scan().to_arrow().num_rows == MOST_MANIFESTS + 2


def test_every_invariant_speaks_about_one_of_our_tables() -> None:
    assert {invariant.table for invariant in ALL} <= {*LANDED, *PUBLISHED, MANIFEST}
