"""Spark, Iceberg and Parquet have the columns of `offsetguard.tables`."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from offsetguard.collect.landing import table_of
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.lake.reading import read_interval
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import BROKER_SNAPSHOTS, PUBLISHED
from offsetguard_spark.tables import prepare_tables, table_name

MOST_MANIFESTS = 5


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


def test_a_day_of_small_commits_leaves_few_manifests_to_open(
    spark: SparkSession, workspace: Workspace, broker_rows
) -> None:
    """Iceberg opens all of them for each scan and each commit of that day."""
    states = prepare_tables(spark, workspace, print)
    minute = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    for number in range(MOST_MANIFESTS + 2):
        rows = broker_rows("broker-a", minute + timedelta(minutes=number))
        rows.writeTo(table_name(BROKER_SNAPSHOTS)).append()
    written = states[BROKER_SNAPSHOTS].refresh()
    snapshot = written.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(written.io)) <= MOST_MANIFESTS
    assert written.scan().to_arrow().num_rows == MOST_MANIFESTS + 2


def test_readers_find_what_spark_wrote_in_a_home_of_any_name(
    new_session: Callable[[Workspace], SparkSession], tmp_path: Path
) -> None:
    home, start = tmp_path / "a home 100% 数据 #1", datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
    workspace = Workspace(home, tmp_path / "offsetguard.yml", f"sqlite:///{tmp_path / 'offsetguard.db'}")
    spark = new_session(workspace)
    prepare_tables(spark, workspace, print)
    row = {"cluster": "demo", "interval_start": start, "broker_name": "broker-a", "address": "127.0.0.1:10911"}
    rows = table_of(BROKER_SNAPSHOTS, [row | {"broker_id": 0, "answered": True}])
    spark.createDataFrame(rows).writeTo(table_name(BROKER_SNAPSHOTS)).append()

    catalog = open_catalog(workspace)
    snapshot = load_table(catalog, BROKER_SNAPSHOTS).current_snapshot()
    assert snapshot is not None
    ids = {BROKER_SNAPSHOTS.name: snapshot.snapshot_id}
    published = PublishedInterval("demo", Interval(start), "run", start, "audited", ids, "{}")
    assert read_interval(catalog, BROKER_SNAPSHOTS, published)["broker_name"].to_pylist() == ["broker-a"]
