"""The tables of `offsetguard.tables` as Spark schemas and as Iceberg tables: every column is defined there, once.

Spark's server commits rows by its clock, this process commits branches by its own, and in a table's metadata times must
not go back (`offsetguard.lake.upkeep.commit_times`). So a difference of more than a minute stops a run before it
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyiceberg import types as iceberg_types
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import DayTransform, IdentityTransform, Transform
from pyiceberg.types import NestedField
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.utils import is_remote
from sqlalchemy import Engine, text

from offsetguard.catalogue.text import format_moment
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import (
    CATALOG_NAME,
    NAMESPACE,
    catalog_errors_named,
    catalog_exists,
    catalog_shown,
    load_table,
    open_catalog,
    sql_properties,
    table_names,
)
from offsetguard.lake.upkeep.commit_times import TOLERATED, keep_times_in_order
from offsetguard.model.errors import PublishError
from offsetguard.tables import PUBLISHED, QUEUE_STATE, Column, ColumnType, Table

_SPARK_TYPES: dict[ColumnType, spark_types.DataType] = {
    ColumnType.STRING: spark_types.StringType(),
    ColumnType.INT32: spark_types.IntegerType(),
    ColumnType.INT64: spark_types.LongType(),
    ColumnType.FLOAT64: spark_types.DoubleType(),
    ColumnType.BOOLEAN: spark_types.BooleanType(),
    ColumnType.TIMESTAMP: spark_types.TimestampType(),
    ColumnType.STRING_LIST: spark_types.ArrayType(spark_types.StringType()),
}

_ICEBERG_TYPES: dict[ColumnType, iceberg_types.IcebergType] = {
    ColumnType.STRING: iceberg_types.StringType(),
    ColumnType.INT32: iceberg_types.IntegerType(),
    ColumnType.INT64: iceberg_types.LongType(),
    ColumnType.FLOAT64: iceberg_types.DoubleType(),
    ColumnType.BOOLEAN: iceberg_types.BooleanType(),
    ColumnType.TIMESTAMP: iceberg_types.TimestamptzType(),
    ColumnType.STRING_LIST: iceberg_types.ListType(10_000, iceberg_types.StringType(), element_required=False),
}

_TABLE_PROPERTIES = {
    "format-version": "2",
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
_CHANGEABLE_PROPERTIES = tuple(name for name in _TABLE_PROPERTIES if name != "format-version")  # that one is reserved


def spark_type(column: Column) -> spark_types.DataType:
    """Return the Spark type of a column."""
    return _SPARK_TYPES[column.type]


def spark_schema(table: Table) -> spark_types.StructType:
    """Return the Spark schema of a table, in column order."""
    return spark_types.StructType([spark_types.StructField(c.name, spark_type(c), c.nullable) for c in table.columns])


def nothing(spark: SparkSession, table: Table) -> DataFrame:
    """Return no rows of a table: the server need not look for it, and what is joined with it costs nothing."""
    return spark.createDataFrame([], spark_schema(table)).where(F.lit(False))  # by this the planner knows


def table_name(table: Table, branch: str | None = None) -> str:
    """Return the table's name in Spark SQL, or that of one of its branches."""
    name = f"{CATALOG_NAME}.{NAMESPACE}.{table.name}"
    return name if branch is None else f"{name}.branch_{branch}"


def prepare_tables(spark: SparkSession, workspace: Workspace, say: Callable[[str], None]) -> dict[Table, IcebergTable]:
    """Create the tables that do not exist yet and evolve the others; returns the metadata of all. Says what it did.

    Puts times in order that a clock has damaged. Raises PublishError where a clock would do so now.
    """
    create_missing_tables(workspace)
    states = load_tables(workspace)
    keep_times_in_order(states.values(), agreed_time(spark), say)
    if statements := evolve_tables(spark, states):
        for statement in statements:
            say(f"tables: {statement}")
        states = load_tables(workspace)
    return states


def create_missing_tables(workspace: Workspace) -> None:
    """Create catalog, namespace and tables where they are missing: metadata alone, which needs no Spark.

    Any number of processes may do so at once in PostgreSQL. Raises PublishError when the catalog cannot be used.
    """
    workspace.home.mkdir(parents=True, exist_ok=True)
    is_new = not catalog_exists(workspace)
    with catalog_errors_named(catalog_shown(workspace)):
        catalog = SqlCatalog(CATALOG_NAME, **sql_properties(workspace))
        with _only_creator(catalog.engine):
            if is_new:
                catalog.create_tables()
            catalog.create_namespace_if_not_exists(NAMESPACE)
            existing = table_names(catalog)
            for table in PUBLISHED:
                if table.name not in existing:
                    catalog.create_table(
                        (NAMESPACE, table.name),
                        _iceberg_schema(table),
                        location=f"{workspace.warehouse_folder.as_uri()}/{NAMESPACE}/{table.name}",
                        partition_spec=_iceberg_partition(table),
                        properties=_properties(table) | {"comment": table.meaning},
                    )


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


