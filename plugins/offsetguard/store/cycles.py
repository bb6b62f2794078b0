"""Cycles: what each publication of an interval did, how long each step took, and what stopped those that failed.

One row per run, also of runs that published nothing: `offsetguard cycles` lists them, metrics are made of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.store.columns import count_changed, record_of, values_of
from offsetguard.store.database import reading, writing
from offsetguard.store.models import CycleRow

_MAX_ERROR_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class Cycle:
    """One run of a publication. Figures of steps that it did not reach are missing, never 0."""

    cluster: str
    interval: Interval
    run_id: str
    started_at: datetime
    finished_at: datetime
    verdict: str | None  # what became of the interval; None: it failed
    error: str | None = None  # why it failed
    failed_step: str | None = None  # the step that it was in
    seconds: dict[str, float] = field(default_factory=dict)  # step -> how long it took, in the order of the steps
    rows: dict[str, int] = field(default_factory=dict)  # table -> rows of the interval
    files: dict[str, int] = field(default_factory=dict)  # table -> data files of all intervals
    violations: dict[str, int] = field(default_factory=dict)  # invariant -> violations, those above 0
    duplicates: int | None = None  # landed rows that repeated a key
    quarantined: int | None = None  # rows left out of the facts

    @property
    def failed(self) -> bool:
        """It ended with an error; readers see its rows only if it failed after the step `show`."""
        return self.verdict is None

    @property
    def duration_s(self) -> float:
        """Seconds from start to end, waiting for other publications included."""
        return (self.finished_at - self.started_at).total_seconds()


def record(engine: Engine, cycle: Cycle) -> None:
    """Keep a cycle; the same run again replaces its row."""
    values = values_of(cycle, "interval", "error")
    error = None if cycle.error is None else cycle.error[:_MAX_ERROR_LENGTH]
    with writing(engine) as session:
        session.merge(CycleRow(**values, interval_start=cycle.interval.start, error=error))


def newest(
    engine: Engine,
    *,
    cluster: str | None = None,
    interval: Interval | None = None,
    failed: bool = False,
    limit: int = 100,
) -> list[Cycle]:
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
        return [record_of(Cycle, row, interval=Interval(row.interval_start)) for row in session.scalars(query)]


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the cycles that began before a moment; returns how many."""
    return count_changed(session, delete(CycleRow).where(CycleRow.started_at < moment))
