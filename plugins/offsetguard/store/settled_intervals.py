"""Settled intervals: published ones whose snapshot ids stand in one row that they share.

Each publication names a snapshot of every table. Kept for months, that would be one snapshot per minute, and each
commit writes the list of all snapshots again. But a later snapshot holds the same rows of an earlier interval: so
housekeeping points all old intervals to the newest one, by changing one row, and lets the others go.

Not settled is an interval of which the tables hold rows that were never shown (a run that was killed between the
tables' fast-forwards and its row): it keeps the snapshots that it was published with, until it is published again.
Nor is the newest interval of a cluster: tables that hold only the newest rows (`queue_state`) have them of that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from offsetguard.store.columns import count_changed
from offsetguard.store.models import PublishedIntervalRow, SettledSnapshotsRow

RUN_PROPERTY = "offsetguard.run-id"  # of the snapshots that a publication commits: its run, and its cluster
CLUSTER_PROPERTY = "offsetguard.cluster"
RETENTION_PASSED = -2  # instead of a snapshot id: the interval's rows of that table were deleted
_ONLY_ROW = 1


@dataclass(frozen=True, slots=True)
class SettledSnapshots:
    """The snapshots in which every settled interval is found."""

    snapshot_ids: Mapping[str, int]  # table name -> snapshot id
    kept_from: Mapping[str, datetime]  # table name -> start of the oldest interval that it may still hold
    settled_at: datetime

    def ids_of(self, interval_start: datetime, table_names: Collection[str]) -> dict[str, int]:
        """Return the ids of an interval's tables; RETENTION_PASSED where its rows are gone."""
        return {
            name: RETENTION_PASSED if interval_start < self._kept_from(name, interval_start) else snapshot_id
            for name, snapshot_id in self.snapshot_ids.items()
            if name in table_names
        }

    def _kept_from(self, table_name: str, otherwise: datetime) -> datetime:
        return self.kept_from.get(table_name, otherwise)


def current_ids(session: Session, row: PublishedIntervalRow) -> dict[str, int]:
    """Return the snapshot ids of a published interval: its own, or the settled ones."""
    settled = read(session) if row.settled else None
    return dict(row.snapshot_ids) if settled is None else settled.ids_of(row.interval_start, row.snapshot_ids)


def read(session: Session) -> SettledSnapshots | None:
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
    before = read(session)
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
