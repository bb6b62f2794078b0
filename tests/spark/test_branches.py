"""A branch becomes the main state of its table only where main and branch are what the run relied on."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyspark.sql import SparkSession

from offsetguard.config.workspace import Workspace
from offsetguard.facts.queries import fold
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.lake.reading import table_schema
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import CLUSTERS_PROPERTY, INTERVALS_PROPERTY, RUN_PROPERTY
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard.tables.table import arrow_schema
from offsetguard_peers.lake.warehouse import put_newest_commit_ahead
from offsetguard_spark.branches import MOST_SENT, Branches, TableRows, begin
from offsetguard_spark.files import SparkFiles
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.tables import Query, load_tables, prepare_tables, table_name

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))


def names_in_main(spark: SparkSession) -> list[str]:
    return sorted(row["broker_name"] for row in spark.table(table_name(BROKER_SNAPSHOTS)).collect())


@pytest.fixture
def workspace(kept_workspace, new_session: Callable[[Workspace], SparkSession]) -> Workspace:
    """Give a workspace that has all tables: to make them takes longer than any of these tests."""

    def make_tables(workspace: Workspace) -> list[object]:
        prepare_tables(new_session(workspace), workspace, print)
        return []

    return kept_workspace.restored(make_tables)


@pytest.fixture
def by_query() -> bool:
    """Whether the run writes what a query gives, and not rows: a test may want it."""
    return False


@pytest.fixture
def branches(by_query: bool, spark: SparkSession, workspace: Workspace, broker_rows) -> Branches:
    """Return the branches of a run that has replaced broker-a by broker-b."""
    broker_rows("broker-a").writeTo(table_name(BROKER_SNAPSHOTS)).append()
    branches = Branches(spark, Minutes(("demo",), (INTERVAL,)), "run_1", load_tables(workspace), SparkFiles(workspace))
    rows = broker_rows("broker-b")
    rows.createOrReplaceTempView("given")
    given = Query("SELECT * FROM given", {}) if by_query else rows
    branches.write([TableRows(BROKER_SNAPSHOTS, lambda: given, 1)])
    return branches


@pytest.mark.parametrize("by_query", [False, True])
def test_each_snapshot_says_of_which_interval_its_rows_are_whatever_its_run_is_called(
    workspace: Workspace, branches: Branches
) -> None:
    """Housekeeping tells by it which rows of killed runs were never shown."""
    written = load_table(open_catalog(workspace), BROKER_SNAPSHOTS).snapshot_by_name(branches.name)
    assert written is not None
    assert written.summary is not None
    assert (
        written.summary.additional_properties.items()
        >= {
            RUN_PROPERTY: "run_1",
            CLUSTERS_PROPERTY: "demo",
            INTERVALS_PROPERTY: "2026-11-21T10:39:00+00:00",
        }.items()
    )


def test_a_clock_that_was_put_back_during_a_run_stops_it_before_anything_is_shown(
    workspace: Workspace, branches: Branches
) -> None:
    put_newest_commit_ahead(load_table(open_catalog(workspace), BROKER_SNAPSHOTS), timedelta(minutes=3))
    with pytest.raises(PublishError, match=r"table broker_snapshots was changed at .* nothing more was written"):
        branches.snapshot_ids()


def test_what_a_query_gives_is_written_to_its_columns_in_a_table_of_another_release(
    spark: SparkSession, workspace: Workspace, broker_rows
) -> None:
    """A column that came later stands last in the table, and a later release has columns that this one lacks."""
    for change in ("DROP COLUMN broker_id", "ADD COLUMN of_a_later_release STRING"):
        spark.sql(f"ALTER TABLE {table_name(BROKER_SNAPSHOTS)} {change}")
    branches = Branches(
        spark, Minutes(("demo",), (INTERVAL,)), "run_1", prepare_tables(spark, workspace, print), SparkFiles(workspace)
    )
    given = broker_rows("broker-a").unionAll(broker_rows("broker-b"))
    given.createOrReplaceTempView("given")
    query = Query("SELECT * FROM given WHERE broker_name = :name", {"name": "broker-b"})
    for _ in range(2):  # the second time in the place of the first
        branches.write([TableRows(BROKER_SNAPSHOTS, lambda: query, 1)])
    (row,) = branches.read(BROKER_SNAPSHOTS).collect()
    (expected,) = query.rows(spark).collect()
    assert row.asDict() == expected.asDict() | {"of_a_later_release": None}


def test_a_main_that_has_moved_stays_as_it_is(spark: SparkSession, branches: Branches, broker_rows) -> None:
    ids = branches.snapshot_ids()
    broker_rows("broker-c").writeTo(table_name(BROKER_SNAPSHOTS)).append()
    with pytest.raises(PublishError, match=r"^broker_snapshots: something else has changed the table .*; run it again"):
        branches.forward(ids)
    assert names_in_main(spark) == ["broker-a", "broker-c"]


def test_a_branch_that_was_dropped_changes_nothing(
    spark: SparkSession, workspace: Workspace, branches: Branches
) -> None:
    ids = branches.snapshot_ids()
    catalog = open_catalog(workspace)
    dropped = RemoveSnapshotRefUpdate(ref_name=branches.name)
    catalog.commit_table(load_table(catalog, BROKER_SNAPSHOTS), (), (dropped,))
    with pytest.raises(PublishError, match="branch run_1 is gone"):
        branches.snapshot_ids()
    with pytest.raises(PublishError, match=r"^broker_snapshots: something else has changed the table .*run_1"):
        branches.forward(ids)
    assert names_in_main(spark) == ["broker-a"]


def test_rows_that_are_too_many_to_be_sent_lie_in_a_file_for_as_long_as_spark_writes_them(
    spark: SparkSession, workspace: Workspace, new_snapshot
) -> None:
    folder = workspace.handed_over_folder
    folder.mkdir(parents=True)
    (folder / "of_a_run_that_was_killed.parquet").touch()
    run = begin(spark, workspace, Minutes(("demo",), (INTERVAL,)), name="run_1", say=print)
    assert not folder.exists()
    rows = [new_snapshot(INTERVAL).queue("billing", "orders", number, (0, 1, 2)) for number in range(MOST_SENT + 1)]
    snapshots = pa.Table.from_pylist(rows, schema=table_schema(QUEUE_SNAPSHOTS))
    state = fold(table_schema(QUEUE_STATE).empty_table(), snapshots).cast(arrow_schema(QUEUE_STATE))
    run.write([TableRows(QUEUE_STATE, state, len(state))])
    assert list(folder.iterdir()) == []
    assert run.rows(QUEUE_STATE).sort_by("queue_id").to_pylist() == state.sort_by("queue_id").to_pylist()


def test_old_metadata_do_not_gather(spark: SparkSession, workspace: Workspace, branches: Branches, broker_rows) -> None:
    branches.forward(branches.snapshot_ids())
    for number in range(10):
        run = Branches(
            spark, Minutes(("demo",), (INTERVAL,)), f"more_{number}", load_tables(workspace), SparkFiles(workspace)
        )
        run.write([TableRows(BROKER_SNAPSHOTS, partial(broker_rows, "broker-b"), 1)])
        run.forward(run.snapshot_ids())
    table = load_tables(workspace)[BROKER_SNAPSHOTS]
    there = {file.name for file in Path(table.metadata_location.removeprefix("file:")).parent.glob("*.metadata.json")}
    named = {one.metadata_file.rpartition("/")[2] for one in table.metadata.metadata_log}
    assert len(named) == 20
    assert there == named | {table.metadata_location.rpartition("/")[2]}


def test_a_table_whose_metadata_are_lost_is_named(workspace: Workspace, branches: Branches) -> None:
    """When a run begins, that is: one that has read them would write them anew."""
    assert branches.snapshot_ids()
    for file in (workspace.warehouse_folder / "facts" / BROKER_SNAPSHOTS.name / "metadata").glob("*.json"):
        file.unlink()
    with pytest.raises(PublishError, match=r"catalog\.db: table facts\.broker_snapshots: cannot be read"):
        load_tables(workspace)
