"""Forecasts come back as they went in, are scored once, counted by day, and do not grow without end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from offsetguard.model.forecast import Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store import judge_memory
from offsetguard.store.database import reading, writing
from offsetguard.tables.broker_facts import BrokerFacts

NOW = datetime(2026, 11, 21, 10, 40, tzinfo=UTC)
DAY = timedelta(days=1)
LOSS = Stated("billing", "orders", Kind.LOSS, NOW, Forecast(3_600_000, 7_200_000, Basis.RESERVED_TIME))
DRAIN = Stated("billing", "orders", Kind.DRAIN, NOW, Forecast(0, 60_000, Basis.CONSUME_RATE))
BROKER = BrokerFacts(
    broker_name="broker-a",
    broker_id=0,
    listed=True,
    answered=True,
    commit_log_min_offset=0,
    commit_log_max_offset=5_000,
    commit_log_disk_ratio=0.5,
    earliest_message_at=NOW - DAY,
    read_at=NOW,
)


def test_open_forecasts_come_back_as_they_went_in(engine: Engine) -> None:
    with writing(engine) as session:
        for stated in (LOSS, DRAIN):
            judge_memory.state_forecast(session, "demo", stated)
    with reading(engine) as session:
        assert list(judge_memory.open_forecasts(session, "demo").values()) == [LOSS, DRAIN]
        assert judge_memory.open_forecasts(session, "other") == {}


def test_a_score_is_counted_once_and_voids_count_for_no_share(engine: Engine) -> None:
    with writing(engine) as session:
        for _ in range(4):
            judge_memory.state_forecast(session, "demo", LOSS)
    with writing(engine) as session:
        rows = list(judge_memory.open_forecasts(session, "demo"))
        for row_id, outcome in zip(rows, (Outcome.INSIDE, Outcome.INSIDE, Outcome.LATE, Outcome.VOID), strict=True):
            judge_memory.score_forecast(session, row_id, outcome, now=NOW)
            judge_memory.score_forecast(session, row_id, Outcome.EARLY, now=NOW)
        assert judge_memory.open_forecasts(session, "demo") == {}
    (found,) = judge_memory.coverage(engine, since=NOW - DAY)
    assert (found.inside, found.early, found.late, found.void) == (2, 0, 1, 1)
    assert found.share_inside == 2 / 3
    assert judge_memory.coverage(engine, since=NOW + DAY) == []


def test_old_forecasts_go_before_their_scores(engine: Engine) -> None:
    with writing(engine) as session:
        judge_memory.state_forecast(session, "demo", LOSS)
    with writing(engine) as session:
        (row_id,) = judge_memory.open_forecasts(session, "demo")
        judge_memory.score_forecast(session, row_id, Outcome.INSIDE, now=NOW)
    with writing(engine) as session:
        assert judge_memory.delete_forecasts(session, NOW + DAY, NOW - 90 * DAY) == 1
    assert len(judge_memory.coverage(engine, since=NOW - DAY)) == 1
    with writing(engine) as session:
        assert judge_memory.delete_forecasts(session, NOW + DAY, NOW + DAY) == 0
    assert judge_memory.coverage(engine, since=NOW - DAY) == []


def test_masters_are_marked_when_an_hour_has_passed_or_the_oldest_byte_moved(engine: Engine) -> None:
    cleaned = {"commit_log_min_offset": 1_000}
    looks = [
        replace(BROKER, read_at=NOW + timedelta(minutes=minutes), **moved)
        for minutes, moved in ((0, {}), (30, {}), (40, cleaned), (45, cleaned), (99, cleaned), (100, cleaned))
    ]
    for look in looks:
        at = look.read_at or NOW
        with writing(engine) as session:
            known = judge_memory.marks_before(session, "demo", at)
            judge_memory.record_marks(session, "demo", [look, replace(look, broker_id=1)], known)
    with writing(engine) as session:
        marks = judge_memory.marks_before(session, "demo", NOW + DAY)
        assert [(mark.at - NOW) // timedelta(minutes=1) for mark in marks] == [0, 40, 100]
        assert marks[0].earliest_message_at == NOW - DAY
        assert judge_memory.marks_before(session, "demo", NOW + timedelta(minutes=40)) == marks[:1]
        assert judge_memory.delete_rhythms(session, NOW + timedelta(minutes=40) + judge_memory.KEPT_FOR) == 1


def test_a_replica_that_did_not_say_is_not_marked(engine: Engine) -> None:
    with writing(engine) as session:
        judge_memory.record_marks(session, "demo", [replace(BROKER, commit_log_max_offset=None)], ())
        assert judge_memory.marks_before(session, "demo", NOW + DAY) == ()
