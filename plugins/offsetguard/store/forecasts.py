"""Forecasts, until and after their outcome is known, and the counts of outcomes by day: the coverage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time

from sqlalchemy import Engine, delete, func, select
from sqlalchemy.orm import Session

from offsetguard.model.forecast import Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store.columns import count_changed
from offsetguard.store.database import reading
from offsetguard.store.models import ForecastRow, ForecastScoresRow

_MAX_NAME = 255  # of the columns; no name of RocketMQ is longer


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the forecasts of one cluster, kind and basis turned out."""

    cluster: str
    kind: Kind
    basis: Basis
    inside: int
    early: int
    late: int
    void: int

    @property
    def share_inside(self) -> float | None:
        """The share of outcomes within the stated range; None: there was none yet."""
        known = self.inside + self.early + self.late
        return self.inside / known if known else None


def still_open(session: Session, cluster: str) -> dict[int, Stated]:
    """Return the forecasts of a cluster whose outcome is not known, by row, oldest first."""
    query = (
        select(ForecastRow)
        .where(ForecastRow.cluster == cluster, ForecastRow.outcome.is_(None))
        .order_by(ForecastRow.made_at, ForecastRow.id)
    )
    return {row.id: _from_row(row) for row in session.scalars(query)}


def state(session: Session, cluster: str, stated: Stated) -> None:
    """Keep a new forecast."""
    if max(len(stated.consumer_group), len(stated.topic)) > _MAX_NAME:
        return
    session.add(
        ForecastRow(
            cluster=cluster,
            consumer_group=stated.consumer_group,
            topic=stated.topic,
            kind=stated.kind.value,
            made_at=stated.made_at,
            low_ms=stated.forecast.low_ms,
            high_ms=stated.forecast.high_ms,
            basis=stated.forecast.basis.value,
        )
    )


def score(session: Session, row_id: int, outcome: Outcome, *, now: datetime) -> None:
    """Write down what became of a forecast, and count it; one that was scored already stays as it is."""
    row = session.get_one(ForecastRow, row_id)
    if row.outcome is not None:
        return
    row.outcome, row.known_at = outcome.value, now
    day = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    counts = session.get(ForecastScoresRow, (row.cluster, day, row.kind, row.basis))
    if counts is None:
        key = {"cluster": row.cluster, "day": day, "kind": row.kind, "basis": row.basis}
        counts = ForecastScoresRow(**key, inside_count=0, early_count=0, late_count=0, void_count=0)
        session.add(counts)
    name = f"{outcome.value}_count"
    setattr(counts, name, getattr(counts, name) + 1)


def coverage(engine: Engine, *, since: datetime, cluster: str | None = None) -> list[Coverage]:
    """Return how forecasts turned out whose outcome became known since a day, by cluster, kind and basis."""
    row = ForecastScoresRow
    key = (row.cluster, row.kind, row.basis)
    sums = (func.sum(row.inside_count), func.sum(row.early_count), func.sum(row.late_count), func.sum(row.void_count))
    query = select(*key, *sums).where(row.day >= since).group_by(*key).order_by(*key)
    if cluster is not None:
        query = query.where(row.cluster == cluster)
    with reading(engine) as session:
        found = session.execute(query).all()
    return [Coverage(name, Kind(kind), Basis(basis), *map(int, counts)) for name, kind, basis, *counts in found]


def delete_older(session: Session, forecasts_before: datetime, scores_before: datetime) -> int:
    """Delete forecasts made, and scores of days, before a moment each; returns how many forecasts."""
    session.execute(delete(ForecastScoresRow).where(ForecastScoresRow.day < scores_before))
    return count_changed(session, delete(ForecastRow).where(ForecastRow.made_at < forecasts_before))


def _from_row(row: ForecastRow) -> Stated:
    forecast = Forecast(row.low_ms, row.high_ms, Basis(row.basis))
    return Stated(row.consumer_group, row.topic, Kind(row.kind), row.made_at, forecast)
