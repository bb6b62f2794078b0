"""A landed snapshot as DataFrames: checked file by file, read with explicit schemas, one row per key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.collect.landing import read_table, with_plain_texts
from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import MANIFEST_FILE_NAME
from offsetguard.model.errors import PublishError, SnapshotError
from offsetguard.model.intervals import Interval, Minute
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import LANDED, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_spark.files import SparkFiles
from offsetguard_spark.session import is_small
from offsetguard_spark.tables import as_frame

CLOCKS_DIFFER = timedelta(minutes=1)  # so far may the collector's clock be ahead of the publisher's


@dataclass(frozen=True, slots=True)
class LandedTable:
    """What the check of one landed file says."""

    table: Table
    row_count: int
    duplicate_count: int = 0  # rows that repeat a key
    rows: pa.Table | None = field(default=None, repr=False)  # of a small snapshot

    @property
    def key_count(self) -> int:
        """Rows that are left when each key has one."""
        return self.row_count - self.duplicate_count


@dataclass(frozen=True, slots=True)
class Landed:
    """The landed snapshot of one interval of a cluster."""

    folder: Path
    manifest: Manifest
    tables: Mapping[str, LandedTable]  # by name

    @property
    def minute(self) -> Minute:
        """What it is of."""
        return self.manifest.cluster, Interval(self.manifest.interval_start)

    @property
    def duplicate_count(self) -> int:
        """Rows that repeat a key."""
        return sum(table.duplicate_count for table in self.tables.values())

    @property
    def row_counts(self) -> dict[Table, int]:
        """Rows of each table, those that repeat a key left out."""
        return {table: self.tables[table.name].key_count for table in LANDED}


def check_landed(folder: Path, manifest: Manifest) -> dict[str, LandedTable]:
    """Check every file of a snapshot before Spark starts: it takes milliseconds, and the errors name file and column.

    Returns what was found by table name.
    Raises SnapshotError for a file that is missing, truncated or of another schema; for a required column without a
    value; for rows of another cluster or interval; and when a file has not as many rows as the manifest says.
    """
    return {table.name: _check_table(folder, table, manifest) for table in LANDED}


def check_moment(folder: Path, manifest: Manifest, interval: Interval, now: datetime) -> None:
    """Refuse a snapshot of another interval than its folder says, and one from the future of the publisher's clock.

    Published, it would be the newest state of every queue until the clocks have caught up. Raises SnapshotError.
    """
    file = folder / MANIFEST_FILE_NAME
    if manifest.interval_start != interval.start:
        raise SnapshotError(
            f"{file}: interval_start is {manifest.interval_start.isoformat()}, the folder's name says"
            f" {interval.start.isoformat()}: the snapshot is of another interval"
        )
    for name, moment in (("interval_start", manifest.interval_start), ("finished_at", manifest.finished_at)):
        if moment > now + CLOCKS_DIFFER:
            raise SnapshotError(
                f"{file}: {name} {moment.isoformat()} is in the future, here it is {now.isoformat()}; compare the"
                " clocks of the machines that collect and publish, and delete the folder if the collector's was wrong"
            )


def check_same_snapshot(folder: Path, manifest: Manifest, before: PublishedInterval | None) -> None:
    """Refuse a snapshot that disagrees with the one from which its interval was published. Raises PublishError.

    Of two looks at one moment nobody but an operator can say which is right. A snapshot never changes after it has
    landed, so this is another collection's folder, put in its place.
    """
    if before is None or (published := Manifest.from_json(before.manifest_json)) == manifest:
        return
    raise PublishError(
        f"{folder}: was collected at {manifest.started_at.isoformat()}, but the interval was published from a snapshot"
        f" of {published.started_at.isoformat()} (run {before.run_id}), and the two disagree: say --again if this one"
        " is right, or delete it"
    )


def read_landed(
    spark: SparkSession, landed: Mapping[Path, Mapping[str, LandedTable]], files: SparkFiles
) -> dict[Table, DataFrame]:
    """Return every landed table that has rows, those of all folders, one row per key; nothing is read yet.

    `landed`: what was found in each folder, by table name. Repeated keys are rare, and a table without any needs no
    shuffle to find that out.
    """
    tables = {}
    for table in LANDED:
        found = {folder: by_name[table.name] for folder, by_name in landed.items() if by_name[table.name].row_count}
        if found:
            rows = _read(spark, table, found, files)
            repeated = any(one.duplicate_count for one in found.values())
            tables[table] = one_row_per_key(rows, table) if repeated else rows
    return tables


def _read(spark: SparkSession, table: Table, found: Mapping[Path, LandedTable], files: SparkFiles) -> DataFrame:
    """Return the rows of all folders; few that the check has read already are sent: finding files costs more."""
    read = [one.rows for one in found.values()]
    if all(one is not None for one in read) and is_small(sum(one.row_count for one in found.values())):
        return as_frame(spark, table, pa.concat_tables(read).cast(arrow_schema(table)))
    return files.read(spark, table, [folder / f"{table.name}.parquet" for folder in found])


def _check_table(folder: Path, table: Table, manifest: Manifest) -> LandedTable:
    file = folder / f"{table.name}.parquet"
    if table.name not in manifest.row_counts and not file.exists():
        return LandedTable(table, 0)
    landed = read_table(folder, table)
    _check_row_count(file, landed, manifest.row_counts.get(table.name, 0))
    _check_required_columns(file, table, landed)
    _check_only_value(file, landed, "cluster", manifest.cluster)
    _check_only_value(file, landed, "interval_start", manifest.interval_start)
    return LandedTable(
        table,
        landed.num_rows,
        duplicate_count=landed.num_rows - landed.group_by(list(table.key)).aggregate([]).num_rows,
        rows=with_plain_texts(landed) if is_small(manifest.row_count) else None,
    )


def one_row_per_key(rows: DataFrame, table: Table, key: tuple[str, ...] | None = None) -> DataFrame:
    """Keep the greatest row of each key (the table's own by default): the same one in every run, whatever the order.

    Not `dropDuplicates`: which row that keeps depends on the order of files and tasks.
    """
    key = key or table.key
    others = [column.name for column in table.columns if column.name not in key]
    # NULL sorts below every value: of two rows, the one that knows more in its first differing column stays.
    kept = rows.groupBy(*key).agg(F.max(F.struct(*others)).alias("kept"))
    return kept.select(
        *(F.col(c.name) if c.name in key else F.col(f"kept.{c.name}").alias(c.name) for c in table.columns)
    )


def _check_row_count(file: Path, landed: pa.Table, expected: int) -> None:
    if landed.num_rows != expected:
        raise SnapshotError(f"{file}: has {landed.num_rows} rows, the manifest says {expected}; collect a new interval")


def _check_required_columns(file: Path, table: Table, landed: pa.Table) -> None:
    for column in table.columns:
        empty = landed.column(column.name).null_count
        if empty and not column.nullable:
            raise SnapshotError(f"{file}: column {column.name}: {empty} rows have no value")


def _check_only_value(file: Path, landed: pa.Table, column_name: str, expected: object) -> None:
    """Foreign rows would be written where the predicate of a rerun does not replace them."""
    found = [value for value in pc.unique(landed.column(column_name)).to_pylist() if value != expected]
    if found:
        raise SnapshotError(f"{file}: column {column_name}: {found[0]} instead of {expected}, the snapshot's own")
