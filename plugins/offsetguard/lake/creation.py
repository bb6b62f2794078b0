"""How Iceberg tables are created: columns, partitions and properties of `offsetguard.tables`; metadata alone."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)
from sqlalchemy import Engine, text

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import (
    NAMESPACE,
    catalog_errors_named,
    catalog_exists,
    catalog_shown,
    location_of,
    sql_catalog,
    table_names,
)
from offsetguard.tables import PUBLISHED, QUEUE_STATE, ColumnType, Table

_TYPES: dict[ColumnType, IcebergType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT32: IntegerType(),
    ColumnType.INT64: LongType(),
    ColumnType.FLOAT64: DoubleType(),
    ColumnType.BOOLEAN: BooleanType(),
    ColumnType.TIMESTAMP: TimestamptzType(),
    ColumnType.STRING_LIST: ListType(10_000, StringType(), element_required=False),
}
RESERVED_PROPERTY = "format-version"  # cannot be changed by ALTER TABLE
_PROPERTIES = {
    RESERVED_PROPERTY: "2",
    # Each commit writes a metadata file: keep the last few instead of one per interval for ever.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # Each commit and each scan opens every manifest of the day. By default a hundred small ones gather before they are
    # merged, to files of 8 MB whose thousands of entries are read as often.
    "commit.manifest.min-count-to-merge": "5",
    "commit.manifest.target-size-bytes": str(64 * 1024),
    # An interval is small and already in one file; a shuffle before the write would only cost.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    # Readers want one group's rows of a day: small row groups let them skip the others'.
    "write.parquet.row-group-size-bytes": str(1024 * 1024),
}
_OWN_PROPERTIES = {
    # Written and read whole by each cycle, and in no order: small row groups would spare nobody anything.
    QUEUE_STATE.name: {"write.parquet.row-group-size-bytes": str(64 * 1024 * 1024)},
}


def create_missing_tables(workspace: Workspace, tables: Iterable[Table] = PUBLISHED) -> None:
    """Create catalog, namespace and tables where they are missing: metadata alone, which needs no Spark.

    Any number of processes may do so at once in PostgreSQL. Raises PublishError when the catalog cannot be used.
    """
    workspace.home.mkdir(parents=True, exist_ok=True)
    is_new = not catalog_exists(workspace)
    with catalog_errors_named(catalog_shown(workspace)):
        catalog = sql_catalog(workspace)
        with _only_creator(catalog.engine):
            if is_new:
                catalog.create_tables()
            catalog.create_namespace_if_not_exists(NAMESPACE)
            existing = table_names(catalog)
            for table in tables:
                if table.name not in existing:
                    catalog.create_table(
                        (NAMESPACE, table.name),
                        schema_of(table),
                        location=f"{location_of(workspace.warehouse_folder)}/{NAMESPACE}/{table.name}",
                        partition_spec=_partition(table),
                        properties=properties_of(table),
                    )


def properties_of(table: Table) -> dict[str, str]:
    """Return all properties of a table, what it holds among them."""
    return _PROPERTIES | _OWN_PROPERTIES.get(table.name, {}) | {"comment": table.meaning}


@contextmanager
def _only_creator(engine: Engine) -> Iterator[None]:
    """Let one process at a time look for what is missing and create it: PostgreSQL fails one of two that do so at once.

    On SQLite the publish lock is enough: its catalog is in the folder of one publisher.
    """
    if engine.dialect.name == "sqlite":
        yield
        return
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('offsetguard iceberg catalog'))"))
        yield


def schema_of(table: Table, *, with_required: bool = True) -> Schema:
    """Return a table's columns as Iceberg has them; `with_required`: it refuses rows that lack what must be there."""
    return Schema(
        *(
            NestedField(
                number,
                column.name,
                _TYPES[column.type],
                required=with_required and not column.nullable,
                doc=column.meaning,
            )
            for number, column in enumerate(table.columns, 1)
        )
    )


def _partition(table: Table) -> PartitionSpec:
    numbers = {column.name: number for number, column in enumerate(table.columns, 1)}
    fields = []
    for number, transform in enumerate(table.partition, 1000):  # Iceberg numbers partition fields from 1000
        by_day = transform.startswith("days(")
        name = transform.removeprefix("days(").removesuffix(")")
        rule: Transform[Any, Any] = DayTransform() if by_day else IdentityTransform()
        fields.append(PartitionField(numbers[name], number, rule, f"{name}_day" if by_day else name))
    return PartitionSpec(*fields)
