"""Whole log files in the tables: a rerun replaces its files, and publishing an interval leaves them alone."""

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from offsetguard.model.errors import ConfigError
from offsetguard.store.database import open_database
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, Table
from offsetguard_spark.ingest import Ingester, LogBatch
from offsetguard_spark.reports import Progress
from offsetguard_spark.tables import load_tables, table_name

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
LINE = (
    "2026-11-21 18:{} WARN PullMessageThread_1 - PULL_OFFSET_MOVED:correction offset. topic=orders, groupId={}, "
    "requestOffset={}, newOffset=500, suggestBrokerId=0\n"
)


def moves_in(spark: SparkSession) -> set[tuple[str, str, int]]:
    rows = spark.table(table_name(OFFSET_MOVES)).select("source", "consumer_group", "requested_offset").collect()
    return {(row[0].partition("-")[0], row[1], row[2]) for row in rows}


def row_count(spark: SparkSession, table: Table) -> int:
    return spark.table(table_name(table)).count()


def test_files_are_replaced_as_a_whole_and_intervals_beside_them_stay(
    new_publisher, workspace, snapshot, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "broker.log").write_text(LINE.format("39:10", "g1", 1) + LINE.format("39:20", "g1", 2) + "\tat x\n")
    (logs / "other.log").write_text(LINE.format("00:00", "g2", 3))
    (logs / "empty.log").write_text("")
    batch = LogBatch("demo", (f"{logs}/*",), "broker-a")
    publisher = new_publisher(workspace)
    spark = publisher.start_spark()
    ingester = Ingester(workspace, publisher.engine, publisher.start_spark, publisher.progress)

    dry = ingester.ingest(batch, now=NOW, dry_run=True)
    assert (dry.verdict, dry.events, dry.moves, dry.unreadable_records) == ("dry run", 3, 3, 0)
    assert (dry.first_at, dry.last_at) == ("2026-11-21T10:00:00Z", "2026-11-21T10:39:20Z")
    assert dry.left_out == {f"{logs}/empty.log": "empty, or its first line is not complete"}
    assert not workspace.catalog_file.exists(), "a dry run writes nothing"

    ingester.ingest(batch, now=NOW)
    first = {("ingested/broker", "g1", 1), ("ingested/broker", "g1", 2), ("ingested/broker", "g2", 3)}
    assert moves_in(spark) == first

    snapshot.move(1, 7, 500, snapshot.interval.end - timedelta(seconds=30))
    snapshot.queue("digg", "orders", 0, (500, 500, 500))
    snapshot.land(workspace)
    report = publisher.publish("demo", snapshot.interval, now=NOW)
    assert report.rows["offset_moves"] == 1, "the interval's own rows"
    assert report.rows["offset_move_facts"] == 3, "those of g1 lie in the window, that of g2 before it"
    assert moves_in(spark) == {*first, ("broker", "digg", 7)}

    # The log was rotated, compressed and has grown; the copy beside it is older.
    (logs / "otherdays").mkdir()
    grown = (logs / "broker.log").read_text() + LINE.format("39:30", "g1", 4)
    (logs / "otherdays" / "broker.1.log.gz").write_bytes(gzip.compress(grown.encode()))
    (logs / "broker.log").unlink()
    again = ingester.ingest(LogBatch("demo", (f"{logs}/otherdays/*",), "broker-a"), now=NOW)
    assert set(again.files.values()) <= set(dry.files.values()), "a log is known by its first line"
    publisher.publish("demo", snapshot.interval, now=NOW, again=True)
    assert moves_in(spark) == {*first, ("ingested/broker", "g1", 4), ("broker", "digg", 7)}
    assert row_count(spark, LOG_EVENTS) == 4
    assert {name for state in load_tables(workspace).values() for name in state.metadata.refs} == {"main"}


def test_nothing_to_read_is_said_before_spark_starts(workspace, tmp_path: Path) -> None:
    def start_spark() -> SparkSession:
        raise AssertionError("Spark is not needed to see that there is no file")

    ingester = Ingester(workspace, open_database(workspace.database_url), start_spark, Progress([].append))
    with pytest.raises(ConfigError, match="no log to read; are the folder and the pattern right on this machine"):
        ingester.ingest(LogBatch("demo", (f"{tmp_path}/*.log",), None), now=NOW)
    with pytest.raises(ConfigError, match="is not a time zone"):
        ingester.ingest(LogBatch("demo", (f"{tmp_path}/*.log",), None, time_zone="+8"), now=NOW)
