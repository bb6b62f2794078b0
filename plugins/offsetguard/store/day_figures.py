"""What a day left in the database: read for the daily report, over the tables that other files write."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from offsetguard.model.incident import EventKind, Incident
from offsetguard.model.views import ForecastQuality
from offsetguard.store import incidents
from offsetguard.store.models import (
    AcknowledgementRow,
    CycleRow,
    ForecastScoresRow,
    IncidentEventRow,
    IncidentRow,
    JudgedIntervalRow,
    Mode,
    OutboxRow,
    SilenceRow,
    Status,
)


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment up to, and without, another one."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class CycleSums:
    """Sums over the cycles of one cluster."""

    failed: int
    violations: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class JudgedMoments:
    """Which intervals of one cluster were judged, by their starts, oldest first; and how many of them too late."""

    starts: tuple[datetime, ...]
    late: int


def incidents_of(session: Session, span: Span) -> list[Incident]:
    """Return the incidents that a span saw open, oldest first; pending ones are nobody's concern yet."""
    query = (
        select(IncidentRow.incident_id)
        .where(
            IncidentRow.opened_at < span.end,
            or_(IncidentRow.resolved_at.is_(None), IncidentRow.resolved_at >= span.start),
            IncidentRow.is_pending.is_(False),
        )
        .order_by(IncidentRow.opened_at, IncidentRow.incident_id)
    )
    ids = list(session.scalars(query))
    found = incidents.by_id(session, ids)
    return [found[one] for one in ids]


def muted_incidents(session: Session, span: Span) -> set[str]:
    """Return the ids of the incidents that something began to mute."""
    row = IncidentEventRow
    query = select(row.incident_id).where(row.kind == EventKind.MUTED, row.at >= span.start, row.at < span.end)
    return set(session.scalars(query))


def acknowledged_incidents(session: Session, span: Span) -> set[str]:
    """Return the ids of the incidents that somebody acknowledged."""
    row = AcknowledgementRow
    return set(session.scalars(select(row.incident_id).where(row.at >= span.start, row.at < span.end)))


def silences_in_force(session: Session, span: Span) -> int:
    """Return how many silences held at some time."""
    row = SilenceRow
    ended = func.coalesce(row.expired_at, row.ends_at)
    query = select(func.count()).where(row.starts_at < span.end, row.ends_at > span.start, ended > span.start)
    return session.scalar(query) or 0


def messages_by_status(session: Session, team: str, span: Span, *, without: str) -> Counter[Status]:
    """Return how many messages to a team were written, by what became of them (`models.Status`).

    `without`: the rule id of those that do not count.
    """
    row = OutboxRow
    query = (
        select(row.status, func.count())
        .where(row.team == team, row.created_at >= span.start, row.created_at < span.end, row.rule_id != without)
        .group_by(row.status)
    )
    return Counter({status: count for status, count in session.execute(query)})  # noqa: C416 rows are no pairs to mypy


def forecast_outcomes(session: Session, span: Span) -> list[ForecastQuality]:
    """Return by cluster and kind how forecasts turned out, by the days (UTC) on which that became known."""
    row = ForecastScoresRow
    sums = (func.sum(row.inside_count), func.sum(row.early_count), func.sum(row.late_count), func.sum(row.void_count))
    query = (
        select(row.cluster, row.kind, *sums)
        .where(row.day >= span.start, row.day < span.end)
        .group_by(row.cluster, row.kind)
        .order_by(row.cluster, row.kind)
    )
    return [
        ForecastQuality(cluster=cluster, kind=kind.value, inside=inside, early=early, late=late, void=void)
        for cluster, kind, inside, early, late, void in session.execute(query)
    ]


def cycle_sums(session: Session, span: Span) -> dict[str, CycleSums]:
    """Return sums over the publications of the intervals of a span, by cluster."""
    row = CycleRow
    query = select(row.cluster, row.verdict, row.violations, row.quarantined).where(
        row.interval_start >= span.start, row.interval_start < span.end
    )
    failed, violations, quarantined = Counter[str](), Counter[str](), Counter[str]()
    clusters = set()
    for cluster, verdict, violated, left_out in session.execute(query):
        clusters.add(cluster)
        failed[cluster] += verdict is None
        violations[cluster] += sum(violated.values())
        quarantined[cluster] += left_out or 0
    return {one: CycleSums(failed[one], violations[one], quarantined[one]) for one in clusters}


def judged_moments(session: Session, span: Span) -> dict[str, JudgedMoments]:
    """Return which intervals of a span were judged, by cluster; those that were history when they were do not count."""
    row = JudgedIntervalRow
    query = (
        select(row.cluster, row.interval_start, row.mode)
        .where(row.interval_start >= span.start, row.interval_start < span.end, row.mode != Mode.HISTORY)
        .order_by(row.interval_start)
    )
    starts: dict[str, list[datetime]] = defaultdict(list)
    late = Counter[str]()
    for cluster, start, mode in session.execute(query):
        starts[cluster].append(start)
        late[cluster] += mode is Mode.LATE
    return {cluster: JudgedMoments(tuple(moments), late[cluster]) for cluster, moments in starts.items()}
