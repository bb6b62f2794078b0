"""Landed snapshots: which there are, who may collect, and writing and reading their files.

Landed snapshots on disk: `<landing>/<cluster>/<interval name>/<table>.parquet`, `gaps.jsonl` and `manifest.json`.

A snapshot appears whole or not at all: it is written to a temporary folder beside its place, flushed to the disk, and
renamed; in an object store `landed_objects.py` does it. One round of a cluster runs at a time (`collecting_lock`),
because each one goes on where the last one ended.
"""

import asyncio
import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offsetguard.collect.columns import arrow_array
from offsetguard.collect.manifest import GAPS_FILE_NAME, Gap, Manifest
from offsetguard.config.landed_objects import land_objects, landed
from offsetguard.config.object_store import STORE_ADVICE, is_remote, read_bytes
from offsetguard.config.workspace import MANIFEST_FILE_NAME, Workspace, why_unwritten
from offsetguard.model.errors import DamagedSnapshot, SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.tables import LANDED, Column, ColumnType, Table
from offsetguard.tables.table import arrow_schema, arrow_type

_LOCK_FILE_NAME = ".collecting"
_LOCK_POLL_S = 0.1
_NAME = re.compile(r"\d{8}T\d{6}Z")
_TEMPORARY_NAME = re.compile(r"\.\d{8}T\d{6}Z\.[0-9a-f]{32}")


def snapshot_folder(landing_folder: Path, cluster: str, interval: Interval) -> Path:
    """Where the snapshot of a cluster and interval lies, or would lie. In an object store it raises SnapshotError."""
    folder = landing_folder / cluster / interval.name
    if is_remote(folder) and (attempt := _landed_objects(folder.parent).get(folder.name)):
        return folder / attempt
    return folder


def _landed_objects(cluster_folder: Path) -> dict[str, str]:
    try:
        return landed(cluster_folder)
    except OSError as error:
        raise SnapshotError(f"{cluster_folder}: cannot be read: {error}; {STORE_ADVICE}") from error


@asynccontextmanager
async def collecting_lock(landing_folder: Path, cluster: str, *, wait_s: float) -> AsyncIterator[None]:
    """Hold the right to collect a cluster; the operating system takes it back from a process that dies.

    With an object store this is so on each host; what two hosts land at once is whole all the same. Temporary folders
    that killed rounds left are deleted. Raises SnapshotError when another round runs for longer.
    """
    here = Workspace.from_environment().home / "collecting" if is_remote(landing_folder) else landing_folder
    file = here / cluster / _LOCK_FILE_NAME
    give_up_at = time.monotonic() + wait_s
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = file.open("w")
    except OSError as error:
        raise _cannot_land(file.parent, error) from error
    with opened as lock:
        while not _try_lock(lock.fileno()):
            if time.monotonic() >= give_up_at:
                raise SnapshotError(f"{file}: another round of cluster {cluster} is running; wait for it to end")
            await asyncio.sleep(_LOCK_POLL_S)
        _remove_leftovers(file.parent)
        yield


def has_landed(landing_folder: Path, cluster: str, interval: Interval) -> bool:
    """Whether the snapshot of a cluster's interval is there; raises SnapshotError when the store does not say."""
    return bool(_landed_names(landing_folder, cluster, interval.name, interval.name))


