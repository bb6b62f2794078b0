"""Judged intervals: a row here makes judging the interval again a no-op, and orders intervals in time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import delete, false, func, or_, select

from offsetguard.intervals import Interval
from offsetguard.store.changed_rows import count_changed
from offsetguard.store.database import reading
from offsetguard.store.models import JudgedIntervalRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine
    from sqlalchemy.orm import Session


class Mode(StrEnum):
    """What judging an interval was allowed to do."""

    LIVE = "live"  # changed incidents and could send messages
    LATE = "late"  # changed incidents; older than notify_within_ms: nothing was sent, unless it was asked for
    HISTORY = "history"  # a newer interval had been judged: nothing but this row


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
    """Add the row; raises IntegrityError when the interval was judged already."""
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
    return session.get(JudgedIntervalRow, (cluster, interval.start)) is not None


def newest_interval(session: Session, cluster: str) -> Interval | None:
    """Return the newest interval of a cluster that was judged."""
    query = select(func.max(JudgedIntervalRow.interval_start)).where(JudgedIntervalRow.cluster == cluster)
    start = session.scalar(query)
    return None if start is None else Interval(start)


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
