"""The tables of `offsetguard.tables` as Spark schemas and as Iceberg tables: every column is defined there, once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types

from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE
from offsetguard.tables import PUBLISHED, Column, ColumnType, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

_SPARK_TYPES: dict[ColumnType, spark_types.DataType] = {
    ColumnType.STRING: spark_types.StringType(),
    ColumnType.INT32: spark_types.IntegerType(),
    ColumnType.INT64: spark_types.LongType(),
    ColumnType.FLOAT64: spark_types.DoubleType(),
    ColumnType.BOOLEAN: spark_types.BooleanType(),
    ColumnType.TIMESTAMP: spark_types.TimestampType(),
    ColumnType.STRING_LIST: spark_types.ArrayType(spark_types.StringType()),
}

_TABLE_PROPERTIES = {
    "format-version": "2",
    # Each commit writes a metadata file: keep the last few instead of one per interval for ever.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # An interval is small and already in one file; a shuffle before the write would only cost.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}


def spark_type(column: Column) -> spark_types.DataType:
    """Return the Spark type of a column."""
    return _SPARK_TYPES[column.type]


def spark_schema(table: Table) -> spark_types.StructType:
    """Return the Spark schema of a table, in column order."""
    return spark_types.StructType([spark_types.StructField(c.name, spark_type(c), c.nullable) for c in table.columns])


def table_name(table: Table, branch: str | None = None) -> str:
    """Return the table's name in Spark SQL, or that of one of its branches."""
    name = f"{CATALOG_NAME}.{NAMESPACE}.{table.name}"
    return name if branch is None else f"{name}.branch_{branch}"


def create_statement(table: Table) -> str:
    """Return the CREATE TABLE statement, with meanings and units as comments."""
    columns = ",\n  ".join(_column_clause(column) for column in table.columns)
    properties = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in _TABLE_PROPERTIES.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {table_name(table)} (\n  {columns}\n) USING iceberg\n"
        f"PARTITIONED BY ({', '.join(table.partition)})\n"
        f"COMMENT {_quoted(table.meaning)}\nTBLPROPERTIES ({properties})"
    )


def create_tables(spark: SparkSession, tables: Sequence[Table] = PUBLISHED) -> list[str]:
    """Create the tables that do not exist yet; returns their names. One look-up when all exist."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG_NAME}.{NAMESPACE}")
    existing = {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {CATALOG_NAME}.{NAMESPACE}").collect()}
    missing = [table for table in tables if table.name not in existing]
    for table in missing:
        spark.sql(create_statement(table))
    return [table.name for table in missing]


def evolve_tables(spark: SparkSession, existing: Mapping[Table, IcebergTable]) -> list[str]:
    """Bring tables that an earlier release created to this one's columns; returns the statements that it took.

    Only metadata changes: old rows stay where they are and show NULL in new columns. Published snapshots keep the
    schema that they were written with.
    """
    statements = [
        statement
        for table, created in existing.items()
        for statement in evolve_statements(table, created.schema(), created.properties.get("comment"))
    ]
    for statement in statements:
        spark.sql(statement)
    return statements


def evolve_statements(table: Table, created: Schema, comment: str | None) -> list[str]:
    """Return the ALTER TABLE statements between a created table and its definition; none when they agree.

    A new column is nullable there even if new rows must have a value: the old rows have none.
    """
    alter = f"ALTER TABLE {table_name(table)}"
    fields = {field.name: field for field in created.fields}
    statements = []
    for column in table.columns:
        field = fields.get(column.name)
        if field is None and column.formerly in fields:
            field = fields[column.formerly]
            statements.append(f"{alter} RENAME COLUMN {column.formerly} TO {column.name}")
        if field is None:
            statements.append(f"{alter} ADD COLUMN {_column_clause(replace(column, nullable=True))}")
            continue
        if field.required and column.nullable:
            statements.append(f"{alter} ALTER COLUMN {column.name} DROP NOT NULL")
        if field.doc != column.meaning:
            statements.append(f"{alter} ALTER COLUMN {column.name} COMMENT {_quoted(column.meaning)}")
    if comment != table.meaning:
        statements.append(f"{alter} SET TBLPROPERTIES ('comment' = {_quoted(table.meaning)})")
    return statements


def _column_clause(column: Column) -> str:
    required = "" if column.nullable else " NOT NULL"
    return f"{column.name} {spark_type(column).simpleString()}{required} COMMENT {_quoted(column.meaning)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
