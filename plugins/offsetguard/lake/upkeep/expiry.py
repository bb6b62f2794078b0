"""How long rows, snapshots and files are kept, and deleting what is older or what nothing names any more.

First all published intervals are settled (`store.published_intervals`): readers find them in the newest snapshot then.
What stays: the newest snapshots, what intervals that are not settled name, what branches point to, and whatever is so
young that a reader may be at it. Then the files go that killed runs left in the warehouse, landed snapshots whose time
has passed, and what ended sessions left on the warm Spark server.

Files are deleted here and not by pyiceberg, whose `expire_snapshots` changes metadata only. Spark's procedures would
need a JVM for each housekeeping, and the publish lock for as long as they run.
"""

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from itertools import product
from pathlib import Path

from pyiceberg.expressions import LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import RemoveSnapshotsUpdate
from sqlalchemy import Engine

from offsetguard.config import Retention
from offsetguard.config.landed_objects import forget_landed
from offsetguard.config.object_store import files_below, is_remote
from offsetguard.config.workspace import MANIFEST_FILE_NAME, SPARK_TEMPORARY
from offsetguard.lake.catalog import NO_SNAPSHOT, path_of
from offsetguard.lake.upkeep.commit_times import load_to_commit
from offsetguard.lake.upkeep.packing import HOUSEKEEPING_PROPERTY, live_files
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import serialize, writing
from offsetguard.store.published_intervals import (
    CLUSTERS_PROPERTY,
    INTERVALS_PROPERTY,
    RUN_PROPERTY,
    SettledSnapshots,
)
from offsetguard.tables import Table
from offsetguard.tables.table import FACT_RETENTION, RAW_RETENTION


def kept_for(table: Table, retention: Retention) -> timedelta | None:
    """Return how long a table's rows are kept; None: it holds only the newest ones."""
    configured = {
        RAW_RETENTION: timedelta(days=retention.snapshots_days),
        FACT_RETENTION: timedelta(days=retention.facts_days),
    }
    return None if table.retention is None else configured.get(table.retention, table.retention)


def kept_from(kept: timedelta, now: datetime) -> datetime:
    """Return the start of the oldest interval that is kept: the first of a day, UTC."""
    return datetime.combine((now.astimezone(UTC) - kept).date(), time(), UTC)


def delete_older(iceberg_table: IcebergTable, moment: datetime) -> int:
    """Delete the rows of all intervals before a moment; returns how many files went. The caller holds the lock.

    Only files that are older as a whole go, so that none has to be written again.
    """
    load_to_commit(iceberg_table)
    older = [file for file in live_files(iceberg_table) if file.last < moment]
    if older:
        before = LessThan(term=Reference("interval_start"), value=literal(moment.isoformat()))
        iceberg_table.delete(before, snapshot_properties={HOUSEKEEPING_PROPERTY: "retention"})
    return len(older)


IntervalKey = tuple[str, datetime]  # cluster, interval start
Lock = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Settlement:
    """What `settle` did, and the snapshots that nobody has to find any more, by table name."""

    newly_settled: int
    never_shown: tuple[IntervalKey, ...]
    released_ids: dict[str, set[int]] = field(default_factory=dict)


def settle(
    engine: Engine, tables: Mapping[str, IcebergTable], kept_from: Mapping[str, datetime], *, now: datetime
) -> Settlement:
    """Settle all published intervals on what main holds now; returns which snapshots may go.

    The caller holds the publish lock, and has loaded the tables since.
    """
    heads = {name: _head(table) for name, table in tables.items()}
    with writing(engine) as session:
        serialize(session, "settle intervals")
        shown = published_intervals.shown_runs(session)
        # A table that holds only the newest rows has none of an older interval, shown or not.
        unshown = {name: {} if kept_from[name] > now else _never_shown(table, shown) for name, table in tables.items()}
        keys = sorted({key for evidence in unshown.values() for key in evidence})
        settled = SettledSnapshots(heads, kept_from, now)
        count = published_intervals.settle(session, settled, [key for key in keys if key in shown])
        others = published_intervals.ids_of_the_others(session)
    released = {
        name: _all_but_refs(table) - {heads[name], *others.get(name, ()), *unshown[name].values()}
        for name, table in tables.items()
    }
    return Settlement(count, tuple(keys), released)


def expire(
    iceberg_table: IcebergTable, released: Collection[int], lock: Lock, *, now: datetime, keep: timedelta
) -> tuple[int, int]:
    """Let go of released snapshots that are older than `keep`; returns how many went, and how many files of theirs.

    What only they hold is found out before the lock is taken: no snapshot that comes later can have it.
    """
    iceberg_table.refresh()
    young_ms = (now - keep).timestamp() * 1000
    snapshots = iceberg_table.snapshots()
    old = [one for one in snapshots if one.snapshot_id in released and one.timestamp_ms < young_ms]
    if not old:
        return 0, 0
    ids = {snapshot.snapshot_id for snapshot in old}
    kept = [snapshot for snapshot in snapshots if snapshot.snapshot_id not in ids]
    only_theirs = reachable(iceberg_table, old) - reachable(iceberg_table, kept)
    with lock():
        load_to_commit(iceberg_table)
        if any(ref.snapshot_id in ids for ref in iceberg_table.metadata.refs.values()):
            return 0, 0  # somebody has named one meanwhile, and the commit would take its name away
        # in one: pyiceberg's `expire_snapshots` goes through all snapshots for each that it lets go
        iceberg_table.catalog.commit_table(iceberg_table, (), (RemoveSnapshotsUpdate(snapshot_ids=sorted(ids)),))
    for path in sorted(only_theirs):
        iceberg_table.io.delete(path)
    return len(ids), len(only_theirs)


