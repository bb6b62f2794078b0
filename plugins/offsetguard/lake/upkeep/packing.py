"""Packs many small files into few, and packed ones apart where an interval is to be published once more.

While a day lasts, its fresh files are packed every now and then, and packed ones again when they are many; when it is
over, all of it. Rows are sorted by `Table.sort_order`, and a day that needs several files is cut between consumer
groups: what one of them did all day lies side by side in one file, because a file more costs a reader more than rows.

A publication replaces an interval's files as a whole, so no other interval may lie in them. Files are found, read and
written without a JVM and while publications go on; only exchanging them for those that hold the same rows is a commit.
Spark's `rewrite_data_files` writes and commits at once: it would hold the publish lock all the while, because a commit
to main in between makes every open branch fail.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import dataset
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ValidationException
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import TimestamptzType
from pyiceberg.utils.datetime import micros_to_timestamptz

from offsetguard.config.object_store import filesystem, is_remote, make_folder
from offsetguard.lake.catalog import path_of
from offsetguard.lake.upkeep.commit_times import load_to_commit
from offsetguard.model.errors import PublishError
from offsetguard.tables import Table
from offsetguard.tables.table import ROW_GROUP_ROWS

FULL_ROWS = 1_000_000  # of a packed file
FULL_CELLS = 40_000_000  # of a packed file: so many are sorted in memory, about 0.7 GB
FRESH_FILES = 30  # while the day lasts, fewer than these are not worth a commit
PACKED_FILES = 8  # as many small packed ones become one: no row is written more than a few times in a day
_SETTLES_AFTER = timedelta(minutes=30)  # a day's last interval may be published late
HOUSEKEEPING_PROPERTY = "offsetguard.housekeeping"  # of the snapshots that exchange files: what for
PACKED_PREFIX = "packed-"
_INGESTED_PREFIX = b"ingested/"  # of `source`: rows of whole log files; see spark/offsetguard_spark/ingest.py


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
            exchanges.append(Exchange(tuple(chosen), (write_file(iceberg_table, rows, PACKED_PREFIX),)))
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
    first = next(name for name in table.sort_order if name in iceberg_table.schema().column_names)
    for rows in ranges_of_rows(iceberg_table, files, first, parts):
        written += rows.num_rows
        yield write_file(iceberg_table, sorted_rows(rows, table), PACKED_PREFIX)
    expected = sum(file.row_count for file in files)
    if written != expected:
        raise PublishError(f"{table.name}: {written} rows packed of {expected}; the table is as it was")


def _end_of_day(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC) + timedelta(days=1)


def unpack(iceberg_table: IcebergTable, table: Table, cluster: str, first: datetime, last: datetime) -> int:
    """Give every interval that starts in [first, last] files of its own; returns how many files were taken apart.

    One commit to main that changes no row; none when there is nothing to do. The caller holds the publish lock.
    """
    if "days(interval_start)" not in table.partition:
        return 0
    exchanges = []
    for file in live_files(iceberg_table):
        is_of_several = not file.ingested and file.first < file.last
        if is_of_several and file.cluster == cluster and file.first <= last and file.last >= first:
            rows = sorted_rows(read_files(iceberg_table, [file]), table)
            parts = (write_file(iceberg_table, part) for part in _parts(rows, first, last))
            exchanges.append(Exchange((file,), tuple(parts)))
    return exchange(iceberg_table, exchanges, "unpack") if exchanges else 0


def _parts(rows: pa.Table, first: datetime, last: datetime) -> Iterator[pa.Table]:
    """Yield what lies before the span, each interval in it, and what lies after it."""
    starts = rows.column("interval_start")
    oldest, newest = pc.min_max(starts).values()
    low, high = (pa.scalar(moment, starts.type) for moment in (first, last))
    inside = pc.if_else(pc.less(starts, low), oldest, pc.if_else(pc.greater(starts, high), newest, starts))
    for part in pc.unique(inside):
        yield rows.filter(pc.equal(inside, part))


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live data file, and what its bounds say."""

    data_file: DataFile  # as the manifests describe it
    cluster: str
    first: datetime  # start of its oldest interval
    last: datetime  # start of its newest interval
    ingested: bool  # rows of whole log files: a publication leaves them alone

    @property
    def path(self) -> str:
        """Where it lies."""
        return str(self.data_file.file_path)

    @property
    def row_count(self) -> int:
        """How many rows it holds."""
        return int(self.data_file.record_count)

    @property
    def packed(self) -> bool:
        """Housekeeping wrote it."""
        return self.path.rpartition("/")[2].startswith(PACKED_PREFIX)

    @property
    def group(self) -> tuple[str, date, bool]:
        """Files of one group may be packed together: one partition, and not ingested rows with others."""
        return self.cluster, self.first.date(), self.ingested


def live_files(iceberg_table: IcebergTable) -> list[TableFile]:
    """Return the files of main; raises PublishError for a table with delete files, which we never write."""
    if iceberg_table.current_snapshot() is None:
        return []
    fields = {field.name: field for field in iceberg_table.schema().fields}
    start, source = fields["interval_start"], fields.get("source")
    cluster = [field.name for field in iceberg_table.spec().fields].index("cluster")
    files = []
    for task in iceberg_table.scan().plan_files():
        file = task.file
        if task.delete_files:
            raise PublishError(f"{iceberg_table.name()[-1]}: {file.file_path} has delete files; rewrite the table")
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        if start.field_id not in lower or start.field_id not in upper:
            continue  # without bounds it cannot be told what it holds: left as it is
        first, last = (
            micros_to_timestamptz(int(from_bytes(TimestamptzType(), of[start.field_id]))) for of in (lower, upper)
        )
        ingested = source is not None and lower.get(source.field_id, b"").startswith(_INGESTED_PREFIX)
        files.append(TableFile(file, str(file.partition[cluster]), first, last, ingested))
    return files


