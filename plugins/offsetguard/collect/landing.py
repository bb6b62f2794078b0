"""Landed snapshots on disk: `<landing>/<cluster>/<interval name>/<table>.parquet` and `manifest.json`.

A snapshot appears whole or not at all: it is written to a temporary folder beside its place, flushed to the disk, and
renamed. One round of a cluster runs at a time (`collecting_lock`), because each one goes on where the last one ended.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import time
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from offsetguard.collect.manifest import MANIFEST_FILE_NAME, Manifest
from offsetguard.errors import SnapshotError
from offsetguard.intervals import Interval
from offsetguard.tables import LANDED, ColumnType, Table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

Row = dict[str, Any]

_LOCK_FILE_NAME = ".collecting"
_LOCK_POLL_S = 0.1
_TEMPORARY_NAME = re.compile(r"\.\d{8}T\d{6}Z\.[0-9a-f]{32}")

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
    try:
        temporary.mkdir(parents=True)
        for table in LANDED:
            _write_table(temporary / f"{table.name}.parquet", table, rows.get(table.name, ()))
        (temporary / MANIFEST_FILE_NAME).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
        _flush(temporary)
        temporary.rename(folder)
        _flush_folder(folder.parent)
    except OSError as error:
        raise SnapshotError(f"{folder}: cannot be written: {error}; OFFSETGUARD_HOME says where it lies") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


@asynccontextmanager
async def collecting_lock(landing_folder: Path, cluster: str, *, wait_s: float) -> AsyncIterator[None]:
    """Hold the right to collect a cluster; the operating system takes it back from a process that dies.

    Temporary folders that killed rounds left are deleted. Raises SnapshotError when another round runs for longer.
    """
    file = landing_folder / cluster / _LOCK_FILE_NAME
    give_up_at = time.monotonic() + wait_s
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        while not _try_lock(lock.fileno()):
            if time.monotonic() >= give_up_at:
                raise SnapshotError(f"{file}: another round of cluster {cluster} is running; wait for it to end")
            await asyncio.sleep(_LOCK_POLL_S)
        _remove_leftovers(file.parent)
        yield


def landed_after(landing_folder: Path, cluster: str, interval: Interval) -> bool:
    """Whether a newer interval than this one has landed."""
    return any(name > interval.name for name in _landed_names(landing_folder, cluster))


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
    """Return the manifest of the newest landed snapshot older than an interval: it holds the event cursors.

    Raises SnapshotError when it cannot be read: an older one would count events twice.
    """
    older = [name for name in _landed_names(landing_folder, cluster) if name < before.name]
    return read_manifest(landing_folder / cluster / max(older)) if older else None


def _landed_names(landing_folder: Path, cluster: str) -> list[str]:
    return [file.parent.name for file in (landing_folder / cluster).glob(f"[0-9]*T*Z/{MANIFEST_FILE_NAME}")]


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_leftovers(folder: Path) -> None:
    """Delete what killed rounds left half-written; only under the lock, so nobody writes there now."""
    for path in folder.iterdir():
        if _TEMPORARY_NAME.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _flush(folder: Path) -> None:
    """Bring a folder's files to the disk: after a power cut a renamed folder must not hold empty files."""
    for file in folder.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