def load_tables(workspace: Workspace) -> dict[Table, IcebergTable]:
    """Load the metadata of every published table."""
    catalog = open_catalog(workspace)
    return {table: load_table(catalog, table) for table in PUBLISHED}


def evolve_tables(spark: SparkSession, existing: Mapping[Table, IcebergTable]) -> list[str]:
    """Bring tables that an earlier release created to this one's columns; returns the statements that it took.

    Only metadata changes: old rows stay where they are and show NULL in new columns. Published snapshots keep the
    schema that they were written with.
    """
    statements = [
        statement
        for table, created in existing.items()
        for statement in evolve_statements(table, created.schema(), created.properties)
    ]
    for statement in statements:
        spark.sql(statement)
    return statements


def evolve_statements(table: Table, created: Schema, properties: Mapping[str, str]) -> list[str]:
    """Return the ALTER TABLE statements between a created table and its definition; none when they agree.

    A new column is nullable there even if new rows must have a value: the old rows have none.
    """
    alter = f"ALTER TABLE {table_name(table)}"
    fields = {field.name: field for field in created.fields}
    statements = []
    for column in table.columns:
        field = fields.get(column.name)
        if field is None:
            statements.append(f"{alter} ADD COLUMN {_column_clause(replace(column, nullable=True))}")
            continue
        if field.required and column.nullable:
            statements.append(f"{alter} ALTER COLUMN {column.name} DROP NOT NULL")
        if field.doc != column.meaning:
            statements.append(f"{alter} ALTER COLUMN {column.name} COMMENT {_quoted(column.meaning)}")
    wanted = {"comment": table.meaning} | {name: _properties(table)[name] for name in _CHANGEABLE_PROPERTIES}
    if changed := {name: value for name, value in wanted.items() if properties.get(name) != value}:
        statements.append(f"{alter} SET TBLPROPERTIES ({_assignments(changed)})")
    return statements


def _iceberg_schema(table: Table) -> Schema:
    return Schema(
        *(
            NestedField(
                number, column.name, _ICEBERG_TYPES[column.type], required=not column.nullable, doc=column.meaning
            )
            for number, column in enumerate(table.columns, 1)
        )
    )


def _iceberg_partition(table: Table) -> PartitionSpec:
    numbers = {column.name: number for number, column in enumerate(table.columns, 1)}
    fields = []
    for number, transform in enumerate(table.partition, 1000):  # Iceberg numbers partition fields from 1000
        by_day = transform.startswith("days(")
        name = transform.removeprefix("days(").removesuffix(")")
        rule: Transform[Any, Any] = DayTransform() if by_day else IdentityTransform()
        fields.append(PartitionField(numbers[name], number, rule, f"{name}_day" if by_day else name))
    return PartitionSpec(*fields)


def _properties(table: Table) -> dict[str, str]:
    return _TABLE_PROPERTIES | _OWN_PROPERTIES.get(table.name, {})


def _column_clause(column: Column) -> str:
    required = "" if column.nullable else " NOT NULL"
    return f"{column.name} {spark_type(column).simpleString()}{required} COMMENT {_quoted(column.meaning)}"


def _assignments(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in properties.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1"})


def agreed_time(spark: SparkSession) -> datetime:
    """Return the time by whichever clock is behind; raises PublishError, with both, where they differ by too much."""
    here = server = datetime.now(UTC)
    if is_remote() and _host_of(spark) not in _THIS_HOST:  # else it has the same clock, and need not be asked
        (row,) = spark.sql("SELECT unix_millis(current_timestamp()) AS now_ms").collect()
        server = datetime.fromtimestamp(row["now_ms"] / 1000, UTC)
    return agreed(here, server)


def _host_of(spark: Any) -> str:  # PySpark types a Connect session's client as what a classic one has
    host: str = spark.client.host
    return host


def agreed(here: datetime, server: datetime) -> datetime:
    """Return the earlier of two clocks' times; raises PublishError where they differ by more than a minute."""
    if abs(here - server) > TOLERATED:
        raise PublishError(
            f"the clock of this host says {format_moment(here)}, the Spark server {format_moment(server)}: both "
            "commit to the same tables, in which times must not go back; nothing was written; set both by NTP"
        )
    return min(here, server)
