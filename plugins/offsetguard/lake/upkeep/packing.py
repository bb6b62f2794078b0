"""Packs many small files into few, and packed ones apart where an interval is to be published once more.

While a day lasts, its fresh files are packed every now and then, and packed ones again when they are many; when it is
over, all of it. Rows are sorted by `Table.sort_order`, and a day that needs several files is cut between consumer
groups: what one of them did all day lies side by side in one file, because a file more costs a reader more than rows.

A publication replaces an interval's files as a whole, so no other interval may lie in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable

from offsetguard.lake.upkeep.table_files import (
    PACKED_PREFIX,
    Exchange,
    TableFile,
    by_group,
    exchange,
    live_files,
    ranges_of_rows,
    read_files,
    sorted_rows,
    write_like,
)
from offsetguard.model.errors import PublishError
from offsetguard.tables import Table

FULL_ROWS = 1_000_000  # of a packed file
FULL_CELLS = 40_000_000  # of a packed file: so many are sorted in memory, about 0.7 GB
FRESH_FILES = 30  # while the day lasts, fewer than these are not worth a commit
PACKED_FILES = 8  # as many small packed ones become one: no row is written more than a few times in a day
_SETTLES_AFTER = timedelta(minutes=30)  # a day's last interval may be published late


def pack(iceberg_table: IcebergTable, table: Table, *, now: datetime) -> list[Exchange]:
    """Write packed files beside the table's small ones; `exchange` puts them in their place."""
    exchanges = []
    full = full_rows(table)
    for files in by_group(live_files(iceberg_table)):
        if now >= _end_of_day(files[-1].last) + _SETTLES_AFTER:
            if len(files) > (parts := -(-sum(file.row_count for file in files) // full)):
                exchanges.append(Exchange(tuple(files), tuple(_whole_day(iceberg_table, table, files, parts))))
            continue
        for chosen in bins(files, full):
            rows = sorted_rows(read_files(iceberg_table, chosen), table)
            exchanges.append(Exchange(tuple(chosen), (_write(iceberg_table, table, rows, chosen),)))
    return exchanges


def full_rows(table: Table) -> int:
    """Return how many rows a packed file of a table has at most."""
    return min(FULL_ROWS, FULL_CELLS // len(table.columns))


def bins(files: Sequence[TableFile], full: int) -> Iterator[list[TableFile]]:
    """Yield which files of a day that lasts become one file of at most `full` rows.

    `files`: in the order of their intervals. Files that are full enough stay as they are.
    """
    small = [file for file in files if file.row_count < full * 3 // 4]
    fresh = [file for file in small if not file.packed]
    packed = [file for file in small if file.packed]
    if len(fresh) >= FRESH_FILES:
        yield from _filled(fresh, full)
    if len(packed) >= PACKED_FILES:
        yield from _filled(packed, full)


def _filled(files: Sequence[TableFile], full: int) -> Iterator[list[TableFile]]:
    chosen: list[TableFile] = []
    rows = 0
    for file in files:
        if chosen and rows + file.row_count > full:
            if len(chosen) > 1:
                yield chosen
            chosen, rows = [], 0
        chosen.append(file)
        rows += file.row_count
    if len(chosen) > 1:
        yield chosen


def _whole_day(iceberg_table: IcebergTable, table: Table, files: Sequence[TableFile], parts: int) -> Iterator[DataFile]:
    """Write a day's rows to at most so many files, cut between consumer groups (or what comes first in their order).

    One part at a time is in memory. Raises PublishError when the parts have not all the rows.
    """
    written = 0
    for rows in ranges_of_rows(iceberg_table, files, _order(iceberg_table, table)[0], parts):
        written += rows.num_rows
        yield _write(iceberg_table, table, sorted_rows(rows, table), files)
    expected = sum(file.row_count for file in files)
    if written != expected:
        raise PublishError(f"{table.name}: {written} rows packed of {expected}; the table is as it was")


def _order(iceberg_table: IcebergTable, table: Table) -> list[str]:
    known = set(iceberg_table.schema().column_names)
    return [name for name in table.sort_order if name in known]


def _write(iceberg_table: IcebergTable, table: Table, rows: pa.Table, like: Sequence[TableFile]) -> DataFile:
    return write_like(iceberg_table, table, rows, like[0], PACKED_PREFIX)


def _end_of_day(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC) + timedelta(days=1)


def unpack(iceberg_table: IcebergTable, table: Table, cluster: str, first: datetime, last: datetime) -> int:
    """Give every interval that starts in [first, last] files of its own; returns how many files were taken apart.

    One commit to main that changes no row; none when there is nothing to do. The caller holds the publish lock.
    """
    if "days(interval_start)" not in table.partition:
        return 0
    exchanges = [
        Exchange(
            (file,),
            tuple(
                write_like(iceberg_table, table, part, file) for part in _parts(iceberg_table, table, file, first, last)
            ),
        )
        for file in live_files(iceberg_table)
        if not file.ingested
        and file.first < file.last
        and _overlap(file, first, last)
        and _is_of(file, iceberg_table, cluster)
    ]
    return exchange(iceberg_table, exchanges, "unpack")[0] if exchanges else 0


def _overlap(file: TableFile, first: datetime, last: datetime) -> bool:
    return file.first <= last and file.last >= first


def _is_of(file: TableFile, iceberg_table: IcebergTable, cluster: str) -> bool:
    """Whether a file's partition is the cluster's."""
    spec = iceberg_table.metadata.specs()[file.data_file.spec_id]
    values = {
        iceberg_table.schema().find_column_name(field.source_id): file.data_file.partition[position]
        for position, field in enumerate(spec.fields)
    }
    return bool(values.get("cluster", cluster) == cluster)


def _parts(
    iceberg_table: IcebergTable, table: Table, file: TableFile, first: datetime, last: datetime
) -> Iterator[pa.Table]:
    """Yield what lies before the span, each interval in it, and what lies after it."""
    rows = sorted_rows(read_files(iceberg_table, [file]), table)
    starts = rows.column("interval_start")
    low, high = (pa.scalar(moment, starts.type) for moment in (first, last))
    for outside in (pc.less(starts, low), pc.greater(starts, high)):
        if (part := rows.filter(outside)).num_rows:
            yield part
    inside = rows.filter(pc.and_(pc.greater_equal(starts, low), pc.less_equal(starts, high)))
    by_interval = inside.sort_by([("interval_start", "ascending")])
    position = 0
    for count in pc.value_counts(by_interval.column("interval_start").combine_chunks()).field("counts").to_pylist():
        yield sorted_rows(by_interval.slice(position, count), table)
        position += count
