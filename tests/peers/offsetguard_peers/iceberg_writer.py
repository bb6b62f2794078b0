"""Writes our Iceberg tables without Spark, in the layout that Spark gives them: for readers' tests and benchmarks."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    write_file,
)
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import WriteTask
from pyiceberg.transforms import DayTransform

from offsetguard.config.workspace import Workspace
from offsetguard.lake.iceberg_catalog import CATALOG_NAME, NAMESPACE, sql_properties
from offsetguard.tables import Table
from offsetguard.tables.arrow import arrow_schema

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
    for field in table.spec().fields:
        first = rows.column(table.schema().find_column_name(field.source_id))[0].as_py()
        value = (first - _EPOCH).days if isinstance(field.transform, DayTransform) else first
        values.append(PartitionFieldValue(field, value))
    return PartitionKey(values, table.spec(), table.schema())
