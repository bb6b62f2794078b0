"""Published intervals: which Iceberg snapshots belong together; readers take the ids from here, never "the latest"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from offsetguard.intervals import Interval
from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.models import PublishedIntervalRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine


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
            )
        )


def get(engine: Engine, cluster: str, interval: Interval) -> PublishedInterval | None:
    """Return one published interval, or None when it was not published."""
    with reading(engine) as session:
        row = session.get(PublishedIntervalRow, (cluster, interval.start))
        return None if row is None else _from_row(row)


def newest(engine: Engine, cluster: str) -> PublishedInterval | None:
    """Return the newest published interval of a cluster, or None when there is none."""
    query = (
        select(PublishedIntervalRow)
        .where(PublishedIntervalRow.cluster == cluster)
        .order_by(PublishedIntervalRow.interval_start.desc())
        .limit(1)
    )
    with reading(engine) as session:
        row = session.scalars(query).one_or_none()
        return None if row is None else _from_row(row)


def _from_row(row: PublishedIntervalRow) -> PublishedInterval:
    return PublishedInterval(
        cluster=row.cluster,
        interval=Interval(row.interval_start),
        run_id=row.run_id,
        published_at=row.published_at,
        verdict=row.verdict,
        snapshot_ids=dict(row.snapshot_ids),
        manifest_json=row.manifest_json,
    )
