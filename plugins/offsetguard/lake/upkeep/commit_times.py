"""Times of commits: they go forward in each table's metadata, or Spark can no longer read the table.

A commit carries the clock of whoever makes it, and Iceberg keeps it in two logs of the table. Where one is more than a
minute before the one that came earlier, Spark tries for a minute and a half to load the table and then refuses it
("Expected sorted previous metadata log entries", "Invalid update timestamp": TableMetadata of Iceberg 1.12); pyiceberg
does not look, and writes such logs.

So nothing is committed while the clock lies before the newest commit, and logs that are out of order already are put
in order: what came earlier cannot have been later, so its time is lowered. Rows and snapshots stay as they are.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import TypeVar

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import MetadataLogEntry, SnapshotLogEntry
from sqlalchemy import update

from offsetguard.catalogue.text import format_moment
from offsetguard.lake.catalog import CATALOG_NAME, NAMESPACE, catalog_errors_named, shown
from offsetguard.model.errors import PublishError

TOLERATED = timedelta(minutes=1)  # Iceberg's own
_TOLERATED_MS = TOLERATED // timedelta(milliseconds=1)
_Entry = TypeVar("_Entry", MetadataLogEntry, SnapshotLogEntry)


def keep_times_in_order(tables: Iterable[IcebergTable], now: datetime, say: Callable[[str], object]) -> None:
    """Put the times of tables in order where a clock has damaged them, and say so; look before anything is committed.

    The caller holds the publish lock. Raises PublishError where `now` lies before a table's newest commit.
    """
    tables = list(tables)
    for iceberg_table in tables:
        if _is_refused(iceberg_table):
            say(_mend(iceberg_table, now))
    newest = {iceberg_table.name()[-1]: iceberg_table.metadata.last_updated_ms for iceberg_table in tables}
    check_not_ahead({name: _moment(ms) for name, ms in newest.items()}, now)


def check_not_ahead(last_commits: dict[str, datetime], now: datetime) -> None:
    """Raise PublishError, with both times, where a commit of now would lie before the newest one of a table."""
    for name, at in sorted(last_commits.items(), key=lambda one: (-one[1].timestamp(), one[0])):
        if at - now > TOLERATED:
            raise PublishError(
                f"table {name} was changed at {format_moment(at)}, and the clock says {format_moment(now)}: one was "
                "ahead then, or is behind now; nothing was written. Set the clock of this host and of the Spark server "
                f"by NTP; if they are right, publishing goes on by itself at {format_moment(at - TOLERATED)}"
            )


def _is_refused(iceberg_table: IcebergTable) -> bool:
    """Whether Spark would refuse it: a log goes back, or the newest commit lies before the end of one."""
    metadata = iceberg_table.metadata
    logs = (_times(metadata.metadata_log), _times(metadata.snapshot_log))
    steps = (step for log in logs for step in pairwise([*log, metadata.last_updated_ms]))
    return any(later - earlier < -_TOLERATED_MS for earlier, later in steps)


def _mend(iceberg_table: IcebergTable, now: datetime) -> str:
    """Commit the same table with its logs in order; returns what was done, in a line."""
    metadata = iceberg_table.metadata
    name, last_ms = iceberg_table.name()[-1], metadata.last_updated_ms
    metadata_log = _lowered(metadata.metadata_log, last_ms)
    snapshot_log = _lowered(metadata.snapshot_log, last_ms)
    here = MetadataLogEntry(metadata_file=iceberg_table.metadata_location, timestamp_ms=last_ms)
    changes = {
        "metadata_log": [*metadata_log, here],
        "snapshot_log": snapshot_log,
        "last_updated_ms": max(last_ms, int(now.timestamp() * 1000)),
    }
    version = int(iceberg_table.metadata_location.rpartition("/")[2].partition("-")[0]) + 1
    location = iceberg_table.location_provider().new_table_metadata_file_location(version)
    ToOutputFile.table_metadata(metadata.model_copy(update=changes), iceberg_table.io.new_output(location))
    _swap(iceberg_table, location)
    iceberg_table.refresh()
    before = _times(metadata.metadata_log) + _times(metadata.snapshot_log)
    after = _times(metadata_log) + _times(snapshot_log)
    lowered = [old for old, new in zip(before, after, strict=True) if old != new]
    return (
        f"tables: {name}: {len(lowered)} entries of its logs had times up to {format_moment(_moment(max(lowered)))}, "
        f"although a later commit is of {format_moment(_moment(last_ms))}: a clock was ahead or behind; they are in "
        "order again, and no row was changed"
    )


def _lowered(log: Sequence[_Entry], last_ms: int) -> list[_Entry]:
    """Return a log in which no time is after a later one, nor after the newest commit."""
    times = list(accumulate(reversed(_times(log)), min, initial=last_ms))[:0:-1]
    return [entry.model_copy(update={"timestamp_ms": ms}) for entry, ms in zip(log, times, strict=True)]


def _times(log: Sequence[MetadataLogEntry] | Sequence[SnapshotLogEntry]) -> list[int]:
    return [entry.timestamp_ms for entry in log]


def _swap(iceberg_table: IcebergTable, location: str) -> None:
    """Let the catalog name other metadata, unless somebody else has committed meanwhile: as pyiceberg's commits do."""
    catalog = iceberg_table.catalog
    if not isinstance(catalog, SqlCatalog):
        raise TypeError(f"{type(catalog).__name__} is no SqlCatalog")
    ours = (IcebergTables.catalog_name == CATALOG_NAME) & (IcebergTables.table_namespace == NAMESPACE)
    statement = (
        update(IcebergTables)
        .where(ours, IcebergTables.table_name == iceberg_table.name()[-1])
        .where(IcebergTables.metadata_location == iceberg_table.metadata_location)
        .values(metadata_location=location, previous_metadata_location=iceberg_table.metadata_location)
    )
    with catalog_errors_named(shown(str(catalog.properties["uri"]))), catalog.engine.begin() as connection:
        if connection.execute(statement).rowcount != 1:
            raise PublishError(
                f"{iceberg_table.name()[-1]}: something else has changed the table meanwhile; run it again"
            )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
