"""A team reads once a day what was bad; whoever writes the report again, or beside another, adds nothing."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.deliver.daily_reports import WrittenReport, day_span, day_to_report, write_daily_reports
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Basis, Forecast, Kind, Outcome, Severity, Stated
from offsetguard.model.views import DailyReportView, DataQuality, ForecastQuality
from offsetguard.store import cycles, incidents, judge_memory, judged_intervals, outbox
from offsetguard.store.database import writing
from offsetguard.store.models import CycleRow, JudgedIntervalRow, Mode
from offsetguard_peers.judging.records import an_incident

DAY = date(2026, 11, 21)
MORNING = datetime(2026, 11, 22, 0, 5, tzinfo=UTC)  # 08:05 in Shanghai
START = datetime(2026, 11, 20, 16, tzinfo=UTC)  # of the day in Shanghai
HOUR = timedelta(hours=1)


def config(**delivery: Any) -> Config:
    teams: dict[str, Any] = {
        "operations": {"mail": ["operations@example.org"], "daily_report_at": "20:00"},
        "billing": {"mail": ["one@example.org", "two@example.org"], "slack": ["#billing"]},
        "nobody": {},
    }
    return Config.model_validate(
        {
            "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
            "groups": [{"match": "billing*", "team": "billing"}],
            "teams": teams,
            "default_team": "operations",
            "delivery": {"daily_report_at": "08:00", "time_zone": "Asia/Shanghai"} | delivery,
        }
    )


def incident(group: str, opened_at: datetime, resolved_at: datetime | None = None, **more: Any) -> Incident:
    """Return a critical one unless said otherwise."""
    fields = {"severity": Severity.CRITICAL, "peak_figure": "effective_lag", "peak": 20_000, **more}
    return an_incident(
        "consumer_offline",
        incident_id=f"{group} {opened_at:%d%H}",
        consumer_group=group,
        opened_at=opened_at,
        resolved_at=resolved_at,
        **fields,
    )


def write(engine: Engine, *found: Incident, now: datetime = MORNING, **delivery: Any) -> DailyReportView:
    """Write the reports of a database that has these incidents; return that of the team billing."""
    with writing(engine) as session:
        incidents.save(session, found)
    write_daily_reports(engine, config(**delivery), now=now)
    (view,) = {row.view_json: row.view for row in outbox.messages(engine) if row.team == "billing"}.values()
    assert isinstance(view, DailyReportView)
    return view


@pytest.mark.parametrize(
    ("at", "time_zone", "now", "day"),
    [
        ("08:00", "UTC", "2026-11-22T07:59:59+00:00", None),  # the one before is 24 hours old
        ("08:00", "UTC", "2026-11-22T08:00:00+00:00", "2026-11-21"),
        ("08:00", "UTC", "2026-11-22T20:00:00+00:00", "2026-11-21"),
        ("08:00", "UTC", "2026-11-22T20:00:01+00:00", None),  # too late to be read
        ("08:00", "Asia/Shanghai", "2026-11-22T00:00:00+00:00", "2026-11-21"),
        ("08:00", "Asia/Shanghai", "2026-11-21T23:59:00+00:00", None),
        ("23:30", "UTC", "2026-11-22T01:00:00+00:00", "2026-11-20"),  # the report of yesterday evening
        ("02:30", "Europe/Berlin", "2026-03-29T01:30:00+00:00", "2026-03-28"),  # 02:30 does not exist on that day
        ("08:00", "America/New_York", "2026-11-22T13:00:00+00:00", "2026-11-21"),
    ],
)
def test_the_day_that_ended_last_is_told_from_the_hour_on_for_half_a_day(
    at: str, time_zone: str, now: str, day: str | None
) -> None:
    told = day_to_report(time.fromisoformat(at), time_zone, datetime.fromisoformat(now))
    assert (told and told.isoformat()) == day


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-21", 24)])
def test_a_day_lasts_as_long_as_by_the_clock_of_the_zone(day: str, hours: int) -> None:
    span = day_span(date.fromisoformat(day), "Europe/Berlin")
    assert span.end - span.start == hours * HOUR


def test_every_mail_receiver_of_a_team_gets_one_report_per_day_however_often_it_is_written(engine: Engine) -> None:
    written = write_daily_reports(engine, config(), now=MORNING)
    assert written == (
        WrittenReport("billing", DAY, "one@example.org"),
        WrittenReport("billing", DAY, "two@example.org"),
    )
    assert write_daily_reports(engine, config(), now=MORNING + HOUR) == ()
    (evening,) = write_daily_reports(engine, config(), now=MORNING + 12 * HOUR)
    assert (evening.team, evening.day) == ("operations", DAY)
    tomorrow = write_daily_reports(engine, config(), now=MORNING + 24 * HOUR)
    assert {one.day for one in tomorrow} == {date(2026, 11, 22)}


def test_nobody_gets_a_report_who_did_not_ask_for_one(engine: Engine) -> None:
    assert write_daily_reports(engine, config(daily_report_at=None), now=MORNING) == ()


def test_a_report_has_the_incidents_of_its_team_and_day_worst_first_with_the_time_that_they_took_of_it(
    engine: Engine,
) -> None:
    view = write(
        engine,
        incident("billing-short", START + 2 * HOUR, START + 3 * HOUR),
        incident("billing-long", START - 5 * HOUR, START + 4 * HOUR),
        incident("billing-open", START + 20 * HOUR, severity=Severity.WARNING),
        incident("billing-later", START + 23 * HOUR, START + 30 * HOUR),
        incident("billing-before", START - 5 * HOUR, START - HOUR),
        incident("billing-after", START + 25 * HOUR),
        incident("billing-info", START + HOUR, severity=Severity.INFO),
        incident("billing-pending", START + HOUR, is_pending=True),
        incident("somebody", START + HOUR),
    )
    assert [(one.consumer_group, one.lasted_ms // 3_600_000, one.resolved_at is None) for one in view.incidents] == [
        ("billing-long", 4, False),
        ("billing-later", 1, True),
        ("billing-short", 1, False),
        ("billing-open", 4, True),
    ]
    assert (view.opened_count, view.resolved_count, view.open_count, view.critical_count) == (3, 2, 2, 3)
    assert view.severity == "critical"
    assert (view.incidents[0].title, view.incidents[0].peak) == ("consumers are offline", "lag 20,000")
    assert (view.language, view.time_zone, view.day) == ("en", "Asia/Shanghai", DAY)


def changed(one: Incident, after: timedelta, was: Severity, now: Severity) -> IncidentEvent:
    """Return that an incident's severity changed so long after the day's start."""
    kind = EventKind.WORSE if now.rank > was.rank else EventKind.BETTER
    named = {name: Sentence(f"severity_{severity}") for name, severity in (("was", was), ("now", now))}
    return IncidentEvent(one.incident_id, START + after, kind, Sentence("event_changed", **named, summary="so it is"))


def test_an_incident_has_the_worst_severity_of_the_day_whatever_it_was_before_and_became_later(engine: Engine) -> None:
    info, warning, critical = Severity
    calmed = incident("billing-calmed", START + HOUR, START + 9 * HOUR, severity=info)
    was_info = incident("billing-was-info", START + HOUR, severity=critical)
    was_worse = incident("billing-was-worse", START - 5 * HOUR, severity=warning)
    calm_by_now = incident("billing-calm-by-now", START - 5 * HOUR, severity=info)
    with writing(engine) as session:
        incidents.record_events(
            session,
            [
                changed(was_worse, -2 * HOUR, critical, warning),
                changed(calm_by_now, -HOUR, warning, info),
                changed(calmed, 2 * HOUR, info, critical),
                changed(calmed, 3 * HOUR, critical, warning),
                changed(calmed, 4 * HOUR, warning, info),
                changed(was_info, 24 * HOUR, info, critical),
            ],
        )
    view = write(engine, calmed, was_info, was_worse, calm_by_now)
    assert [(one.consumer_group, one.severity) for one in view.incidents] == [
        ("billing-calmed", "critical"),
        ("billing-was-worse", "warning"),
    ]
    assert (view.critical_count, view.severity) == (1, "critical")


def test_a_report_is_written_in_the_language_of_its_route(engine: Engine) -> None:
    view = write(engine, incident("billing", START + HOUR), language="zh")
    assert (view.language, view.incidents[0].title, view.incidents[0].peak) == ("zh", "消费者不在线", "堆积量 20,000")


def test_incidents_that_do_not_fit_are_counted(engine: Engine) -> None:
    view = write(engine, *(incident(f"billing-{n:02}", START + HOUR) for n in range(40)))
    assert (len(view.incidents), view.hidden_incidents, view.opened_count) == (30, 10, 40)


def test_a_report_counts_what_nobody_was_told_and_how_good_forecasts_were(engine: Engine) -> None:
    muted = incident("billing", START + HOUR)
    stated = Stated("billing", "orders", Kind.DRAIN, START, Forecast(60_000, 120_000, Basis.CONSUME_RATE))
    with writing(engine) as session:
        incidents.save(session, [muted])
        text = "silence of alice"
        incidents.record_events(session, [IncidentEvent(muted.incident_id, START + HOUR, EventKind.MUTED, text)] * 2)
        for outcome in (Outcome.INSIDE, Outcome.INSIDE, Outcome.LATE, Outcome.VOID):
            judge_memory.state_forecast(session, "demo", stated)
            session.flush()
            (row,) = judge_memory.open_forecasts(session, "demo")
            judge_memory.score_forecast(session, row, outcome, now=START + 10 * HOUR)
    view = write(engine)
    assert view.muted_count == 1
    assert view.forecasts == (ForecastQuality(cluster="demo", kind="drain", inside=2, early=0, late=1, void=1),)


@pytest.mark.slow
def test_a_report_says_how_much_of_the_day_was_seen(engine: Engine) -> None:
    minutes = [n for n in range(24 * 60) if not 100 <= n < 130 and n != 500]
    with writing(engine) as session:
        for n in minutes:
            interval = Interval(START + timedelta(minutes=n))
            mode = Mode.LATE if n == 7 else Mode.LIVE
            judged_intervals.record(session, JudgedIntervalRow("demo", interval.start, interval.end, mode, 0, 0, 0, 0))
    failed = CycleRow("demo", START, "run", START, START, None, violations={"OG-Q01": 2, "OG-Q03": 1}, quarantined=5)
    cycles.record(engine, failed)
    published = replace(failed, interval_start=START + timedelta(minutes=4), verdict="published")
    cycles.record(engine, published)
    later = {"started_at": START + HOUR, "finished_at": START + HOUR}
    again = replace(published, run_id="again", violations={"OG-Q01": 1}, quarantined=4, **later)
    cycles.record(engine, again)  # its figures take the place of the first
    cycles.record(engine, replace(again, run_id="in vain", started_at=START + 2 * HOUR, verdict=None))
    view = write(engine)
    assert view.data == (
        DataQuality(
            cluster="demo",
            expected_count=1_440,
            judged_count=1_409,
            late_count=1,
            failed_cycle_count=2,
            longest_gap_ms=30 * 60_000,
            violation_count=3 + 1,
            quarantined_count=5 + 4,
        ),
    )
