"""Published intervals: which Iceberg snapshots belong together; readers take the ids from here, never "the latest".

Each publication names a snapshot of every table. Kept for months, that would be one snapshot per minute, and each
commit writes the list of all snapshots again. But a later snapshot holds the same rows of an earlier interval: so
housekeeping settles old intervals: it points all of them to the newest one, by changing one row that they share, and
lets the others go.

Not settled is an interval of which the tables hold rows that were never shown (a run that was killed between the
tables' fast-forwards and its row): it keeps the snapshots that it was published with, until it is published again.
Nor is the newest interval of a cluster: tables that hold only the newest rows (`queue_state`) have them of that one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.store.columns import count_changed, record_of, values_of
from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.models import PublishedIntervalRow, SettledSnapshotsRow

RUN_PROPERTY = "offsetguard.run-id"  # of the snapshots that a publication commits: its run, clusters and intervals
CLUSTERS_PROPERTY = "offsetguard.clusters"  # their names, separated by commas, which no name has
INTERVALS_PROPERTY = "offsetguard.interval-start"  # ISO 8601, separated by commas; rows of whole log files are of none
RETENTION_PASSED = -2  # instead of a snapshot id: the interval's rows of that table were deleted
_LAST = 20
_ONLY_ROW = 1


@dataclass(frozen=True, slots=True)
class PublishedInterval:
    """One interval of one cluster whose facts may be read."""

    cluster: str
    interval: Interval
    run_id: str
    published_at: datetime
    verdict: str  # what the audit said
    snapshot_ids: dict[str, int]  # table name -> Iceberg snapshot id
    manifest_json: str  # collect.manifest.Manifest


def record(engine: Engine, *published: PublishedInterval) -> None:
    """Make intervals visible to readers, all in one transaction; a rerun replaces what it published before."""
    with writing(engine) as session:
        for one in sorted(published, key=lambda one: one.cluster):  # two recorders wait for each other in one order
            serialize(session, f"published_intervals {one.cluster}")
            row = PublishedIntervalRow(
                **values_of(one, "interval"),
                interval_start=one.interval.start,
                settled=False,  # what was settled is another publication's
            )
            session.merge(row)


def get(engine: Engine, cluster: str, interval: Interval) -> PublishedInterval | None:
    """Return one published interval, or None when it was not published."""
    with reading(engine) as session:
        row = session.get(PublishedIntervalRow, (cluster, interval.start))
        return None if row is None else _from_row(session, row)


def newest(engine: Engine, cluster: str, before: datetime | None = None) -> PublishedInterval | None:
    """Return the newest published interval of a cluster that starts before a moment (None: of all), or None."""
    start = PublishedIntervalRow.interval_start
    query = select(PublishedIntervalRow).where(PublishedIntervalRow.cluster == cluster).order_by(start.desc()).limit(1)
    if before is not None:
        query = query.where(start < before)
    with reading(engine) as session:
        row = session.scalars(query).one_or_none()
        return None if row is None else _from_row(session, row)


def clusters(engine: Engine) -> list[str]:
    """Return the clusters of which anything was published, sorted."""
    cluster = PublishedIntervalRow.cluster
    with reading(engine) as session:
        return list(session.scalars(select(cluster).distinct().order_by(cluster)))


def recent_snapshot_ids(engine: Engine, cluster: str, table_name: str) -> set[int]:
    """Return the snapshot ids of a table that the cluster's last publications named, and that of its newest interval.

    The newest of them holds all others: tables only move forward. Which one that is, the table's metadata say: clocks
    of publishers that wait for each other do not.
    """
    row = PublishedIntervalRow
    published = select(row.interval_start, row.snapshot_ids, row.settled).where(row.cluster == cluster)
    last = published.order_by(row.published_at.desc()).limit(_LAST)
    newest_interval = published.order_by(row.interval_start.desc()).limit(1)
    with reading(engine) as session:
        rows = [*session.execute(last), *session.execute(newest_interval)]
        named = [current_ids(session, row) for row in rows]
    return {ids[table_name] for ids in named if table_name in ids}


def published_since(engine: Engine, cluster: str, moment: datetime) -> set[datetime]:
    """Return the starts of the cluster's intervals that were published, for the first time or again, since a moment."""
    row = PublishedIntervalRow
    query = select(row.interval_start).where(row.cluster == cluster, row.published_at >= moment)
    with reading(engine) as session:
        return set(session.scalars(query))