def read_files(iceberg_table: IcebergTable, files: Sequence[TableFile]) -> pa.Table:
    """Read whole files in the table's present schema; raises PublishError when rows are missing."""
    rows = _read(iceberg_table, files)
    expected = sum(file.row_count for file in files)
    if rows.num_rows != expected:
        raise PublishError(f"{iceberg_table.name()[-1]}: {rows.num_rows} rows in files that should have {expected}")
    return rows


def ranges_of_rows(
    iceberg_table: IcebergTable, files: Sequence[TableFile], column: str, parts: int
) -> Iterator[pa.Table]:
    """Yield the rows of files in at most `parts` tables of about the same size, cut between values of a text column.

    The first also has the rows without a value. Only one table is in memory, and one file besides.
    """
    counts = pc.value_counts(_read(iceberg_table, files, columns=[column])[column].combine_chunks()).to_pylist()
    cuts = cuts_between(sorted((one["values"], one["counts"]) for one in counts if one["values"] is not None), parts)
    value = pc.field(column)
    for low, high in pairwise([None, *cuts, None]):
        below = pc.scalar(True) if high is None else value < high
        yield _read(iceberg_table, files, filter=value.is_null() | below if low is None else (value >= low) & below)


def _read(iceberg_table: IcebergTable, files: Sequence[TableFile], **chosen: Any) -> pa.Table:
    schema = schema_to_pyarrow(iceberg_table.schema())  # with Iceberg's numbers, which a file must carry
    paths = [str(path_of(file.path)) for file in files]
    one_by_one = {"fragment_readahead": 1, "batch_readahead": 1}  # else a few million rows are on their way
    store = filesystem(path_of(files[0].path)) if files and is_remote(files[0].path) else None
    return dataset(paths, schema=schema, format="parquet", filesystem=store).to_table(**chosen, **one_by_one)


def cuts_between(counts: Sequence[tuple[str, int]], parts: int) -> list[str]:
    """Return the values with which a new part begins, for at most `parts` parts; `counts`: sorted (value, rows)."""
    most = -(-sum(count for _, count in counts) // parts)
    cuts: list[str] = []
    rows = 0
    for value, count in counts:
        if rows and rows + count > most and len(cuts) < parts - 1:
            cuts.append(value)
            rows = 0
        rows += count
    return cuts


def sorted_rows(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows in the order in which readers look for them; columns that are yet to be added are left out."""
    return rows.sort_by([(name, "ascending") for name in table.sort_order if name in rows.column_names])


def write_file(iceberg_table: IcebergTable, rows: pa.Table, prefix: str = "") -> DataFile:
    """Write rows, all of one partition, to a new file; no snapshot has it before `exchange`."""
    location = iceberg_table.location_provider().new_data_location(f"{prefix}{uuid.uuid4().hex}.parquet")
    path = path_of(location)
    make_folder(path.parent)
    with path.open("wb") as file:
        pq.write_table(rows, file, row_group_size=ROW_GROUP_ROWS, compression="zstd")
    return parquet_file_to_data_file(iceberg_table.io, iceberg_table.metadata, location)


@dataclass(frozen=True, slots=True)
class Exchange:
    """Files that hold the same rows as others."""

    old: tuple[TableFile, ...]
    new: tuple[DataFile, ...]


def exchange(iceberg_table: IcebergTable, exchanges: Iterable[Exchange], what_for: str) -> int:
    """Put new files in the place of old ones, in one commit to main; returns how many went.

    The caller holds the publish lock. What a publication has replaced meanwhile stays replaced: the new files of such
    an exchange are deleted.
    """
    load_to_commit(iceberg_table)
    live = {file.path for file in live_files(iceberg_table)}
    valid = []
    for one in exchanges:
        if all(file.path in live for file in one.old):
            valid.append(one)
        else:
            _discard(iceberg_table, one.new)
    if not valid:
        return 0
    try:
        with iceberg_table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties={HOUSEKEEPING_PROPERTY: what_for})
            with update.overwrite() as producer:
                for one in valid:
                    for file in one.old:
                        producer.delete_data_file(file.data_file)
                    for data_file in one.new:
                        producer.append_data_file(data_file)
    except ValidationException as error:
        for one in valid:
            _discard(iceberg_table, one.new)
        raise PublishError(f"{iceberg_table.name()[-1]}: {what_for}: {error}; the table is as it was") from error
    return sum(len(one.old) for one in valid)


def _discard(iceberg_table: IcebergTable, files: Iterable[DataFile]) -> None:
    for file in files:
        iceberg_table.io.delete(str(file.file_path))


def by_group(files: Iterable[TableFile]) -> Iterator[list[TableFile]]:
    """Yield the files of each group, the oldest interval first."""
    groups: dict[tuple[str, date, bool], list[TableFile]] = {}
    for file in sorted(files, key=lambda file: (file.first, file.path)):
        groups.setdefault(file.group, []).append(file)
    yield from groups.values()
