"""Data files of an Iceberg table: found, read, written and exchanged for others that hold the same rows.

No JVM is needed, and a file is written while publications go on: only the exchange is a commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, IsNull, LessThan, Or, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan, ParquetFormatModel, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import micros_to_timestamptz

from offsetguard.model.errors import PublishError
from offsetguard.tables import Table

HOUSEKEEPING_PROPERTY = "offsetguard.housekeeping"  # of the snapshots that exchange files: what for
PACKED_PREFIX = "packed-"
_MANIFEST_BYTES = 8 * 1024 * 1024
_INGESTED_PREFIX = "ingested/"  # of `source`: rows of whole log files; see spark/offsetguard_spark/ingest.py


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
    properties = iceberg_table.properties | {"write.parquet.row-group-limit": str(table.row_group_rows)}
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


def exchange(iceberg_table: IcebergTable, exchanges: Iterable[Exchange], what_for: str) -> tuple[int, int]:
    """Put new files in the place of old ones, in one commit to main; returns how many went and came.

    The caller holds the publish lock. What a publication has replaced meanwhile stays replaced: the new files of such
    an exchange are deleted.
    """
    iceberg_table.refresh()
    live = {file.path for file in live_files(iceberg_table)}
    valid = []
    for one in exchanges:
        if all(file.path in live for file in one.old):
            valid.append(one)
        else:
            _discard(iceberg_table, one.new)
    if not valid:
        return 0, 0
    try:
        with iceberg_table.transaction() as transaction:
            producer = _SameRows(
                operation=Operation.OVERWRITE,
                transaction=transaction,
                io=iceberg_table.io,
                snapshot_properties={HOUSEKEEPING_PROPERTY: what_for},
            )
            for one in valid:
                for file in one.old:
                    producer.delete_data_file(file.data_file)
                for data_file in one.new:
                    producer.append_data_file(data_file)
            producer.commit()
    except ValidationException as error:
        for one in valid:
            _discard(iceberg_table, one.new)
        raise PublishError(f"{iceberg_table.name()[-1]}: {what_for}: {error}; the table is as it was") from error
    return sum(len(one.old) for one in valid), sum(len(one.new) for one in valid)


class _SameRows(_OverwriteFiles):
    """An overwrite that also merges manifests, as Spark's writers do: else each exchange would leave one more."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        merging = _ManifestMergeManager(
            target_size_bytes=_MANIFEST_BYTES, min_count_to_merge=2, merge_enabled=True, snapshot_producer=self
        )
        data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
        return merging.merge_manifests(data) + [one for one in manifests if one.content != ManifestContent.DATA]


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