def starts(engine: Engine, cluster: str, since: datetime, until: datetime) -> list[datetime]:
    """Return the starts of the published intervals in [since, until), oldest first; a week takes milliseconds."""
    row = PublishedIntervalRow.__table__.c  # a month has 43,200: without records, which take as long again
    start = row.interval_start
    query = select(start).where(row.cluster == cluster, start >= since, start < until).order_by(start)
    with reading(engine) as session:
        return list(session.connection().scalars(query))


def _from_row(session: Session, row: PublishedIntervalRow) -> PublishedInterval:
    ids = current_ids(session, row)
    return record_of(PublishedInterval, row, interval=Interval(row.interval_start), snapshot_ids=ids)


@dataclass(frozen=True, slots=True)
class SettledSnapshots:
    """The snapshots in which every settled interval is found."""

    snapshot_ids: Mapping[str, int]  # table name -> snapshot id
    kept_from: Mapping[str, datetime]  # table name -> start of the oldest interval that it may still hold
    settled_at: datetime

    def ids_of(self, interval_start: datetime, table_names: Collection[str]) -> dict[str, int]:
        """Return the ids of an interval's tables; RETENTION_PASSED where its rows are gone."""
        return {
            name: RETENTION_PASSED if interval_start < self.kept_from.get(name, interval_start) else snapshot_id
            for name, snapshot_id in self.snapshot_ids.items()
            if name in table_names
        }


def current_ids(session: Session, row: PublishedIntervalRow) -> dict[str, int]:
    """Return the snapshot ids of a published interval: its own, or the settled ones."""
    settled = settled_snapshots(session) if row.settled else None
    return dict(row.snapshot_ids) if settled is None else settled.ids_of(row.interval_start, row.snapshot_ids)


def settled_snapshots(session: Session) -> SettledSnapshots | None:
    """Return the settled snapshots; None before the first housekeeping."""
    row = session.get(SettledSnapshotsRow, _ONLY_ROW)
    if row is None:
        return None
    kept_from = {name: datetime.fromisoformat(start) for name, start in row.kept_from.items()}
    return SettledSnapshots(dict(row.snapshot_ids), kept_from, row.settled_at)


def shown_runs(session: Session) -> dict[tuple[str, datetime], str]:
    """Return the run that each published interval shows, by cluster and interval start."""
    row = PublishedIntervalRow
    found = session.execute(select(row.cluster, row.interval_start, row.run_id))
    return {(cluster, start): run_id for cluster, start, run_id in found}


def settle(session: Session, settled: SettledSnapshots, never_shown: Collection[tuple[str, datetime]]) -> int:
    """Move the settled snapshots on, and settle published intervals; returns how many are new.

    `never_shown`: (cluster, interval start) of which the new snapshots hold other rows than were shown. The caller
    holds the publish lock, so nothing is published meanwhile.
    """
    before = settled_snapshots(session)
    left_alone = sorted({*never_shown, *_newest(session)})
    for cluster, start in left_alone:
        row = session.get(PublishedIntervalRow, (cluster, start))
        if row is not None and row.settled and before is not None:
            row.snapshot_ids = before.ids_of(start, row.snapshot_ids)
            row.settled = False
    session.flush()
    everything_new = update(PublishedIntervalRow).where(~PublishedIntervalRow.settled).values(settled=True)
    count = count_changed(session, everything_new)
    for cluster, start in left_alone:
        this = (PublishedIntervalRow.cluster == cluster) & (PublishedIntervalRow.interval_start == start)
        count -= count_changed(session, update(PublishedIntervalRow).where(this).values(settled=False))
    session.merge(
        SettledSnapshotsRow(
            number=_ONLY_ROW,
            snapshot_ids=dict(settled.snapshot_ids),
            kept_from={name: start.isoformat() for name, start in settled.kept_from.items()},
            settled_at=settled.settled_at,
        )
    )
    return count


def _newest(session: Session) -> list[tuple[str, datetime]]:
    row = PublishedIntervalRow
    found = session.execute(select(row.cluster, func.max(row.interval_start)).group_by(row.cluster))
    return [(cluster, start) for cluster, start in found]


def ids_of_the_others(session: Session) -> dict[str, set[int]]:
    """Return by table name the snapshot ids that intervals which are not settled name."""
    ids: dict[str, set[int]] = {}
    for named in session.scalars(select(PublishedIntervalRow.snapshot_ids).where(~PublishedIntervalRow.settled)):
        for table_name, snapshot_id in named.items():
            ids.setdefault(table_name, set()).add(snapshot_id)
    return ids


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the published intervals that began before a moment; returns how many."""
    return count_changed(session, delete(PublishedIntervalRow).where(PublishedIntervalRow.interval_start < moment))
