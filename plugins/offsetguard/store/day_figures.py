"""What a day left in the database: read for the daily report, over the tables that other files write."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from offsetguard.model.incident import EventKind
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.views import DataQuality, ForecastQuality
from offsetguard.store import models


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment up to, and without, another one."""

    start: datetime
    end: datetime


def muted_incidents(session: Session, span: Span) -> set[str]:
    """Return the ids of the incidents that something began to mute."""
    row = models.IncidentEventRow
    query = select(row.incident_id).where(row.kind == EventKind.MUTED, row.at >= span.start, row.at < span.end)
    return set(session.scalars(query))


def acknowledged_incidents(session: Session, span: Span) -> set[str]:
    """Return the ids of the incidents that somebody acknowledged."""
    row = models.AcknowledgementRow
    return set(session.scalars(select(row.incident_id).where(row.at >= span.start, row.at < span.end)))


def silences_in_force(session: Session, span: Span) -> int:
    """Return how many silences held at some time."""
    row = models.SilenceRow
    ended = func.coalesce(row.expired_at, row.ends_at)
    query = select(func.count()).where(row.starts_at < span.end, row.ends_at > span.start, ended > span.start)
    return session.scalar(query) or 0


def messages_by_status(session: Session, team: str, span: Span, *, without: str) -> Counter[models.Status]:
    """Return how many messages to a team were written, by what became of them (`models.Status`).

    `without`: the rule id of those that do not count, as details do not that a message left to its thread.
    """
    row = models.OutboxRow
    query = (
        select(row.status, func.count())
        .where(row.team == team, row.created_at >= span.start, row.created_at < span.end)
        .where(row.rule_id != without, ~row.is_details)
        .group_by(row.status)
    )
    return Counter({status: count for status, count in session.execute(query)})  # noqa: C416 rows are no pairs to mypy


def forecast_outcomes(session: Session, span: Span) -> list[ForecastQuality]:
    """Return by cluster and kind how forecasts turned out, by the days (UTC) on which that became known."""
    row = models.ForecastScoresRow
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


def data_quality(session: Session, span: Span, clusters: Iterable[str]) -> list[DataQuality]:
    """Return how much of each cluster was seen.

    Neither intervals that were history when they were judged count, nor those that lay ahead of a clock put right.
    """
    judged, cycle = models.JudgedIntervalRow, models.CycleRow
    starts: dict[str, list[datetime]] = defaultdict(list)
    late, failed, violations, quarantined = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    query = select(judged.cluster, judged.interval_start, judged.mode).where(
        judged.interval_start >= span.start,
        judged.interval_start < span.end,
        judged.mode.in_((models.Mode.LIVE, models.Mode.LATE)),
    )
    for cluster, start, mode in session.execute(query.order_by(judged.interval_start)):
        starts[cluster].append(start)
        late[cluster] += mode is models.Mode.LATE
    published = select(cycle).where(cycle.interval_start >= span.start, cycle.interval_start < span.end)
    standing: dict[tuple[str, datetime], models.CycleRow] = {}
    for run in session.scalars(published.order_by(cycle.verdict.is_not(None), cycle.started_at, cycle.run_id)):
        failed[run.cluster] += run.failed
        standing[run.cluster, run.interval_start] = run  # what was published last, or what failed last where none was
    for run in standing.values():
        violations[run.cluster] += sum(run.violations.values())
        quarantined[run.cluster] += run.quarantined or 0  # a run that wrote nothing left nothing out
    return [
        DataQuality(
            cluster=one,
            expected_count=(span.end - span.start) // INTERVAL_LENGTH,
            judged_count=len(starts[one]),
            late_count=late[one],
            failed_cycle_count=failed[one],
            longest_gap_ms=_longest_gap(starts[one], span) // timedelta(milliseconds=1),
            violation_count=violations[one],
            quarantined_count=quarantined[one],
        )
        for one in clusters
    ]


def _longest_gap(starts: Sequence[datetime], span: Span) -> timedelta:
    """Return the longest time without a judged interval."""
    ends = [span.start, *(start + INTERVAL_LENGTH for start in starts)]
    return max((start - end for end, start in zip(ends, [*starts, span.end], strict=True)), default=timedelta())