def landed_after(landing_folder: Path, cluster: str, interval: Interval) -> bool:
    """Whether a newer interval than this one has landed."""
    return any(name > interval.name for name in _landed_names(landing_folder, cluster))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a landed snapshot; raises SnapshotError naming the file."""
    file = folder / MANIFEST_FILE_NAME
    try:
        return Manifest.from_json(read_bytes(file).decode("utf-8"))
    except FileNotFoundError:
        raise DamagedSnapshot(
            str(file), "missing; the folder is not a landed snapshot, collect the interval first"
        ) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise DamagedSnapshot(str(file), f"not a manifest of OffsetGuard: {error}") from error


def newest_manifest(
    landing_folder: Path, cluster: str, before: Interval, *, on_damage: Callable[[DamagedSnapshot], object]
) -> Manifest | None:
    """Return the manifest of the newest landed snapshot older than an interval: it holds the event cursors.

    One that cannot be read is passed over, and `on_damage` is told: nobody can read or publish its round, so what lies
    behind the cursors of the one before it is read again.
    """
    for name in sorted(_landed_names(landing_folder, cluster), reverse=True):
        if name < before.name:
            try:
                return read_manifest(snapshot_folder(landing_folder, cluster, Interval.from_name(name)))
            except DamagedSnapshot as error:
                on_damage(error)
    return None


def landed_intervals(landing_folder: Path, cluster: str, since: datetime, until: datetime) -> list[Interval]:
    """Return the intervals of a cluster that have landed and start in [since, until], oldest first."""
    names = sorted(_landed_names(landing_folder, cluster, Interval(since).name, Interval(until).name))
    return [one for one in map(Interval.from_name, names) if since <= one.start <= until]


def _landed_names(landing_folder: Path, cluster: str, first: str = "", last: str = "~") -> list[str]:
    """Return the names in [first, last]: only of these is looked for a manifest, among days of folders."""
    if is_remote(landing_folder):
        return [name for name in _landed_objects(landing_folder / cluster) if first <= name <= last]
    try:
        names = [first] if first == last else [one.name for one in os.scandir(landing_folder / cluster)]
    except FileNotFoundError:
        return []
    wanted = [name for name in names if _NAME.fullmatch(name) and first <= name <= last]
    return [name for name in wanted if (landing_folder / cluster / name / MANIFEST_FILE_NAME).exists()]


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


Row = dict[str, Any]
_WHOLE_NUMBERS = frozenset({ColumnType.INT32, ColumnType.INT64, ColumnType.TIMESTAMP})
ROWS_AT_ONCE = 131_072  # of a row group: what is held encoded while a file is written
FILES_AT_ONCE = 2


def table_of(table: Table, rows: Sequence[Row]) -> pa.Table:
    """Return rows as columns; raises SnapshotError naming table and column when a value does not fit."""
    columns = []
    for column in table.columns:
        try:
            columns.append(arrow_array(column.type, [row.get(column.name) for row in rows]))
        except (ValueError, TypeError, OverflowError) as error:
            raise SnapshotError(f"{table.name}.parquet: column {column.name}: {error}") from error
    return pa.Table.from_arrays(columns, schema=arrow_schema(table))


def with_plain_texts(table: pa.Table) -> pa.Table:
    """Return the same with texts as texts, where they are dictionary-encoded."""
    fields = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))


def land(
    landing_folder: Path,
    manifest: Manifest,
    tables: Mapping[str, pa.Table | Sequence[Row]],
    everything_missing: Iterable[Gap] = (),
) -> Path:
    """Write a snapshot at once; returns its folder. A table that is not given is empty.

    `everything_missing`: what was not seen, one by one; it goes to `gaps.jsonl` (none: no file).
    An interval that has landed already stays as it is: a past moment cannot be looked at again.
    Raises SnapshotError naming file and column when a row does not fit its table.
    """
    interval = Interval(manifest.interval_start)
    folder = snapshot_folder(landing_folder, manifest.cluster, interval)
    if has_landed(landing_folder, manifest.cluster, interval):
        return folder
    texts = {MANIFEST_FILE_NAME: manifest.to_json(indent=1)}
    if gaps := "".join(f"{gap.to_json()}\n" for gap in everything_missing):
        texts[GAPS_FILE_NAME] = gaps
    if is_remote(folder):
        return _land_remotely(folder, tables, texts)
    temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        temporary.mkdir(parents=True)
        # the disk takes several files in the time of one; the largest table begins
        with ThreadPoolExecutor(FILES_AT_ONCE, "land") as pool:
            writing = [
                pool.submit(_write_table, temporary / f"{table.name}.parquet", table, tables.get(table.name, ()))
                for table in sorted(LANDED, key=lambda table: -len(tables.get(table.name, ())))
            ]
            writing += [pool.submit(_write_text, temporary / name, text) for name, text in texts.items()]
            for one in writing:
                one.result()
        _flush_folder(temporary)
        temporary.rename(folder)
        _flush_folder(folder.parent)
    except OSError as error:
        raise _cannot_land(folder, error) from None  # a traceback of Arrow's says no more
    finally:
        if temporary.exists():  # something went wrong
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _land_remotely(folder: Path, tables: Mapping[str, pa.Table | Sequence[Row]], texts: Mapping[str, str]) -> Path:
    def parquet(table: Table) -> bytes:
        written = pa.BufferOutputStream()
        _write_parquet(written, f"{table.name}.parquet", table, tables.get(table.name, ()))
        return bytes(written.getvalue())

    files: dict[str, Callable[[], bytes]] = {f"{one.name}.parquet": partial(parquet, one) for one in LANDED}
    files |= {name: text.encode for name, text in texts.items()}
    try:
        return land_objects(folder, files)
    except OSError as error:
        raise _cannot_land(folder, error) from None


def _cannot_land(path: Path, error: OSError) -> SnapshotError:
    return SnapshotError(f"{why_unwritten(path, error)}; OFFSETGUARD_HOME says where it lies")


def read_table(folder: Path, table: Table) -> pa.Table:
    """Read one landed table; raises SnapshotError naming file and column when it is not what was written."""
    file = folder / f"{table.name}.parquet"
    with _reading(file):
        landed = _with_new_columns(table, pq.ParquetFile(_opened(file)).read())
    _check_types(file, table.columns, landed.schema)
    _check_values(file, landed)
    return landed


def _opened(file: Path) -> Any:
    """Return what pyarrow reads; an object is read whole, by one request."""
    return pa.BufferReader(read_bytes(file)) if is_remote(file) else file


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Name the file in all that Arrow raises of bytes that are damaged: names and texts that are no UTF-8, too."""
    try:
        yield
    except (OSError, ValueError, KeyError, OverflowError, pa.ArrowException) as error:
        raise DamagedSnapshot(str(file), f"cannot be read as Parquet: {error}") from error


