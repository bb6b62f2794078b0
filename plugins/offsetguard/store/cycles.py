"""Cycles: what each publication of an interval did, how long each step took, and what stopped those that failed.

One row per run, also of runs that published nothing: `offsetguard cycles` lists them, metrics are made of them.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.store.columns import count_changed
from offsetguard.store.database import reading, writing
from offsetguard.store.models import CycleRow


def record(engine: Engine, cycle: CycleRow) -> None:
    """Keep a cycle; the same run again replaces its row."""
    with writing(engine) as session:
        session.merge(cycle)


def newest(
    engine: Engine,
    *,
    cluster: str | None = None,
    interval: Interval | None = None,
    failed: bool = False,
    limit: int = 100,
) -> list[CycleRow]:
    """Return cycles, the one that began last first.

    `cluster`, `interval`: only of these. `failed`: only those that ended with an error.
    """
    query = select(CycleRow).order_by(CycleRow.started_at.desc(), CycleRow.run_id).limit(limit)
    if cluster is not None:
        query = query.where(CycleRow.cluster == cluster)
    if interval is not None:
        query = query.where(CycleRow.interval_start == interval.start)
    if failed:
        query = query.where(CycleRow.verdict.is_(None))
    with reading(engine) as session:
        return list(session.scalars(query))


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the cycles that began before a moment; returns how many."""
    return count_changed(session, delete(CycleRow).where(CycleRow.started_at < moment))