def reachable(iceberg_table: IcebergTable, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the manifest lists, manifests and data files that some snapshots need."""
    io = iceberg_table.io
    files: set[str] = set()
    for snapshot in snapshots:
        files.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(io):
            if manifest.manifest_path not in files:
                files.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
                files.update(str(entry.data_file.file_path) for entry in entries)
    return files


def _all_but_refs(iceberg_table: IcebergTable) -> set[int]:
    refs = {ref.snapshot_id for ref in iceberg_table.metadata.refs.values()}
    return {snapshot.snapshot_id for snapshot in iceberg_table.snapshots()} - refs


def _head(iceberg_table: IcebergTable) -> int:
    snapshot = iceberg_table.metadata.snapshot_by_name(MAIN_BRANCH)
    return NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id


def _never_shown(iceberg_table: IcebergTable, shown: Mapping[IntervalKey, str]) -> dict[IntervalKey, int]:
    """Return intervals whose newest rows in main are of a run that was never shown, with the snapshot that tells."""
    newest: dict[IntervalKey, tuple[str, int]] = {}
    for snapshot in _main_history(iceberg_table):
        properties = snapshot.summary.additional_properties if snapshot.summary else {}
        if not any(int(properties.get(name, 0)) for name in ("added-records", "deleted-records")):
            continue  # it changed nothing
        if starts := properties.get(INTERVALS_PROPERTY):  # whole log files, and what housekeeping commits, have none
            for cluster, start in product(properties[CLUSTERS_PROPERTY].split(","), starts.split(",")):
                key = cluster, datetime.fromisoformat(start).astimezone(UTC)
                newest.setdefault(key, (properties[RUN_PROPERTY], snapshot.snapshot_id))
    return {key: snapshot_id for key, (run_id, snapshot_id) in newest.items() if shown.get(key) != run_id}


def _main_history(iceberg_table: IcebergTable) -> Iterator[Snapshot]:
    """Yield main's snapshots, the newest first, as far as they are still there.

    Where the chain of parents ends because one expired, all that are older are main's: others do not get so old.
    """
    metadata, oldest = iceberg_table.metadata, 0
    for snapshot in ancestors_of(metadata.snapshot_by_name(MAIN_BRANCH), metadata):
        yield snapshot
        oldest = snapshot.sequence_number or 0
    older = [one for one in metadata.snapshots if (one.sequence_number or 0) < oldest]
    yield from sorted(older, key=lambda one: -(one.sequence_number or 0))


_KEPT_SNAPSHOTS = 2  # of each cluster, however old: the next round goes on from the newest one's cursors


def delete_orphans(iceberg_table: IcebergTable, older_than: datetime) -> int:
    """Delete the files of a table's folder that its metadata do not name; returns how many went.

    Only files that were written before a moment: a run that is under way names its files when it commits. What goes
    with a file that Spark wrote, Hadoop's checksum beside it, is not counted.
    """
    files = files_below(path_of(iceberg_table.location()))
    unnamed = [file for file, written_at in files if written_at < older_than]
    if not unnamed:
        return 0
    iceberg_table.refresh()  # after the listing: what was committed meanwhile is named
    named = {path_of(path) for path in _named(iceberg_table)}
    keep = {str(path) for path in named} | {str(path.with_name(f".{path.name}.crc")) for path in named}
    orphans = [file for file in unnamed if file not in keep]
    for file in orphans:
        path_of(file).unlink(missing_ok=True)
    return sum(not file.endswith(".crc") for file in orphans)


def delete_landed(landing_folder: Path, older_than: datetime) -> int:
    """Delete the landed snapshots of intervals before a moment, but not a cluster's newest; returns how many went."""
    count = 0
    if not landing_folder.is_dir():
        return 0
    if is_remote(landing_folder):
        name = Interval(older_than).name
        return sum(forget_landed(one, name, _KEPT_SNAPSHOTS) for one in landing_folder.iterdir() if one.name[0] != ".")
    for cluster in sorted(path for path in landing_folder.iterdir() if path.is_dir()):
        folders = ((_interval(path.name), path) for path in cluster.iterdir() if path.is_dir())
        landed = sorted((interval, path) for interval, path in folders if interval)
        for interval, folder in landed[:-_KEPT_SNAPSHOTS]:
            if interval.start < older_than:
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