def _check_types(file: Path, columns: Iterable[Column], schema: pa.Schema) -> None:
    for column in columns:
        if column.name not in schema.names:
            raise DamagedSnapshot(str(file), f"column {column.name} is missing")
        actual, expected = schema.field(column.name).type, arrow_type(column.type)
        if expected not in (actual, getattr(actual, "value_type", None)):  # of a dictionary-encoded one, its texts
            raise DamagedSnapshot(str(file), f"column {column.name} is {actual}, expected {expected}")


def _check_values(file: Path, landed: pa.Table) -> None:
    """Find texts that are no UTF-8 and moments outside of the calendar before they are found far from their file."""
    with _reading(file):
        landed.validate(full=True)
        for column in landed.columns:
            if pa.types.is_timestamp(column.type):
                pc.min_max(column).as_py()


def _with_new_columns(table: Table, landed: pa.Table) -> pa.Table:
    """Add what a file lacks that was landed before an upgrade: NULL, where a column may be that; leave out the rest."""
    schema = arrow_schema(table)
    for field in schema:
        if field.name not in landed.schema.names and field.nullable:
            landed = landed.append_column(field, pa.nulls(landed.num_rows, field.type))
    return landed.select([name for name in schema.names if name in landed.schema.names])


def read_parts(folder: Path, table: Table, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield some columns of a landed table in parts of ROWS_AT_ONCE rows, texts dictionary-encoded.

    A fraction of the memory of `read_table`; raises SnapshotError as it does.
    """
    file = folder / f"{table.name}.parquet"
    columns = [column for column in table.columns if column.name in names]
    with _reading(file):
        source = _opened(file)
        metadata = pq.read_metadata(source)
        is_older = not set(names) <= set(metadata.schema.to_arrow_schema().names)
    if is_older:  # landed before an upgrade
        yield read_table(folder, table).select(list(names))
        return
    with _reading(file):
        texts = [column.name for column in columns if column.type is ColumnType.STRING]
        landed = pq.ParquetFile(source, read_dictionary=texts, metadata=metadata)
        schema = landed.schema_arrow
    _check_types(file, columns, schema)
    for number in range(landed.num_row_groups):
        with _reading(file):
            part = landed.read_row_group(number, columns=list(names)).select(list(names))
        _check_values(file, part)
        yield part


def _flush(file: Path) -> None:
    """Bring a file to the disk: after a power cut a renamed folder must not hold empty files."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_table(file: Path, table: Table, rows: pa.Table | Sequence[Row]) -> None:
    _write_parquet(file, file.name, table, rows)
    _flush(file)


def _write_parquet(file: Path | pa.NativeFile, name: str, table: Table, rows: pa.Table | Sequence[Row]) -> None:
    columns = rows if isinstance(rows, pa.Table) else table_of(table, rows)
    for column in table.columns:
        empty = columns.column(column.name).null_count
        if empty and not column.nullable:
            raise SnapshotError(f"{name}: column {column.name}: {empty} rows have no value")
    # Parquet's own types alone: Arrow's would bring texts that repeat back as dictionaries
    pq.write_table(
        columns,
        file,
        compression="zstd",
        store_schema=False,
        use_dictionary=[column.name for column in table.columns if column.type is ColumnType.STRING],
        # offsets that follow each other are much alike: two thirds of the size, and quicker written
        column_encoding={
            column.name: "DELTA_BINARY_PACKED" for column in table.columns if column.type in _WHOLE_NUMBERS
        },
        row_group_size=ROWS_AT_ONCE,
    )


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    _flush(file)
