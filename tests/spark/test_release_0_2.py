"""What release 0.2 left behind goes on: its database, its tables and files, its landed snapshot.

`release_0_2/` holds what it wrote for one interval, the first three as they are:
  landed/       the snapshot
  published/    the data file of each table
  database.sql  a dump of its database, with one published interval
  tables.sql    its CREATE TABLE statements
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from offsetguard.collect.landing import read_manifest, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.facts.published import load_table, open_catalog, read_interval_facts
from offsetguard.lake.reading.fact_reader import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard.tables import GROUP_FACTS, LANDED, PUBLISHED, QUEUE_FACTS, QUEUE_SNAPSHOTS
from offsetguard_peers.iceberg_writer import adopt
from offsetguard_spark.landed import check_landed
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish import Publisher
from offsetguard_spark.tables import evolve_tables, load_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetguard.config.workspace import Workspace

LEFT_BEHIND = Path(__file__).parent / "release_0_2"
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
NOW = datetime(2026, 11, 21, 10, 42, tzinfo=UTC)


def left_behind(spark: SparkSession, workspace: Workspace) -> None:
    """Lay out a workspace as release 0.2 left it."""
    spark.sql("CREATE NAMESPACE offsetguard.facts")
    for statement in (LEFT_BEHIND / "tables.sql").read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            spark.sql(statement)
    catalog = open_catalog(workspace)
    ids = {file.stem: adopt(catalog.load_table(("facts", file.stem)), file) for file in _published_files()}
    with closing(sqlite3.connect(workspace.home / "offsetguard.db")) as database:
        database.executescript((LEFT_BEHIND / "database.sql").read_text(encoding="utf-8"))
        database.execute("UPDATE published_intervals SET snapshot_ids = ?", (json.dumps(ids),))
        database.commit()


def _published_files() -> list[Path]:
    return sorted((LEFT_BEHIND / "published").glob("*.parquet"))


def test_it_is_read_evolved_and_published_into(spark: SparkSession, workspace, config, snapshot) -> None:
    left_behind(spark, workspace)
    engine = open_database(workspace.database_url)
    published = published_intervals.get(engine, "demo", INTERVAL)
    assert published is not None
    reader = FactReader(workspace, engine)

    def old_facts():
        return read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))

    before = old_facts()  # read by this release before anything of it has touched the tables
    assert {(group.consumer_group, group.lag) for group in before.groups} == {("billing", 121), ("audit", 0)}
    assert [queue.offsets.consumer_offset for queue in before.queues] == [40, 40]
    (move,) = before.offset_moves
    assert (move.origin, move.corrected_offset) == ("event", 40)
    assert len(before.invariant_results) == 21
    assert (before.brokers, before.cluster_facts, before.lock_waits, before.subscriptions) == ((), None, (), ())

    snapshot.interval = Interval(INTERVAL.end)
    snapshot.broker()
    snapshot.topic("orders")
    snapshot.group("billing")
    for queue_id in (0, 1):
        snapshot.topic_queue("orders", queue_id, 10, 110)
        snapshot.queue("billing", "orders", queue_id, (10, 50, 110), oldest_unconsumed_at=INTERVAL.start)
    snapshot.land(workspace)
    lines: list[str] = []
    publisher = Publisher(workspace, config, engine, lambda: spark, Progress(lines.append))
    assert publisher.publish("demo", snapshot.interval, now=NOW).verdict == "published"

    for table, state in load_tables(workspace).items():
        assert {field.name for field in state.schema().fields} == {column.name for column in table.columns}
    assert any("ADD COLUMN" in line for line in lines)
    assert evolve_tables(spark, load_tables(workspace)) == [], "once is enough"
    assert old_facts() == before, "what was published stays as it was"

    span = INTERVAL.start - timedelta(days=1), INTERVAL.start + timedelta(days=1)
    for table in (GROUP_FACTS, QUEUE_FACTS, QUEUE_SNAPSHOTS):
        rows = reader.group_history("demo", "billing", *span, table=table)
        assert rows.column_names == [column.name for column in table.columns]
        times = set(rows["interval_start"].to_pylist())
        assert times == {INTERVAL.start, snapshot.interval.start}, "files of both releases, in one past"
    history = reader.group_history("demo", "billing", *span)
    assert history["lag"].to_pylist() == [121, 120]
    catalog = open_catalog(workspace)
    assert {name for table in PUBLISHED for name in load_table(catalog, table).metadata.refs} == {"main"}


def test_its_landed_snapshot_can_be_published(workspace) -> None:
    """Each file is checked as this release's are; what it did not land yet is not missed."""
    folder = snapshot_folder(workspace.landing_folder, "demo", INTERVAL)
    shutil.copytree(LEFT_BEHIND / "landed", folder)
    manifest = read_manifest(folder)
    checked = check_landed(folder, manifest)
    assert {name: found.row_count for name, found in checked.items() if found.row_count} == {
        name: count for name, count in manifest.row_counts.items() if count
    }
    assert set(manifest.row_counts) <= {table.name for table in LANDED}
    published = sqlite3.connect(":memory:")
    with closing(published):
        published.executescript((LEFT_BEHIND / "database.sql").read_text(encoding="utf-8"))
        (text,) = published.execute("SELECT manifest_json FROM published_intervals").fetchone()
    assert Manifest.from_json(text) == manifest, "it is known as the snapshot that was published"
