"""Many small files into few: each publication adds one file to every table, and readers open all that may hold a row.

While a day lasts, its fresh files are packed every now and then; when it is over, all that is left of it. Rows are
sorted by `Table.sort_order`, so that what one consumer group did all day lies side by side.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from offsetguard.housekeeping.table_files import (
    PACKED_PREFIX,
    Exchange,
    by_group,
    live_files,
    read_files,
    sorted_rows,
    write_like,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table as IcebergTable

    from offsetguard.housekeeping.table_files import TableFile
    from offsetguard.tables import Table

FULL_ROWS = 1_000_000  # of a packed file
FULL_CELLS = 40_000_000  # of a packed file: so many are sorted in memory, about 0.7 GB
FRESH_FILES = 30  # while the day lasts, fewer than these are not worth a commit
_SETTLES_AFTER = timedelta(minutes=30)  # a day's last interval may be published late


def pack(iceberg_table: IcebergTable, table: Table, *, now: datetime) -> list[Exchange]:
    """Write packed files beside the table's small ones; `exchange` puts them in their place."""
    exchanges = []
    for files in by_group(live_files(iceberg_table)):
        for chosen in bins(files, full_rows(table), now=now):
            rows = sorted_rows(read_files(iceberg_table, chosen), table)
            packed = write_like(iceberg_table, table, rows, chosen[0], PACKED_PREFIX)
            exchanges.append(Exchange(tuple(chosen), (packed,)))
    return exchanges


def full_rows(table: Table) -> int:
    """Return how many rows a packed file of a table has at most."""
    return min(FULL_ROWS, FULL_CELLS // len(table.columns))


def bins(files: Sequence[TableFile], full: int, *, now: datetime) -> Iterator[list[TableFile]]:
    """Yield which files of one day become one file of at most `full` rows.

    `files`: in the order of their intervals. Files that are full enough stay as they are.
    """
    if not files:
        return
    day_is_over = now >= _end_of_day(files[-1].last) + _SETTLES_AFTER
    if day_is_over:
        small = [file for file in files if file.row_count < full * 3 // 4]
    else:
        small = [file for file in files if not file.packed and file.row_count < full * 3 // 4]
        if len(small) < FRESH_FILES:
            return
    chosen: list[TableFile] = []
    rows = 0
    for file in small:
        if chosen and rows + file.row_count > full:
            if len(chosen) > 1:
                yield chosen
            chosen, rows = [], 0
        chosen.append(file)
        rows += file.row_count
    if len(chosen) > 1:
        yield chosen


def _end_of_day(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC) + timedelta(days=1)
