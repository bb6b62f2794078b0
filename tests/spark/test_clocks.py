"""Clocks that would damage the tables stop a run before it writes, with both times; what they damaged is mended."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.lake.upkeep.commit_times import check_not_ahead
from offsetguard.model.errors import PublishError
from offsetguard.tables import BROKER_SNAPSHOTS
from offsetguard.tables.table import arrow_schema
from offsetguard_peers.lake.warehouse import put_newest_commit_ahead
from offsetguard_spark.tables import agreed, prepare_tables, table_name

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


def test_two_clocks_that_differ_by_three_minutes_are_both_named() -> None:
    with pytest.raises(PublishError, match=r"this host says .*10:41:00.*Spark server .*10:44:00.*nothing was written"):
        agreed(NOW, NOW + timedelta(minutes=3))
    assert agreed(NOW, NOW + timedelta(seconds=50)) == NOW


def test_a_clock_that_has_stepped_back_is_named_with_the_table_and_when_it_goes_on() -> None:
    commits = {"queue_facts": NOW + timedelta(minutes=3), "broker_facts": NOW}
    with pytest.raises(
        PublishError, match=r"table queue_facts was changed at .*10:44:00.*goes on by itself at .*10:43"
    ):
        check_not_ahead(commits, NOW)
    check_not_ahead({"queue_facts": NOW + timedelta(seconds=50)}, NOW)


def test_a_clock_ahead_stops_a_run_and_the_damage_that_others_did_meanwhile_is_mended(
    spark: SparkSession, workspace: Workspace
) -> None:
    """Spark tries to load a table whose times go back for 92 s, and refuses it."""
    prepare_tables(spark, workspace, print)
    _append(spark, "broker-a")
    table = load_table(open_catalog(workspace), BROKER_SNAPSHOTS)
    put_newest_commit_ahead(table, timedelta(minutes=3))
    with pytest.raises(PublishError, match=r"table broker_snapshots was changed at .* and the clock says"):
        prepare_tables(spark, workspace, print)

    snapshot = table.current_snapshot()
    assert snapshot is not None
    for name in ("run_1", "run_2"):
        table.manage_snapshots().create_branch(snapshot.snapshot_id, name).commit()
    lines: list[str] = []
    prepare_tables(spark, workspace, lines.append)
    (line,) = lines
    assert line.startswith("tables: broker_snapshots: 2 entries of its logs had times up to "), line

    began = time.monotonic()
    _append(spark, "broker-b")
    rows = spark.table(table_name(BROKER_SNAPSHOTS)).collect()
    assert sorted(row["broker_name"] for row in rows) == ["broker-a", "broker-b"]
    assert time.monotonic() - began < 60
    assert prepare_tables(spark, workspace, lines.append)
    assert lines == [line], "once is enough"


def _append(spark: SparkSession, broker_name: str) -> None:
    row: dict[str, object] = dict.fromkeys(column.name for column in BROKER_SNAPSHOTS.columns)
    row |= {"cluster": "demo", "interval_start": NOW, "broker_name": broker_name, "broker_id": 0}
    row |= {"address": "127.0.0.1:10911", "answered": True}
    rows = spark.createDataFrame(pa.Table.from_pylist([row], schema=arrow_schema(BROKER_SNAPSHOTS)))
    rows.writeTo(table_name(BROKER_SNAPSHOTS)).append()
