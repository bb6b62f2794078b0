"""Tables as Arrow schemas: of the files that are landed, and of what DuckDB and pyiceberg read."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from offsetguard.tables.table import ColumnType, Table


@cache
def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column: the only definition."""
    return {
        ColumnType.STRING: pa.string(),
        ColumnType.INT32: pa.int32(),
        ColumnType.INT64: pa.int64(),
        ColumnType.FLOAT64: pa.float64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
        ColumnType.STRING_LIST: pa.list_(pa.string()),
    }[column_type]


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Parquet schema of a table, in column order."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in table.columns])
