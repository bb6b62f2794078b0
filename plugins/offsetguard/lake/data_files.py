"""Which data files of a snapshot may have certain rows: told by their bounds, which each manifest is read for once.

A manifest never changes, so what it says is kept, of as many as a few months have: a page that reads eight tables asks
for hundreds of files, and pyiceberg reads and judges each anew, a millisecond every time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DateType, StringType, TimestamptzType

from offsetguard.lake.catalog import path_of
from offsetguard.model.errors import PublishError

Condition = tuple[str, str, Any]  # a column, one of `=`, `>=`, `<` and `in`, a value
_EPOCH, _US = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_DAY = timedelta(days=1) // _US
_ASKED_FOR = {"cluster", "interval_start", "consumer_group", "topic", "broker_name"}  # bounds of others are let go


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    bounds: Mapping[str, tuple[Any, Any]]  # least and greatest of texts and times, microseconds; without: not known


def data_files(state: IcebergTable, snapshot_id: int, wanted: Sequence[Condition]) -> list[str]:
    """Return the paths of the files that may have rows that meet all conditions.

    Raises PublishError for a table with delete files, which we never write.
    """
    snapshot = state.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return []
    plain = [(name, how, _plain(value)) for name, how, value in wanted]
    found = []
    for manifest in _manifests(state, snapshot):
        if manifest.content is ManifestContent.DELETES:
            raise PublishError(
                f"{state.name()[-1]}: snapshot {snapshot_id} has delete files; another program has changed the table:"
                " only OffsetGuard may write it"
            )
        if _may_have_days(state, manifest, plain):
            found += [
                one.path for one in _files(state, manifest) if all(_may_have(one, *condition) for condition in plain)
            ]
    return found


@cached(LRUCache(32), key=lambda _, snapshot: snapshot.manifest_list, lock=Lock())  # the newest of each table
def _manifests(state: IcebergTable, snapshot: Snapshot) -> list[ManifestFile]:
    return snapshot.manifests(state.io)


# a few dozen files each, of which a KB is kept
@cached(LRUCache(1_024), key=lambda _, manifest: manifest.manifest_path, lock=Lock())
def _files(state: IcebergTable, manifest: ManifestFile) -> tuple[_File, ...]:
    files = []
    fields = [
        (one.name, one.field_id, one.field_type)
        for one in state.schema().fields
        if one.name in _ASKED_FOR and isinstance(one.field_type, StringType | TimestamptzType)
    ]
    for entry in manifest.fetch_manifest_entry(state.io):
        file = entry.data_file
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        bounds = {
            name: (from_bytes(kind, lower[number]), from_bytes(kind, upper[number]))
            for name, number, kind in fields
            if number in lower and number in upper
        }
        files.append(_File(str(path_of(file.file_path)), bounds))
    return tuple(files)


def _may_have_days(state: IcebergTable, manifest: ManifestFile, plain: Sequence[Condition]) -> bool:
    """Whether files of a manifest are of wanted days, as far as the list of manifests says; partitions are by day."""
    spec = state.specs()[manifest.partition_spec_id]
    for part, summary in zip(spec.fields, manifest.partitions or (), strict=False):
        low, high = summary.lower_bound, summary.upper_bound
        if isinstance(part.transform, DayTransform) and low is not None and high is not None:
            first, last = (int(from_bytes(DateType(), bound)) for bound in (low, high))
            column = str(state.schema().find_column_name(part.source_id))
            days = _File("", {column: (first * _DAY, (last + 1) * _DAY - 1)})
            return all(_may_have(days, *condition) for condition in plain if condition[0] == column)
    return True


def _may_have(file: _File, column: str, how: str, value: Any) -> bool:
    if column not in file.bounds:
        return True
    least, greatest = file.bounds[column]
    if how == ">=":
        return bool(greatest >= value)
    if how == "<":
        return bool(least < value)
    return any(least <= one <= greatest for one in (value if how == "in" else (value,)))


def _plain(value: Any) -> Any:
    return (value - _EPOCH) // _US if isinstance(value, datetime) else value
