"""Judged intervals: a row here makes judging the interval again a no-op, and orders intervals in time.

A row ahead of the present was written by a host whose clock was wrong. It must not outrank the present, or nobody would
be notified of anything until its minute comes: the first judge of a present interval marks it, and it counts for
nothing. `marks` adds the newest of all else that pages show: as long as it is the same, so are they.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, false, func, or_, select, update
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.store.columns import count_changed
from offsetguard.store.models import (
    AcknowledgementRow,
    IncidentEventRow,
    JudgedIntervalRow,
    Mode,
    PublishedIntervalRow,
    SilenceRow,
)

CLOCKS_DIFFER = timedelta(minutes=1)
"""By so much a row may lie ahead of a clock without either being called wrong."""


def record(session: Session, judged: JudgedIntervalRow) -> None:
    """Add the row, in place of one that lay ahead; raises IntegrityError when the interval was judged already."""
    row = JudgedIntervalRow
    this = (row.cluster == judged.cluster) & (row.interval_start == judged.interval_start)
    session.execute(delete(row).where(this, row.mode == Mode.AHEAD))
    session.add(judged)
    session.flush()


def is_judged(session: Session, cluster: str, interval: Interval) -> bool:
    """Tell whether an interval was judged."""
    row = session.get(JudgedIntervalRow, (cluster, interval.start))
    return row is not None and row.mode is not Mode.AHEAD


def newest_interval(session: Session, cluster: str, now: datetime) -> Interval | None:
    """Return the newest interval of a cluster that was judged and does not lie ahead of `now`."""
    row = JudgedIntervalRow
    return _newest_of(session, cluster, (row.mode != Mode.AHEAD) & (row.interval_start <= now + CLOCKS_DIFFER))


def oldest_interval(session: Session, cluster: str) -> Interval | None:
    """Return the oldest interval of a cluster that was judged, of those that are kept."""
    row = JudgedIntervalRow
    start = session.scalar(select(func.min(row.interval_start)).where(row.cluster == cluster, row.mode != Mode.AHEAD))
    return None if start is None else Interval(start)


def newest_ahead(session: Session, cluster: str, now: datetime) -> Interval | None:
    """Return the newest interval of a cluster that was judged although it lies ahead of `now`, marked or not."""
    return _newest_of(session, cluster, JudgedIntervalRow.interval_start > now + CLOCKS_DIFFER)


def _newest_of(session: Session, cluster: str, which: ColumnElement[bool]) -> Interval | None:
    row = JudgedIntervalRow
    start = session.scalar(select(func.max(row.interval_start)).where(row.cluster == cluster, which))
    return None if start is None else Interval(start)


def mark_ahead(session: Session, cluster: str, now: datetime) -> int:
    """Let what lies ahead of `now` count as not judged; returns how many intervals that are."""
    row = JudgedIntervalRow
    lying_ahead = (row.cluster == cluster, row.interval_start > now + CLOCKS_DIFFER, row.mode != Mode.AHEAD)
    return count_changed(session, update(row).where(*lying_ahead).values(mode=Mode.AHEAD))


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the intervals that began before a moment, but not a cluster's newest; returns how many."""
    row = JudgedIntervalRow
    kept = session.execute(select(row.cluster, func.max(row.interval_start)).group_by(row.cluster))
    newest_ones = [(row.cluster == cluster) & (row.interval_start == start) for cluster, start in kept]
    return count_changed(session, delete(row).where(row.interval_start < moment, ~or_(false(), *newest_ones)))


def marks(session: Session, clusters: Iterable[str]) -> tuple[object, ...]:
    """Return the newest publication and judgement of each cluster, event, acknowledgement and silence; milliseconds.

    An old interval may be published again. Judging changes incidents and forecasts; all else that happens to an
    incident is an event.
    """
    judged = select(JudgedIntervalRow.judged_at).order_by(JudgedIntervalRow.interval_start.desc()).limit(1)
    published = select(func.max(PublishedIntervalRow.published_at))
    of_clusters = [
        (
            session.scalar(published.where(PublishedIntervalRow.cluster == one)),
            session.scalar(judged.where(JudgedIntervalRow.cluster == one)),
        )
        for one in clusters
    ]
    rows = (IncidentEventRow.id, AcknowledgementRow.id, SilenceRow.id, SilenceRow.expired_at)
    return *of_clusters, *(session.scalar(select(func.max(one))) for one in rows)
