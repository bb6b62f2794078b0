"""What a table and a column are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

RAW_RETENTION = timedelta(days=7)  # what was seen; the pages show one group's 7 days
FACT_RETENTION = timedelta(days=90)  # what was made of it: small, and weeks are compared with each other


class ColumnType(StrEnum):
    """The types that our tables use; each has one pyarrow and one Spark counterpart."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"  # UTC, microseconds
    STRING_LIST = "string list"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the meaning says the unit and when it is NULL."""

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = True
    formerly: str | None = None  # its name in release 0.1, whose tables and files are still read


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `key` identifies a row."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ("days(interval_start)", "cluster")  # Iceberg transforms
    retention: timedelta | None = RAW_RETENTION  # None: only the newest rows are kept

    def __getitem__(self, column_name: str) -> Column:
        """Return a column by name; raises KeyError."""
        for column in self.columns:
            if column.name == column_name:
                return column
        raise KeyError(f"table {self.name} has no column {column_name}")
