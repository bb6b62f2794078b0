"""Clocks that would damage the tables stop a run before it writes, with both times; what they damaged is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import NAMESPACE, load_table, open_catalog
from offsetguard.model.errors import PublishError
from offsetguard.tables import BROKER_SNAPSHOTS
from offsetguard_peers.lake.warehouse import put_newest_commit_ahead
from offsetguard_spark.tables import agreed, prepare_tables, table_name

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


def test_two_clocks_that_differ_by_three_minutes_are_both_named() -> None:
    with pytest.raises(PublishError, match=r"this host says .*10:41:00.*Spark server .*10:44:00.*nothing was written"):
        agreed(NOW, NOW + timedelta(minutes=3))
    assert agreed(NOW, NOW + timedelta(seconds=50)) == NOW


def test_a_clock_ahead_stops_a_run_and_what_it_damaged_is_brought_back(
    spark: SparkSession, workspace: Workspace, broker_rows
) -> None:
    """Spark tries to load a table whose times go back for 92 s, and refuses it; docs/publishing.md says how."""
    prepare_tables(spark, workspace, print)
    broker_rows("broker-a").writeTo(table_name(BROKER_SNAPSHOTS)).append()
    catalog = open_catalog(workspace)
    table = load_table(catalog, BROKER_SNAPSHOTS)
    put_newest_commit_ahead(table, timedelta(minutes=3))
    with pytest.raises(PublishError, match=r"table broker_snapshots was changed at .* and the clock says"):
        prepare_tables(spark, workspace, print)

    snapshot = table.current_snapshot()
    assert snapshot is not None
    for name in ("run_1", "run_2"):
        table.manage_snapshots().create_branch(snapshot.snapshot_id, name).commit()
    with pytest.raises(PublishError, match=r"broker_snapshots: the times .* go back") as refused:
        prepare_tables(spark, workspace, print)
    file = str(refused.value).partition("takes are ")[2].partition(": bring")[0]

    name = f"{NAMESPACE}.{BROKER_SNAPSHOTS.name}"
    catalog.drop_table(name)
    catalog.register_table(name, file)

    rows = spark.table(table_name(BROKER_SNAPSHOTS)).collect()
    assert [row["broker_name"] for row in rows] == ["broker-a"]
    with pytest.raises(PublishError, match=r"was changed at .*; if they are right, publishing goes on by itself"):
        prepare_tables(spark, workspace, print)
