"""Which data files hold the rows of a snapshot: Iceberg's manifests and lists of them, each read once.

These files never change, and consecutive snapshots share all but one or two of their manifests. pyiceberg's own
scan reads every manifest again each time: 0.5 s for the files of a week before compaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, FileFormat

from offsetguard.errors import PublishError
from offsetguard.reading.kept import Kept
from offsetguard.reading.row_filter import FILTERED_BY, Bounds, RowFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.snapshots import Snapshot

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
