"""Files that nothing names: what killed runs left in the warehouse, and landed snapshots whose time has passed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyiceberg.table import Table as IcebergTable

from offsetguard.config.workspace import MANIFEST_FILE_NAME, SPARK_TEMPORARY
from offsetguard.lake.upkeep.expiry import reachable
from offsetguard.model.intervals import Interval

_KEPT_SNAPSHOTS = 2  # of each cluster, however old: the next round goes on from the newest one's cursors


def delete_orphans(iceberg_table: IcebergTable, older_than: datetime) -> int:
    """Delete the files of a table's folder that its metadata do not name; returns how many went.

    Only files that were written before a moment: a run that is under way names its files when it commits.
    """
    folder = local_path(iceberg_table.location())
    if not folder.is_dir():
        return 0
    oldest = older_than.timestamp()
    unnamed = [file for file in _files(folder) if file.stat().st_mtime < oldest]
    if not unnamed:
        return 0
    iceberg_table.refresh()  # after the listing: what was committed meanwhile is named
    named = {local_path(path) for path in _named(iceberg_table)}
    orphans = [file for file in unnamed if file not in named]
    for file in orphans:
        file.unlink(missing_ok=True)
    return len(orphans)


def delete_landed(landing_folder: Path, older_than: datetime) -> int:
    """Delete the landed snapshots of intervals before a moment, but not a cluster's newest; returns how many went."""
    count = 0
    if not landing_folder.is_dir():
        return 0
    for cluster in sorted(path for path in landing_folder.iterdir() if path.is_dir()):
        landed = sorted(path for path in cluster.iterdir() if path.is_dir() and _interval(path.name) is not None)
        for folder in landed[:-_KEPT_SNAPSHOTS]:
            interval = _interval(folder.name)
            if interval is not None and interval.start < older_than:
                (folder / MANIFEST_FILE_NAME).unlink(missing_ok=True)  # first: without it, half a folder is no snapshot
                shutil.rmtree(folder)
                count += 1
    return count


def delete_session_folders(server_folder: Path, older_than: datetime) -> int:
    """Delete what a warm Spark server keeps of sessions that ended before a moment; returns how many went.

    Spark 4.1 makes an empty folder for each session's models as the session ends, and leaves it there: one a minute.
    """
    oldest = older_than.timestamp()
    count = 0
    for folder in (server_folder / SPARK_TEMPORARY / "spark_connect_model_cache").glob("*"):
        with suppress(FileNotFoundError):  # a server that starts meanwhile clears them all
            if folder.stat().st_mtime < oldest and not any(folder.iterdir()):
                folder.rmdir()
                count += 1
    return count


def local_path(location: str) -> Path:
    """Return the path of a `file:` URI, in any of its forms, or of a plain path."""
    parsed = urlparse(location)
    return Path(unquote(parsed.path) if parsed.scheme == "file" else location)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _named(iceberg_table: IcebergTable) -> Iterator[str]:
    yield iceberg_table.metadata_location
    yield from (entry.metadata_file for entry in iceberg_table.metadata.metadata_log)
    yield from (statistics.statistics_path for statistics in iceberg_table.metadata.statistics)
    yield from reachable(iceberg_table, iceberg_table.snapshots())


def _interval(name: str) -> Interval | None:
    try:
        return Interval.from_name(name)
    except ValueError:
        return None
