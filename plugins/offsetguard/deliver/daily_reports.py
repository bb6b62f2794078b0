"""The daily report of each team: made of the database once its hour has come, and sent through the outbox.

A report is about the day that ended last by the team's calendar, from midnight to midnight. Its idempotency key is
made of team, day and receiver: whoever runs this again, or at the same time, adds nothing. A report whose hour was
missed by more than `LATEST` is left out: the next one comes before it would be read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.config import Config
from offsetguard.config.routes import Route
from offsetguard.judge.registry import rule_title
from offsetguard.model.incident import Incident, digest_of
from offsetguard.model.intervals import zone_of
from offsetguard.model.notification import DECLARED, Receiver
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import (
    CLUSTERS_LISTED,
    DAILY_REPORT,
    INCIDENTS_LISTED,
    DailyReportView,
    DataQuality,
    ForecastQuality,
    ReportedIncident,
    group_url,
    incident_url,
)
from offsetguard.store import day_figures, incidents, outbox
from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.day_figures import Span
from offsetguard.store.models import Status

LATEST = timedelta(hours=12)
FORECAST_DAYS = 7  # one day has few forecasts whose outcome became known


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report that was put into the outbox."""

    team: str
    day: date
    receiver: str


def write_daily_reports(engine: Engine, config: Config, *, now: datetime) -> tuple[WrittenReport, ...]:
    """Put the reports into the outbox whose hour has come; returns those that were not there yet."""
    written: list[WrittenReport] = []
    for team in sorted({*config.teams, config.default_team}):
        route = config.route(team, "", rule_id=DAILY_REPORT, severity=Severity.INFO)
        at = config.daily_report_at(team)
        day = None if at is None else day_to_report(at, route.time_zone, now)
        receivers = [one for one in route.receivers if DECLARED[one[0]].daily_reports]
        if day is not None and receivers and route.heard_by == team:
            keys = {digest_of(DAILY_REPORT, team, day.isoformat(), *one): one for one in receivers}
            enqueued = _enqueue(engine, keys, partial(daily_report, config=config, route=route, day=day), now)
            written += [WrittenReport(team, day, receiver) for receiver in enqueued]
    return tuple(written)


def day_to_report(at: time, time_zone: str, now: datetime) -> date | None:
    """Return the day that is to be reported now; None: its hour is over for longer than LATEST."""
    zone = zone_of(time_zone)
    today = now.astimezone(zone).date()
    for morning in (today, today - timedelta(days=1)):
        due = datetime.combine(morning, at, zone)
        if due <= now:
            return morning - timedelta(days=1) if now - due <= LATEST else None
    return None


def day_span(day: date, time_zone: str) -> Span:
    """Return a day of a calendar: 23, 24 or 25 hours."""
    zone = zone_of(time_zone)
    start, end = (datetime.combine(one, time(), zone) for one in (day, day + timedelta(days=1)))
    return Span(start.astimezone(UTC), end.astimezone(UTC))


def daily_report(session: Session, config: Config, route: Route, day: date) -> DailyReportView:
    """Return a team's report about a day; the same database gives the same report."""
    span = day_span(day, route.time_zone)
    changed = incidents.severities_within(session, span.start, span.end)
    found = incidents.open_within(session, span.start, span.end)
    worst = {one.incident_id: changed.get(one.incident_id, one.evidence.severity) for one in found}
    seen = [one for one in found if worst[one.incident_id].is_sent and _belongs(one, route.team, config)]
    ids = {one.incident_id for one in seen}
    listed = sorted((_reported(one, worst[one.incident_id], span, route, config) for one in seen), key=_worst_first)
    data = sorted(day_figures.data_quality(session, span, config.clusters), key=_worst_data_first)
    messages = day_figures.messages_by_status(session, route.team, span, without=DAILY_REPORT)
    return DailyReportView(
        team=route.team,
        severity=listed[0].severity if listed else Severity.INFO.value,
        interval_start=span.start,
        ends_at=span.end,
        day=day,
        thread_key=digest_of(DAILY_REPORT, route.team, day.isoformat())[:32],
        language=route.language.value,
        time_zone=route.time_zone,
        incidents=tuple(listed[:INCIDENTS_LISTED]),
        hidden_incidents=max(0, len(listed) - INCIDENTS_LISTED),
        critical_count=sum(one.severity == Severity.CRITICAL for one in listed),
        opened_count=sum(one.opened_at >= span.start for one in seen),
        resolved_count=sum(not _open_at(one, span.end) for one in seen),
        open_count=sum(_open_at(one, span.end) for one in seen),
        muted_count=len(ids & day_figures.muted_incidents(session, span)),
        acknowledged_count=len(ids & day_figures.acknowledged_incidents(session, span)),
        silence_count=day_figures.silences_in_force(session, span),
        sent_count=messages[Status.SENT],
        waiting_count=messages[Status.PENDING],
        failed_count=sum(messages[one] for one in outbox.REFUSED),
        forecast_days=FORECAST_DAYS,
        forecasts=_forecasts(session, span, config),
        data=tuple(data[:CLUSTERS_LISTED]),
        hidden_clusters=max(0, len(data) - CLUSTERS_LISTED),
        page_url=config.delivery.page_url,
    )


