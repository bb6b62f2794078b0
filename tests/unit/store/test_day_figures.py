"""A day goes from its first moment up to, and without, the next day's: what happens then belongs to one of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from offsetguard.model.incident import EventKind, IncidentEvent
from offsetguard.model.notification import Matchers, Silence
from offsetguard.store import day_figures, incidents, silences
from offsetguard.store.database import writing
from offsetguard.store.models import CycleRow, JudgedIntervalRow, Mode, OutboxRow, Status
from offsetguard_peers.judging.records import an_incident

MINUTE = timedelta(minutes=1)
DAY = day_figures.Span(datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))
MOMENTS = {"before": DAY.start - MINUTE, "first": DAY.start, "last": DAY.end - MINUTE, "next day": DAY.end}


def test_what_happened_to_incidents_belongs_to_the_day_of_its_moment(engine: Engine) -> None:
    with writing(engine) as session:
        for name, at in MOMENTS.items():
            incident = an_incident(name, incident_id=name, counted_at=at)
            incidents.save(session, [incident])
            incidents.record_events(session, [IncidentEvent(name, at, EventKind.MUTED, "by a silence")])
            silences.acknowledge(session, incident, author="li", comment="restarted", now=at)
        assert day_figures.muted_incidents(session, DAY) == {"first", "last"}
        assert day_figures.acknowledged_incidents(session, DAY) == {"first", "last"}


@pytest.mark.parametrize(
    ("starts", "ends", "expired", "count"),
    [
        pytest.param(-60, 0, None, 0, id="over when the day begins"),
        pytest.param(-60, 1, None, 1, id="into the first minute"),
        pytest.param(-60, 60, 0, 0, id="ended by somebody as the day begins"),
        pytest.param(-60, 60, 1, 1, id="ended by somebody after its first minute"),
        pytest.param(24 * 60 - 1, 48 * 60, None, 1, id="from the last minute on"),
        pytest.param(24 * 60, 48 * 60, None, 0, id="from the end on"),
    ],
)
def test_a_silence_counts_where_it_held_at_some_time_of_the_day(
    engine: Engine, starts: int, ends: int, expired: int | None, count: int
) -> None:
    ended = None if expired is None else DAY.start + expired * MINUTE
    begins = DAY.start + starts * MINUTE
    silence = Silence(Matchers("demo"), "li", "planned", begins, DAY.start + ends * MINUTE, begins, expired_at=ended)
    with writing(engine) as session:
        silences.add(session, silence)
        assert day_figures.silences_in_force(session, DAY) == count


def test_messages_count_on_the_day_on_which_they_were_written_for_their_team(engine: Engine) -> None:
    with writing(engine) as session:
        session.add_all([message(name, at) for name, at in MOMENTS.items()])
        session.add_all([message("report", DAY.start, rule_id="daily_report"), message("other", DAY.start, team="b")])
        session.add(message("waits", DAY.start, status=Status.PENDING))
        session.add(message("rest of a warning", DAY.start, is_details=True))
        found = day_figures.messages_by_status(session, "a", DAY, without="daily_report")
    assert found == {Status.SENT: 2, Status.PENDING: 1}


def message(
    key: str,
    at: datetime,
    *,
    team: str = "a",
    rule_id: str = "messages_lost",
    status: Status = Status.SENT,
    is_details: bool = False,
) -> OutboxRow:
    return OutboxRow(
        idempotency_key=key, channel="mail", receiver="a@example.com", team=team, cluster="demo",
        rule_id=rule_id, thread_key=key, interval_start=at, view_json="{}", created_at=at, status=status, attempts=1,
        next_attempt_at=at, is_details=is_details,
    )  # fmt: skip


def judged(starts: Sequence[datetime], mode: Mode = Mode.LIVE) -> list[JudgedIntervalRow]:
    return [JudgedIntervalRow("demo", start, start, mode, 0, 0, 0, 0) for start in starts]


def test_of_a_day_its_own_intervals_count_and_the_longest_time_without_one(engine: Engine) -> None:
    ten, noon, clock_ahead = (DAY.start + timedelta(hours=hour) for hour in (10, 12, 14))
    with writing(engine) as session:
        session.add_all(judged(list(MOMENTS.values())))
        session.add_all([*judged([ten], Mode.LATE), *judged([noon], Mode.HISTORY), *judged([clock_ahead], Mode.AHEAD)])
        (found,) = day_figures.data_quality(session, DAY, ["demo"])
    assert (found.expected_count, found.judged_count, found.late_count) == (1_440, 3, 1)
    assert found.longest_gap_ms == 50_280_000, "from 10:01 to 23:59"


def test_of_a_days_publications_those_that_stand_tell_what_was_wrong(engine: Engine) -> None:
    later = timedelta(seconds=30)
    with writing(engine) as session:
        for number, start in enumerate(MOMENTS.values()):
            session.add(cycle(start, f"published {number}", start, violations={"OG-Q01": 1}, quarantined=10))
        session.add(cycle(DAY.start, "again", DAY.start + later, violations={"OG-Q01": 2, "OG-Q02": 3}, quarantined=20))
        session.add(cycle(DAY.start, "failed", DAY.start + 2 * later, verdict=None))
        (found,) = day_figures.data_quality(session, DAY, ["demo"])
    assert found.violation_count == 5 + 1
    assert found.quarantined_count == 20 + 10
    assert found.failed_cycle_count == 1


def cycle(
    start: datetime,
    run_id: str,
    started_at: datetime,
    *,
    verdict: str | None = "published",
    violations: dict[str, int] | None = None,
    quarantined: int | None = None,
) -> CycleRow:
    return CycleRow(
        "demo", start, run_id, started_at, started_at, verdict, violations=violations or {}, quarantined=quarantined
    )
