"""What a table and a column are, and how the columns are written: as the fields of a class.

    queue_count: Annotated[Int32, "queues of the topic that the group can read"]
    lag: Annotated[int | None, "max_offset - consumer_offset, messages"] = None

A class that somebody reads as typed records is a dataclass as well, and gives what may be NULL a default.
A `ClassVar` of columns stands where they are in the table: of a base, or such as the record has in another form.
These modules evaluate their annotations, so they have no `from __future__ import annotations`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args

import pyarrow as pa

RAW_RETENTION = timedelta(days=7)  # what was seen; the pages show one group's 7 days
FACT_RETENTION = timedelta(days=90)  # what was made of it: small, and weeks are compared with each other

# Of a compacted file, read at once. Fewer: a reader spends its time on footers (of 87 columns, 9,000 rows each: 12 ms a
# file, 74,000: 4, and a fifth less on disk); more: a group that is read brings many others.
ROW_GROUP_ROWS = 75_000


class ColumnType(StrEnum):
    """The types that our tables use; each has one pyarrow and one Spark counterpart."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"  # UTC, microseconds
    STRING_LIST = "string list"


Int32 = Annotated[int, ColumnType.INT32]  # a bare `int` has 64 bits
_TYPES: dict[Any, ColumnType] = {
    str: ColumnType.STRING,
    int: ColumnType.INT64,
    float: ColumnType.FLOAT64,
    bool: ColumnType.BOOLEAN,
    datetime: ColumnType.TIMESTAMP,
    tuple[str, ...]: ColumnType.STRING_LIST,
    Int32: ColumnType.INT32,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the meaning says the unit and when it is NULL."""

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `key` identifies a row."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ("days(interval_start)", "cluster")  # Iceberg transforms
    retention: timedelta | None = RAW_RETENTION  # None: only the newest rows are kept

    @property
    def sort_order(self) -> tuple[str, ...]:
        """The columns that compacted files are sorted by: a reader asks for the past of one group, or of one topic."""
        first = ("consumer_group", *self.key)
        names = dict.fromkeys(name for name in first if name in self.key and name not in ("cluster", "interval_start"))
        return (*names, "interval_start")

    def __getitem__(self, column_name: str) -> Column:
        """Return a column by name; raises KeyError."""
        for column in self.columns:
            if column.name == column_name:
                return column
        raise KeyError(f"table {self.name} has no column {column_name}")


@cache
def columns_of(kind: type) -> tuple[Column, ...]:
    """Return the columns that a class says, in its order; those of bases that it does not place come first."""
    own: dict[str, Column] = {}
    for name, said in kind.__annotations__.items():
        own |= {one.name: one for one in vars(kind)[name]} if said is ClassVar else {name: _column(name, said)}
    inherited = (column for base in kind.__bases__ if base is not object for column in columns_of(base))
    return (*(column for column in inherited if column.name not in own), *own.values())


def nullable(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns that may be NULL, all of them: what they say need not be there."""
    return tuple(replace(column, nullable=True) for column in columns)


def _column(name: str, said: Any) -> Column:
    *marks, meaning = said.__metadata__
    alone, or_null = said.__origin__, NoneType in get_args(said.__origin__)
    if or_null:
        alone = get_args(alone)[0]
    return Column(name, marks[0] if marks else _TYPES[alone], meaning, or_null)


class _Row:
    cluster: Annotated[str, "name of the cluster in config/offsetguard.yml"]
    interval_start: Annotated[datetime, "start of the interval that the row belongs to, UTC"]


def row_of(kind: type) -> tuple[Column, ...]:
    """Return the columns of a table: the transaction that each row belongs to, and those that a class says."""
    return tuple({one.name: one for one in (*columns_of(_Row), *columns_of(kind))}.values())


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
