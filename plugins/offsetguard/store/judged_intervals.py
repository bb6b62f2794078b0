"""Judged intervals: a row here makes judging the interval again a no-op, and orders intervals in time.

A row ahead of the present was written by a host whose clock was wrong. It must not outrank the present, or nobody would
be told anything until its minute comes: the first judge of a present interval marks it, and it counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Engine, delete, false, func, or_, select, update
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.store.columns import count_changed
from offsetguard.store.database import reading
from offsetguard.store.models import JudgedIntervalRow


class Mode(StrEnum):
    """What judging an interval was allowed to do."""

    LIVE = "live"  # changed incidents and could send messages
    LATE = "late"  # changed incidents; older than notify_within_ms: nothing was sent, unless it was asked for
    HISTORY = "history"  # a newer interval had been judged: nothing but this row
    AHEAD = "ahead"  # lay ahead of an interval that was judged later: counts as not judged


CLOCKS_DIFFER = timedelta(minutes=1)
"""By so much a row may lie ahead of a clock without either being called wrong."""


@dataclass(frozen=True, slots=True)
class JudgedInterval:
    """What judging one interval gave."""

    cluster: str
    interval: Interval
    judged_at: datetime
    mode: Mode
    finding_count: int
    opened_count: int
    resolved_count: int
    message_count: int


def record(session: Session, judged: JudgedInterval) -> None:
    """Add the row, in place of one that lay ahead; raises IntegrityError when the interval was judged already."""
    row = JudgedIntervalRow
    this = (row.cluster == judged.cluster) & (row.interval_start == judged.interval.start)
    session.execute(delete(row).where(this, row.mode == Mode.AHEAD.value))
    session.add(
        JudgedIntervalRow(
            cluster=judged.cluster,
            interval_start=judged.interval.start,
            judged_at=judged.judged_at,
            mode=judged.mode.value,
            finding_count=judged.finding_count,
            opened_count=judged.opened_count,
            resolved_count=judged.resolved_count,
            message_count=judged.message_count,
        )
    )
    session.flush()


def is_judged(session: Session, cluster: str, interval: Interval) -> bool:
    """Tell whether an interval was judged."""
    row = session.get(JudgedIntervalRow, (cluster, interval.start))
    return row is not None and row.mode != Mode.AHEAD.value


def newest_interval(session: Session, cluster: str, now: datetime) -> Interval | None:
    """Return the newest interval of a cluster that was judged and does not lie ahead of `now`."""
    row = JudgedIntervalRow
    query = select(func.max(row.interval_start)).where(
        row.cluster == cluster, row.mode != Mode.AHEAD.value, row.interval_start <= now + CLOCKS_DIFFER
    )
    start = session.scalar(query)
    return None if start is None else Interval(start)


def newest_ahead(session: Session, cluster: str, now: datetime) -> Interval | None:
    """Return the newest interval of a cluster that was judged although it lies ahead of `now`, marked or not."""
    row = JudgedIntervalRow
    query = select(func.max(row.interval_start)).where(row.cluster == cluster, row.interval_start > now + CLOCKS_DIFFER)
    start = session.scalar(query)
    return None if start is None else Interval(start)


def mark_ahead(session: Session, cluster: str, now: datetime) -> int:
    """Let what lies ahead of `now` count as not judged; returns how many intervals that are."""
    row = JudgedIntervalRow
    lying_ahead = (
        update(row)
        .where(row.cluster == cluster, row.interval_start > now + CLOCKS_DIFFER, row.mode != Mode.AHEAD.value)
        .values(mode=Mode.AHEAD.value)
        .execution_options(synchronize_session=False)
    )
    return count_changed(session, lying_ahead)


def newest(engine: Engine, *, cluster: str, limit: int = 100) -> list[JudgedInterval]:
    """Return judged intervals of a cluster, newest first: for pages, and to see that judging goes on."""
    query = (
        select(JudgedIntervalRow)
        .where(JudgedIntervalRow.cluster == cluster)
        .order_by(JudgedIntervalRow.interval_start.desc())
        .limit(limit)
    )
    with reading(engine) as session:
        return [_from_row(row) for row in session.scalars(query)]


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the intervals that began before a moment, but not a cluster's newest; returns how many."""
    row = JudgedIntervalRow
    kept = session.execute(select(row.cluster, func.max(row.interval_start)).group_by(row.cluster))
    newest_ones = [(row.cluster == cluster) & (row.interval_start == start) for cluster, start in kept]
    return count_changed(session, delete(row).where(row.interval_start < moment, ~or_(false(), *newest_ones)))


def _from_row(row: JudgedIntervalRow) -> JudgedInterval:
    return JudgedInterval(
        cluster=row.cluster,
        interval=Interval(row.interval_start),
        judged_at=row.judged_at,
        mode=Mode(row.mode),
        finding_count=row.finding_count,
        opened_count=row.opened_count,
        resolved_count=row.resolved_count,
        message_count=row.message_count,
    )
