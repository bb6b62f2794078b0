"""Packed files apart again, where some intervals are to be published once more.

A publication replaces an interval's files as a whole, so no other interval may lie in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from offsetguard.housekeeping.table_files import Exchange, exchange, live_files, read_files, sorted_rows, write_like

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyiceberg.table import Table as IcebergTable

    from offsetguard.housekeeping.table_files import TableFile
    from offsetguard.tables import Table


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
