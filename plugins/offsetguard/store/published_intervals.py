"""Published intervals: which Iceberg snapshots belong together; readers take the ids from here, never "the latest"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.models import PublishedIntervalRow
from offsetguard.store.settled_intervals import current_ids

_LAST = 20


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


def record(engine: Engine, published: PublishedInterval) -> None:
    """Make the interval visible to readers, in one transaction; a rerun replaces what it published before."""
    with writing(engine) as session:
        serialize(session, f"published_intervals {published.cluster}")
        session.merge(
            PublishedIntervalRow(
                cluster=published.cluster,
                interval_start=published.interval.start,
                run_id=published.run_id,
                published_at=published.published_at,
                verdict=published.verdict,
                snapshot_ids=published.snapshot_ids,
                manifest_json=published.manifest_json,
                settled=False,  # what was settled is another publication's
            )
        )


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
    start = PublishedIntervalRow.interval_start
    query = select(start).where(PublishedIntervalRow.cluster == cluster, start >= since, start < until).order_by(start)
    with reading(engine) as session:
        return list(session.scalars(query))


def _from_row(session: Session, row: PublishedIntervalRow) -> PublishedInterval:
    return PublishedInterval(
        cluster=row.cluster,
        interval=Interval(row.interval_start),
        run_id=row.run_id,
        published_at=row.published_at,
        verdict=row.verdict,
        snapshot_ids=current_ids(session, row),
        manifest_json=row.manifest_json,
    )
