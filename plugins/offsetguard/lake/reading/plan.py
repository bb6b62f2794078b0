"""Which data files hold the rows that a reader wants: Iceberg's manifests, their bounds, and what is kept of them.

What a warm reader keeps: files of Iceberg never change, so what was read of one holds for ever.

These files never change, and consecutive snapshots share all but one or two of their manifests. pyiceberg's own
scan reads every manifest again each time: 0.5 s for the files of a week before compaction.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from offsetguard.model.errors import PublishError

V = TypeVar("V")


class Kept(Generic[V]):
    """The values that were asked for last, by path, up to a total size; any number of threads may ask."""

    def __init__(self, max_size: int, size_of: Callable[[V], int]) -> None:
        """`size_of` gives a value's size in the unit of `max_size`."""
        self._max_size = max_size
        self._size_of = size_of
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, path: str, read: Callable[[], V]) -> V:
        """Return what is kept for a path, or read and keep it. Two threads may read the same once each."""
        with self._lock:
            if path in self._values:
                self._values.move_to_end(path)
                return self._values[path][0]
        value = read()
        size = self._size_of(value)
        with self._lock:
            if path not in self._values and size <= self._max_size:
                self._values[path] = (value, size)
                self._size += size
                while self._size > self._max_size:
                    _, (_, dropped) = self._values.popitem(last=False)
                    self._size -= dropped
        return value


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
CLUSTER, INTERVAL_START, CONSUMER_GROUP = "cluster", "interval_start", "consumer_group"
FILTERED_BY = (CLUSTER, INTERVAL_START, CONSUMER_GROUP)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a column, as Iceberg writes them; None = not known.

    Texts are cut to 16 characters (the upper one is raised to make up for it), moments are microseconds since 1970.
    """

    lower: bytes | None
    upper: bytes | None

    def may_hold(self, value: bytes) -> bool:
        """Whether a text may be among the values."""
        return (self.lower is None or self.lower <= value) and (self.upper is None or value <= self.upper)

    def moments(self) -> tuple[int, int] | None:
        """Return microseconds since 1970, or None when they are not known."""
        if self.lower is None or self.upper is None:
            return None
        return int.from_bytes(self.lower, "little", signed=True), int.from_bytes(self.upper, "little", signed=True)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows of one cluster, of the intervals that start in [since, until), of one consumer group; None = all."""

    cluster: str
    since: datetime | None = None
    until: datetime | None = None
    consumer_group: str | None = None

    def may_match(self, bounds: dict[str, Bounds]) -> bool:
        """Whether a file with these bounds, by column, can have such rows."""
        if not bounds[CLUSTER].may_hold(self.cluster.encode()):
            return False
        group = bounds.get(CONSUMER_GROUP)
        if self.consumer_group is not None and group and not group.may_hold(self.consumer_group.encode()):
            return False
        moments = bounds[INTERVAL_START].moments()
        if moments is None:
            return True
        first, last = moments
        too_old = self.since is not None and last < _microseconds(self.since)
        too_new = self.until is not None and first >= _microseconds(self.until)
        return not too_old and not too_new

    def undecided(self, bounds: dict[str, Bounds]) -> frozenset[str]:
        """Return the columns by which rows of a file with these bounds must still be chosen.

        Bounds say nothing of NULLs, which a consumer group may be; cluster and interval are always known.
        """
        decided = set() if self.consumer_group is not None else {CONSUMER_GROUP}
        if bounds[CLUSTER] == Bounds(self.cluster.encode(), self.cluster.encode()):
            decided.add(CLUSTER)
        moments = bounds[INTERVAL_START].moments()
        not_before = self.since is None or (moments is not None and moments[0] >= _microseconds(self.since))
        not_after = self.until is None or (moments is not None and moments[1] < _microseconds(self.until))
        if not_before and not_after:
            decided.add(INTERVAL_START)
        return frozenset(FILTERED_BY) - decided

    def apply(self, rows: pa.Table, by: Collection[str]) -> pa.Table:
        """Return the rows that match in these columns; texts are dictionary-encoded."""
        conditions = list(self._conditions(rows, by))
        return matching(rows, reduce(pc.and_, conditions)) if conditions else rows

    def _conditions(self, rows: pa.Table, by: Collection[str]) -> Iterator[pa.ChunkedArray]:
        if CLUSTER in by:
            yield _is(rows.column(CLUSTER), self.cluster)
        if CONSUMER_GROUP in by and self.consumer_group is not None:
            yield _is(rows.column(CONSUMER_GROUP), self.consumer_group)
        if INTERVAL_START in by and self.since is not None:
            yield pc.greater_equal(rows.column(INTERVAL_START), self.since)
        if INTERVAL_START in by and self.until is not None:
            yield pc.less(rows.column(INTERVAL_START), self.until)


def matching(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Return the rows where the mask is true; nothing is copied where they are neighbours, as in a sorted file."""
    positions = pc.indices_nonzero(mask)
    first = positions[0].as_py() if len(positions) else 0
    if len(positions) and positions[-1].as_py() - first + 1 == len(positions):
        return rows.slice(first, len(positions))
    return rows.filter(mask)


def _is(texts: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """Compare dictionary-encoded texts by their numbers: pyarrow's own comparison would spell out every one of them."""
    numbers = [pc.equal(chunk.indices, pc.index(chunk.dictionary, text)) for chunk in texts.chunks]
    return pa.chunked_array(numbers, pa.bool_())


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


_MAX_FILES = 200_000  # planned files kept in memory, about 1 kB each
_MAX_LISTED = 20_000  # manifests in the lists that are kept, about 1 kB each


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file, and the bounds of the columns that readers filter by."""

    path: str
    row_count: int
    bounds: dict[str, Bounds]


class FilePlans:
    """Plans of the data files of snapshots."""

    def __init__(self) -> None:
        self._lists: Kept[list[ManifestFile]] = Kept(_MAX_LISTED, lambda manifests: len(manifests) + 1)
        self._manifests: Kept[tuple[PlannedFile, ...]] = Kept(_MAX_FILES, lambda files: len(files) + 1)

    def files(self, table: IcebergTable, snapshot: Snapshot, wanted: RowFilter) -> list[PlannedFile]:
        """Return the data files of a snapshot that may have such rows.

        Raises PublishError when the table has delete files, which our writers never make; OSError and ValueError for a
        manifest that cannot be read.
        """
        ids = {field.field_id: field.name for field in table.schema().fields if field.name in FILTERED_BY}
        return [
            file
            for manifest in self._lists.get(snapshot.manifest_list, lambda: snapshot.manifests(table.io))
            for file in self._of(manifest, table.io, ids)
            if wanted.may_match(file.bounds)
        ]

    def _of(self, manifest: ManifestFile, io: FileIO, ids: dict[int, str]) -> Sequence[PlannedFile]:
        return self._manifests.get(manifest.manifest_path, lambda: _read_manifest(manifest, io, ids))


def _read_manifest(manifest: ManifestFile, io: FileIO, ids: dict[int, str]) -> tuple[PlannedFile, ...]:
    files = []
    for entry in manifest.fetch_manifest_entry(io):
        file = entry.data_file
        if file.content is not DataFileContent.DATA or file.file_format is not FileFormat.PARQUET:
            raise PublishError(
                f"{manifest.manifest_path}: {file.file_path} is no Parquet file of rows; another program has changed"
                " the table: only OffsetGuard may write it"
            )
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        bounds = {name: Bounds(lower.get(number), upper.get(number)) for number, name in ids.items()}
        files.append(PlannedFile(file.file_path, file.record_count, bounds))
    return tuple(files)