def _enqueue(
    engine: Engine, keys: Mapping[str, Receiver], report: Callable[[Session], DailyReportView], now: datetime
) -> list[str]:
    """Put a report into the outbox for those who have not got it; `keys`: idempotency key -> receiver.

    It is made before the transaction that writes it: a day's figures take a while, and no judge may wait for them.
    """
    with reading(engine) as session:
        if set(keys) <= outbox.known_keys(session, keys):
            return []
        view = report(session)
    with writing(engine) as session:
        serialize(session, DAILY_REPORT)
        enqueued = [
            receiver
            for key, (channel, receiver) in keys.items()
            if outbox.enqueue(session, idempotency_key=key, channel=channel, receiver=receiver, view=view, now=now)
        ]
    return sorted(enqueued)


def _belongs(incident: Incident, team: str, config: Config) -> bool:
    subject = incident.subject
    return team == config.team_of(subject.cluster, subject.consumer_group)


def _open_at(incident: Incident, moment: datetime) -> bool:
    return incident.resolved_at is None or incident.resolved_at >= moment


def _reported(incident: Incident, worst: Severity, span: Span, route: Route, config: Config) -> ReportedIncident:
    words = catalogue(Locale.of(route.language, route.time_zone))
    subject = incident.subject
    still_open = _open_at(incident, span.end)
    end = span.end if incident.resolved_at is None else min(span.end, incident.resolved_at)
    peak = None
    if incident.peak_figure is not None and incident.peak is not None:
        peak = f"{words.figure_label(incident.peak_figure)} {words.figure(incident.peak_figure, incident.peak)}"
    page_url, group = config.delivery.page_url, subject.consumer_group
    return ReportedIncident(
        cluster=subject.cluster,
        consumer_group=group,
        topic=subject.topic,
        rule_id=incident.shown_by,
        title=rule_title(incident.shown_by, route.language),
        severity=worst.value,
        opened_at=incident.first_seen_at,
        resolved_at=None if still_open else incident.ended_at,
        lasted_ms=max(0, (end - max(span.start, incident.opened_at)) // timedelta(milliseconds=1)),
        peak=peak,
        unknown=still_open and incident.unknown_since is not None and incident.unknown_since < span.end,
        incident_url=None if page_url is None else incident_url(page_url, incident.incident_id),
        group_url=page_url and group and group_url(page_url, subject.cluster, group),
    )


def _forecasts(session: Session, span: Span, config: Config) -> tuple[ForecastQuality, ...]:
    days = Span(span.end - timedelta(days=FORECAST_DAYS), span.end)
    return tuple(one for one in day_figures.forecast_outcomes(session, days) if one.cluster in config.clusters)


def _worst_first(one: ReportedIncident) -> tuple[int, int, str, str, str]:
    about = (one.cluster, one.rule_id, f"{one.consumer_group or ''} {one.topic or ''}")
    return (-Severity(one.severity).rank, -one.lasted_ms, *about)


def _worst_data_first(one: DataQuality) -> tuple[int, int, int, str]:
    return (one.judged_count - one.expected_count, -one.failed_cycle_count, -one.quarantined_count, one.cluster)
