"""What is wrong with a landed file is said before Spark starts, with the file and the column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from offsetguard.collect.landing import read_manifest
from offsetguard.model.errors import SnapshotError
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard_spark.landed import check_landed, one_row_per_key
from offsetguard_spark.tables import spark_schema


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def _not_parquet(file: Path) -> None:
    file.write_text("cluster,interval_start\n")


def _rewrite(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    return lambda file: pq.write_table(change(pq.ParquetFile(file).read()), file)


def _with(column: str, values: pa.Array) -> Callable[[Path], None]:
    return _rewrite(lambda table: table.set_column(table.schema.get_field_index(column), column, values))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_truncate, "cannot be read as Parquet"),
        (_not_parquet, "cannot be read as Parquet"),
        (lambda file: file.unlink(), "cannot be read as Parquet"),
        (_rewrite(lambda table: table.drop_columns(["topic"])), "column topic is missing"),
        (_with("max_offset", pa.array(["9", "9"])), "column max_offset is string, expected int64"),
        (_with("topic", pa.array(["orders", None])), "column topic: 1 rows have no value"),
        (_with("cluster", pa.array(["demo", "other"])), "column cluster: other instead of demo"),
        (_rewrite(lambda table: table.slice(0, 1)), "has 1 rows, the manifest says 2"),
    ],
)
def test_a_damaged_file_is_named_with_its_column(workspace, snapshot, damage, said) -> None:
    for queue_id in (0, 1):
        snapshot.queue("g", "orders", queue_id, (0, 5, 9))
    folder = snapshot.land(workspace)
    file = folder / "queue_snapshots.parquet"
    check_landed(folder, read_manifest(folder))  # it was fine before
    damage(file)
    with pytest.raises(SnapshotError, match=f"(?s)^{file}: .*{said}"):
        check_landed(folder, read_manifest(folder))


def test_the_same_row_of_a_repeated_key_stays_whatever_the_order(spark: SparkSession, snapshot) -> None:
    snapshot.queue("g", "orders", 0, (0, 5, 9))
    snapshot.queue("g", "orders", 0, (0, 7, 9))
    snapshot.queue("g", "orders", 0, (None, None, None))
    snapshot.queue("g", "orders", 1, (None, None, None))
    rows = snapshot.rows["queue_snapshots"]
    names = [column.name for column in QUEUE_SNAPSHOTS.columns]
    for order in (rows, rows[::-1]):
        values = [tuple(row.get(name) for name in names) for row in order]
        frame = spark.createDataFrame(values, spark_schema(QUEUE_SNAPSHOTS))
        kept = one_row_per_key(frame, QUEUE_SNAPSHOTS)
        assert kept.columns == names
        assert sorted((row.queue_id, row.consumer_offset) for row in kept.collect()) == [(0, 7), (1, None)]
