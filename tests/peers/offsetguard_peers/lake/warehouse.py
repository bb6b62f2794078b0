"""A small warehouse without Spark: rows of `group_facts`, in the layout that Spark and housekeeping leave behind."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    write_file,
)
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import WriteTask
from pyiceberg.transforms import DayTransform
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import CATALOG_NAME, NAMESPACE, sql_properties
from offsetguard.lake.reading import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import GROUP_FACTS, ColumnType, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_peers.databases import fresh_database

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_catalog(workspace: Workspace) -> SqlCatalog:
    """Make an empty catalog in a workspace."""
    workspace.home.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(CATALOG_NAME, **(sql_properties(workspace) | {"init_catalog_tables": "true"}))
    catalog.create_namespace(NAMESPACE)
    return catalog


def create_table(catalog: SqlCatalog, table: Table, row_group_rows: int = 20_000) -> IcebergTable:
    """Create one of our tables, partitioned as it is defined."""
    properties = {
        "write.parquet.row-group-limit": str(row_group_rows),
        "write.parquet.compression-codec": "zstd",
        "write.target-file-size-bytes": str(1 << 40),  # one file per partition and append
        "write.metadata.previous-versions-max": "20",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    created = catalog.create_table((NAMESPACE, table.name), arrow_schema(table), properties=properties)
    with created.update_spec() as spec:
        for transform in table.partition:
            if transform.startswith("days("):
                spec.add_field(
                    transform.removeprefix("days(").removesuffix(")"), DayTransform(), f"{transform[5:-1]}_day"
                )
            else:
                spec.add_identity(transform)
    return created


def append(table: IcebergTable, files: Iterable[pa.Table]) -> int:
    """Append data files, one per Arrow table, as one commit; the rows of each are of one partition.

    Returns the snapshot id.
    """
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as commit:
        for number, rows in enumerate(files):
            task = WriteTask(
                uuid.uuid4(), number, table.schema(), rows.to_batches(), partition_key=_partition(table, rows)
            )
            for file in write_file(table.io, transaction.table_metadata, iter([task])):
                commit.append_data_file(file)
    return _newest_snapshot_id(table)


def _newest_snapshot_id(table: IcebergTable) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def _partition(table: IcebergTable, rows: pa.Table) -> PartitionKey:
    """Return the partition of the first row."""
    values = []
    for part in table.spec().fields:
        first = rows.column(table.schema().find_column_name(part.source_id))[0].as_py()
        value = (first - _EPOCH).days if isinstance(part.transform, DayTransform) else first
        values.append(PartitionFieldValue(part, value))
    return PartitionKey(values, table.spec(), table.schema())


def put_newest_commit_ahead(iceberg_table: IcebergTable, by: timedelta) -> None:
    """Let the newest commit, one of rows, carry a later time in all places where Iceberg keeps it."""
    iceberg_table.refresh()
    file = Path(urlparse(iceberg_table.metadata_location).path)
    said = json.loads(file.read_text("utf-8"))
    (snapshot,) = (one for one in said["snapshots"] if one["snapshot-id"] == said["current-snapshot-id"])
    said["last-updated-ms"] += int(by.total_seconds() * 1000)
    snapshot["timestamp-ms"] = said["snapshot-log"][-1]["timestamp-ms"] = said["last-updated-ms"]
    file.write_text(json.dumps(said), "utf-8")
    iceberg_table.refresh()


START = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
_FILL: dict[ColumnType, Any] = {
    ColumnType.STRING: "",
    ColumnType.INT32: 0,
    ColumnType.INT64: 0,
    ColumnType.FLOAT64: 0.0,
    ColumnType.BOOLEAN: False,
    ColumnType.TIMESTAMP: START,
}


def minute(number: int) -> datetime:
    """Return the start of the numbered interval."""
    return START + timedelta(minutes=number)


def rows_of(table: Table, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Fill in what a required column must have."""
    filled = [
        {c.name: row.get(c.name, None if c.nullable else _FILL.get(c.type, [])) for c in table.columns} for row in rows
    ]
    return pa.Table.from_pylist(filled, schema=arrow_schema(table))


def group_rows(groups: Iterable[str], minutes: Iterable[int], cluster: str = "demo") -> pa.Table:
    """Rows of groups whose lag is the number of the minute; sorted as compacted files are."""
    minutes = list(minutes)
    return rows_of(
        GROUP_FACTS,
        [
            {"cluster": cluster, "interval_start": minute(number), "consumer_group": group, "topic": "orders"}
            | {"lag": number}
            for group in groups
            for number in minutes
        ],
    )


@dataclass
class Warehouse:
    """A workspace with one table, and what was published of it."""

    workspace: Workspace
    engine: Engine
    catalog: SqlCatalog
    group_facts: IcebergTable
    published: dict[int, PublishedInterval] = field(default_factory=dict)

    @classmethod
    def in_folder(cls, folder: Path) -> Warehouse:
        """Make an empty one."""
        home = folder / "home"
        workspace = Workspace(home, folder / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        catalog = new_catalog(workspace)
        table = create_table(catalog, GROUP_FACTS, row_group_rows=16)
        return cls(workspace, fresh_database(workspace.database_url), catalog, table)

    def append(self, *files: pa.Table) -> int:
        """Commit data files; returns the snapshot id."""
        return append(self.group_facts, files)

    def publish(self, minutes: Iterable[int], snapshot_id: int, *, at: int = 0) -> None:
        """Make intervals visible at a snapshot; `at`: so many minutes late."""
        for number in minutes:
            self.published[number] = PublishedInterval(
                "demo",
                Interval(minute(number)),
                f"run-{number}",
                minute(number + 1 + at),
                "published",
                {GROUP_FACTS.name: snapshot_id},
                json.dumps({}),
            )
            published_intervals.record(self.engine, self.published[number])

    def reader(self) -> FactReader:
        """Return a reader that remembers nothing yet."""
        return FactReader(self.workspace, self.engine)

    def data_files(self) -> list[Path]:
        """Return the data files of the table."""
        return sorted((self.workspace.warehouse_folder / "facts" / "group_facts" / "data").rglob("*.parquet"))
