"""What release 0.1 left behind goes on: its tables get the new columns, its landed snapshots can be published.

`release_0_1/` holds what it wrote: its CREATE TABLE statements, and a landed snapshot.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from offsetguard.collect.landing import read_manifest, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.facts.published import load_table, open_catalog, read_interval_facts, read_rows
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS, LANDED, OFFSET_MOVES, PUBLISHED
from offsetguard_spark.landed import check_landed
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish import Publisher
from offsetguard_spark.tables import evolve_tables, load_tables, table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetguard.config.workspace import Workspace

LEFT_BEHIND = Path(__file__).parent / "release_0_1"
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
OLD_MOVE = (
    "'demo', TIMESTAMP '2026-11-21 10:38:00', 'broker-a', 6, TIMESTAMP '2026-11-21 10:38:30', 'billing', NULL,"
    " 'orders', 'broker-a', 0, 10, 50, 'event'"
)
OLD_FACT = (
    "'demo', TIMESTAMP '2026-11-21 10:38:00', 'billing', NULL, 'orders', 'broker-a', 0, 10, 50, 1,"
    " TIMESTAMP '2026-11-21 10:38:30', TIMESTAMP '2026-11-21 10:38:30'"
)


def landed_by_0_1(workspace: Workspace) -> Path:
    folder = snapshot_folder(workspace.landing_folder, "demo", INTERVAL)
    shutil.copytree(LEFT_BEHIND / "landed", folder)
    return folder


def tables_of_0_1(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE offsetguard.facts")
    for statement in (LEFT_BEHIND / "tables.sql").read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            spark.sql(statement)
    spark.sql(f"INSERT INTO offsetguard.facts.offset_moves VALUES ({OLD_MOVE})")
    spark.sql(f"INSERT INTO offsetguard.facts.offset_move_facts VALUES ({OLD_FACT})")


def test_its_tables_grow_and_its_snapshot_is_published(spark: SparkSession, workspace, config, snapshot) -> None:
    landed_by_0_1(workspace)
    tables_of_0_1(spark)
    catalog = open_catalog(workspace)
    ids = {
        name: state.current_snapshot()
        for name in ("offset_moves", "offset_move_facts")
        for state in [catalog.load_table(("facts", name))]
    }
    old_ids = {table.name: -1 for table in PUBLISHED} | {name: found.snapshot_id for name, found in ids.items()}
    lines: list[str] = []
    publisher = Publisher(
        workspace, config, open_database(workspace.database_url), lambda: spark, Progress(lines.append)
    )

    report = publisher.publish("demo", INTERVAL, now=NOW)

    assert "tables: ALTER TABLE offsetguard.facts.offset_moves RENAME COLUMN event_offset TO position" in lines
    for table, state in load_tables(workspace).items():
        fields = {field.name: field for field in state.schema().fields}
        assert {name: field.doc for name, field in fields.items()} == {c.name: c.meaning for c in table.columns}
        assert not [c.name for c in table.columns if c.nullable and fields[c.name].required]
    assert evolve_tables(spark, load_tables(workspace)) == [], "once is enough"

    moves = spark.table(table_name(OFFSET_MOVES)).select("origin", "source", "position", "requested_offset").collect()
    assert sorted(map(tuple, moves)) == [("event", "broker-a", 6, 10), ("event", "broker-a", 7, 10)]
    published = published_intervals.get(publisher.engine, "demo", INTERVAL)
    assert published is not None
    facts = read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))
    (move,) = facts.offset_moves
    assert (move.move_count, move.origin, move.queue_id) == (2, "event", 0), "the old event counts in the window"
    (group,) = read_rows(catalog, GROUP_SNAPSHOTS, published)
    assert (group["in_detail"], group["retry_growth"]) == (False, None)
    (client,) = read_rows(catalog, CLIENT_SNAPSHOTS, published)
    assert (client["broker_id"], client["orderly"]) == (0, None)
    assert report.rows["log_events"] == report.rows["broker_stats"] == 0

    # What it had published is still read as it was written.
    before = published_intervals.PublishedInterval(
        "demo", Interval(datetime(2026, 11, 21, 10, 38, tzinfo=UTC)), "r", NOW, "", old_ids, "{}"
    )
    (old,) = read_interval_facts(workspace, before, snapshot.manifest()).offset_moves
    assert (old.move_count, old.origin) == (1, "event")
    assert load_table(catalog, OFFSET_MOVES).metadata.refs.keys() == {"main"}


def test_its_landed_files_are_read_with_what_they_lack_as_unknown(workspace) -> None:
    folder = landed_by_0_1(workspace)
    checked = check_landed(folder, read_manifest(folder))
    assert {name for name, found in checked.items() if found.row_count} == {
        *("queue_snapshots", "topic_queue_snapshots", "topic_settings", "group_snapshots", "client_snapshots"),
        *("broker_snapshots", "offset_moves"),
    }
    assert {name for name, found in checked.items() if not found.by_this_release} == {
        *("group_snapshots", "client_snapshots", "broker_snapshots", "offset_moves"),
    }
    for table in LANDED:
        if (folder / f"{table.name}.parquet").exists():
            assert set(read_table(folder, table).column_names) == {column.name for column in table.columns}


def test_what_release_0_1_did_land_may_not_be_missing(workspace) -> None:
    folder = landed_by_0_1(workspace)
    file = folder / "group_snapshots.parquet"
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["consume_enabled"]), file)
    with pytest.raises(SnapshotError, match=f"^{file}: column consume_enabled is missing"):
        check_landed(folder, read_manifest(folder))
    (folder / "topic_settings.parquet").unlink()
    with pytest.raises(SnapshotError, match=r"topic_settings\.parquet: cannot be read"):
        check_landed(folder, read_manifest(folder))
