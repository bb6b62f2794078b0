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
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, IsNull, LessThan, Or, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan, ParquetFormatModel, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import micros_to_timestamptz

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
_INGESTED_PREFIX = "ingested/"  # of `source`: rows of whole log files; see spark/offsetguard_spark/ingest.py


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
            exchanges.append(
                Exchange(tuple(chosen), (write_like(iceberg_table, table, rows, chosen[0], PACKED_PREFIX),))
            )
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
        yield write_like(iceberg_table, table, sorted_rows(rows, table), files[0], PACKED_PREFIX)
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
    return exchange(iceberg_table, exchanges, "unpack") if exchanges else 0


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


@dataclass(frozen=True, slots=True)
class TableFile:
    """A live data file, and what its bounds say."""

    task: FileScanTask
    first: datetime  # start of its oldest interval
    last: datetime  # start of its newest interval
    ingested: bool  # rows of whole log files: a publication leaves them alone

    @property
    def data_file(self) -> DataFile:
        """As the manifests describe it."""
        return self.task.file

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
    def group(self) -> tuple[str, bool]:
        """Files of one group may be packed together: one partition, and not ingested rows with others."""
        return (repr((self.data_file.spec_id, self.data_file.partition)), self.ingested)


def live_files(iceberg_table: IcebergTable) -> list[TableFile]:
    """Return the files of main; raises PublishError for a table with delete files, which we never write."""
    if iceberg_table.current_snapshot() is None:
        return []
    start = iceberg_table.schema().find_field("interval_start")
    source = next((field for field in iceberg_table.schema().fields if field.name == "source"), None)
    files = []
    for task in iceberg_table.scan().plan_files():
        if task.delete_files:
            raise PublishError(f"{iceberg_table.name()[-1]}: {task.file.file_path} has delete files; rewrite the table")
        low, high = ((bounds or {}).get(start.field_id) for bounds in (task.file.lower_bounds, task.file.upper_bounds))
        if low is None or high is None:
            continue  # without bounds it cannot be told what it holds: left as it is
        first_source = (task.file.lower_bounds or {}).get(source.field_id) if source else None
        ingested = bool(first_source) and bytes(first_source or b"").decode(errors="replace").startswith(
            _INGESTED_PREFIX
        )
        files.append(TableFile(task, _moment(start.field_type, low), _moment(start.field_type, high), ingested))
    return files


def read_files(iceberg_table: IcebergTable, files: Sequence[TableFile]) -> pa.Table:
    """Read whole files in the table's present schema; raises PublishError when rows are missing."""
    scan = ArrowScan(iceberg_table.metadata, iceberg_table.io, iceberg_table.schema(), AlwaysTrue())
    rows = scan.to_table([file.task for file in files])
    expected = sum(file.row_count for file in files)
    if rows.num_rows != expected:
        raise PublishError(f"{iceberg_table.name()[-1]}: {rows.num_rows} rows in files that should have {expected}")
    return rows.cast(schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True))


def ranges_of_rows(
    iceberg_table: IcebergTable, files: Sequence[TableFile], column: str, parts: int
) -> Iterator[pa.Table]:
    """Yield the rows of files in at most `parts` tables of about the same size, cut between values of a text column.

    The first also has the rows without a value. Only one table is in memory, and one file besides.
    """
    tasks = [file.task for file in files]
    only_column = iceberg_table.schema().select(column)
    values = ArrowScan(iceberg_table.metadata, iceberg_table.io, only_column, AlwaysTrue()).to_table(tasks).column(0)
    counts = pc.value_counts(values.combine_chunks()).to_pylist()
    cuts = cuts_between(sorted((one["values"], one["counts"]) for one in counts if one["values"] is not None), parts)
    for low, high in pairwise([None, *cuts, None]):
        term = Reference(column)
        above = AlwaysTrue() if low is None else GreaterThanOrEqual(term=term, value=literal(low))
        below = AlwaysTrue() if high is None else LessThan(term=term, value=literal(high))
        chosen = And(above, below) if low is not None or high is None else Or(below, IsNull(term=term))
        scan = ArrowScan(iceberg_table.metadata, iceberg_table.io, iceberg_table.schema(), chosen)
        yield scan.to_table(tasks).cast(schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True))


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


def write_like(
    iceberg_table: IcebergTable, table: Table, rows: pa.Table, like: TableFile, prefix: str = ""
) -> DataFile:
    """Write rows to a new file of the partition of another one; nobody sees it before `exchange`."""
    old = like.data_file
    return write_file(iceberg_table, table, rows, old.partition, spec_id=old.spec_id, prefix=prefix)


def write_file(
    iceberg_table: IcebergTable, table: Table, rows: pa.Table, partition: Record, *, spec_id: int, prefix: str = ""
) -> DataFile:
    """Write rows, all of one partition, to a new file; no snapshot has it yet."""
    properties = iceberg_table.properties | {"write.parquet.row-group-limit": str(ROW_GROUP_ROWS)}
    properties.pop("write.parquet.row-group-size-bytes", None)  # for Spark: pyiceberg warns that it does not know it
    path = iceberg_table.location_provider().new_data_location(f"{prefix}{uuid.uuid4().hex}.parquet")
    output = iceberg_table.io.new_output(path)
    with ParquetFormatModel().create_writer(output, iceberg_table.schema(), properties) as writer:
        writer.write(rows)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=len(output),
        sort_order_id=None,
        spec_id=spec_id,
        equality_ids=None,
        key_metadata=None,
        **writer.result().to_serialized_dict(),
    )


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


def _moment(field_type: Any, bound: bytes) -> datetime:
    return micros_to_timestamptz(int(from_bytes(field_type, bound)))


def by_group(files: Iterable[TableFile]) -> Iterator[list[TableFile]]:
    """Yield the files of each group, the oldest interval first."""
    groups: dict[tuple[str, bool], list[TableFile]] = {}
    for file in sorted(files, key=lambda file: (file.first, file.path)):
        groups.setdefault(file.group, []).append(file)
    yield from groups.values()
