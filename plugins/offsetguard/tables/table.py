"""What a table and a column are."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from offsetguard.records import record

RAW_RETENTION = timedelta(days=7)  # what was seen; the pages show one group's 7 days
FACT_RETENTION = timedelta(days=90)  # what was made of it: small, and weeks are compared with each other

_ROW_GROUP_CELLS = (
    800_000  # fewer: footers, which readers keep, get large; more: a group that is read brings many others
)


class ColumnType(StrEnum):
    """The types that our tables use; each has one pyarrow and one Spark counterpart."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"  # UTC, microseconds
    STRING_LIST = "string list"


@record
class Column:
    """One column; the meaning says the unit and when it is NULL."""

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = True
    formerly: str | None = None  # its name in release 0.1, whose tables and files are still read


@record
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

    @property
    def row_group_rows(self) -> int:
        """Rows of a compacted file that are read at once: few, because a reader wants one group's of them."""
        return max(1_000, _ROW_GROUP_CELLS // len(self.columns))

    def __getitem__(self, column_name: str) -> Column:
        """Return a column by name; raises KeyError."""
        for column in self.columns:
            if column.name == column_name:
                return column
        raise KeyError(f"table {self.name} has no column {column_name}")

    def columns_named(self, *column_names: str) -> tuple[Column, ...]:
        """Return some columns in the order of the names, for a table that carries them on; raises KeyError."""
        return tuple(self[name] for name in column_names)
