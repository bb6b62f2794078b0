"""Landed snapshots on disk: `<landing>/<cluster>/<interval name>/<table>.parquet` and `manifest.json`.

A snapshot appears whole or not at all: it is written to a temporary folder beside its place and renamed.
"""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from offsetguard.collect.manifest import MANIFEST_FILE_NAME, Manifest
from offsetguard.errors import SnapshotError
from offsetguard.intervals import Interval
from offsetguard.tables import LANDED, ColumnType, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Row = dict[str, Any]

_ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.STRING_LIST: pa.list_(pa.string()),
}


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Parquet schema of a table, in column order."""
    return pa.schema([pa.field(c.name, _ARROW_TYPES[c.type], nullable=c.nullable) for c in table.columns])


def snapshot_folder(landing_folder: Path, cluster: str, interval: Interval) -> Path:
    """Where the snapshot of a cluster and interval lies, or would lie."""
    return landing_folder / cluster / interval.name


def land(landing_folder: Path, manifest: Manifest, rows: Mapping[str, Sequence[Row]]) -> Path:
    """Write a snapshot at once; returns its folder.

    An interval that has landed already stays as it is: a past moment cannot be looked at again.
    Raises SnapshotError naming file and column when a row does not fit its table.
    """
    folder = snapshot_folder(landing_folder, manifest.cluster, Interval(manifest.interval_start))
    if (folder / MANIFEST_FILE_NAME).exists():
        return folder
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    temporary.mkdir(parents=True)
    try:
        for table in LANDED:
            _write_table(temporary / f"{table.name}.parquet", table, rows.get(table.name, ()))
        (temporary / MANIFEST_FILE_NAME).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a landed snapshot; raises SnapshotError naming the file."""
    file = folder / MANIFEST_FILE_NAME
    try:
        return Manifest.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SnapshotError(
            f"{file}: missing; the folder is not a landed snapshot, collect the interval first"
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise SnapshotError(f"{file}: not a manifest of OffsetGuard: {error}") from error


def read_table(folder: Path, table: Table) -> pa.Table:
    """Read one landed table; raises SnapshotError naming file and column when it is not what was written."""
    file = folder / f"{table.name}.parquet"
    try:
        landed = pq.ParquetFile(file).read()
    except (OSError, pa.ArrowInvalid) as error:
        raise SnapshotError(f"{file}: cannot be read as Parquet: {error}") from error
    check_schema(str(file), table, landed.schema)
    return landed


def check_schema(file: str, table: Table, schema: pa.Schema) -> None:
    """Raise SnapshotError naming file and column unless every column is there with its type."""
    for column in table.columns:
        position = schema.get_field_index(column.name)
        if position < 0:
            raise SnapshotError(f"{file}: column {column.name} is missing")
        actual = schema.field(position).type
        if not _same_type(actual, _ARROW_TYPES[column.type]):
            raise SnapshotError(f"{file}: column {column.name} is {actual}, expected {_ARROW_TYPES[column.type]}")


def newest_manifest(landing_folder: Path, cluster: str, before: Interval) -> Manifest | None:
    """Return the manifest of the newest landed snapshot older than an interval: it holds the event cursors."""
    names = sorted((p.name for p in (landing_folder / cluster).glob("[0-9]*T*Z") if p.name < before.name), reverse=True)
    for name in names:
        folder = landing_folder / cluster / name
        if (folder / MANIFEST_FILE_NAME).exists():
            return read_manifest(folder)
    return None


def _write_table(file: Path, table: Table, rows: Sequence[Row]) -> None:
    schema = arrow_schema(table)
    columns = []
    for column in table.columns:
        values = [row.get(column.name) for row in rows]
        try:
            array = pa.array(values, type=schema.field(column.name).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise SnapshotError(f"{file.name}: column {column.name}: {error}") from error
        if array.null_count and not column.nullable:
            raise SnapshotError(f"{file.name}: column {column.name}: {array.null_count} rows have no value")
        columns.append(array)
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), file, compression="zstd")


def _same_type(actual: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_list(actual) and pa.types.is_list(expected):
        return bool(actual.value_type.equals(expected.value_type))
    return bool(actual.equals(expected))
