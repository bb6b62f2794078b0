"""The tables of `offsetguard.tables` as Spark schemas and as Iceberg tables: every column is defined there, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types

from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE
from offsetguard.tables import PUBLISHED, Column, ColumnType, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Return the CREATE TABLE statement, with meanings and units as comments; partitioned by day and cluster."""
    columns = ",\n  ".join(_column_clause(column) for column in table.columns)
    properties = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in _TABLE_PROPERTIES.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {table_name(table)} (\n  {columns}\n) USING iceberg\n"
        f"PARTITIONED BY (days(interval_start), cluster)\n"
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


def _column_clause(column: Column) -> str:
    required = "" if column.nullable else " NOT NULL"
    return f"{column.name} {spark_type(column).simpleString()}{required} COMMENT {_quoted(column.meaning)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
