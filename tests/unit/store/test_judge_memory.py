"""Absences, marks and forecasts come back as they went in, and do not grow without end.

Forecasts are scored once and counted by day; who comes and goes is learned from what is judged, minute by minute.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from offsetguard.model.fact_records import Absences
from offsetguard.model.verdicts import Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store import judge_memory
from offsetguard.store.database import reading, writing
from offsetguard.store.judge_memory import KEPT_FOR
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.judging.records import MINUTE, START, a_group, facts, judge

NOW = datetime(2026, 11, 21, 10, 40, tzinfo=UTC)
DAY = timedelta(days=1)
LOSS = Stated("billing", "orders", Kind.LOSS, NOW, Forecast(3_600_000, 7_200_000, Basis.RESERVED_TIME))
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


def test_a_score_is_counted_once_voids_count_for_no_share_and_both_are_deleted_in_time(engine: Engine) -> None:
    with writing(engine) as session:
        for _ in range(4):
            judge_memory.state_forecast(session, "demo", LOSS)
    with writing(engine) as session:
        assert judge_memory.open_forecasts(session, "other") == {}
        rows = judge_memory.open_forecasts(session, "demo")
        assert list(rows.values()) == [LOSS] * 4
        for row_id, outcome in zip(rows, (Outcome.INSIDE, Outcome.INSIDE, Outcome.LATE, Outcome.VOID), strict=True):
            judge_memory.score_forecast(session, row_id, outcome, now=NOW)
            judge_memory.score_forecast(session, row_id, Outcome.EARLY, now=NOW)
        assert judge_memory.open_forecasts(session, "demo") == {}
    (found,) = judge_memory.coverage(engine, since=NOW - DAY)
    assert (found.inside, found.early, found.late, found.void) == (2, 0, 1, 1)
    assert found.share_inside == 2 / 3
    assert judge_memory.coverage(engine, since=NOW + DAY) == []
    with writing(engine) as session:
        assert judge_memory.delete_forecasts(session, NOW + DAY, NOW - 90 * DAY) == 4
    assert judge_memory.coverage(engine, since=NOW - DAY) == [found], "forecasts go before their scores"
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
            judge_memory.record_marks(session, "demo", at, [look, replace(look, broker_id=1)])
    with writing(engine) as session:
        marks = judge_memory.marks_before(session, "demo", NOW + DAY)
        assert [(mark.at - NOW) // timedelta(minutes=1) for mark in marks] == [0, 40, 100]
        assert marks[0].earliest_message_at == NOW - DAY
        assert judge_memory.marks_before(session, "demo", NOW + timedelta(minutes=40)) == marks[:1]
        assert judge_memory.delete_rhythms(session, NOW + timedelta(minutes=40) + judge_memory.KEPT_FOR) == 1


def test_a_replica_that_did_not_say_is_not_marked(engine: Engine) -> None:
    with writing(engine) as session:
        judge_memory.record_marks(session, "demo", NOW, [replace(BROKER, commit_log_max_offset=None)])
        assert judge_memory.marks_before(session, "demo", NOW + DAY) == ()


def looked(engine: Engine, at: timedelta, online: int | None) -> None:
    judge(engine, facts(at // MINUTE, a_group("batch", 0, online_client_count=online), now=START + at))


def judged(engine: Engine, minutes: range, online: int | None) -> None:
    for minute in minutes:
        looked(engine, minute * MINUTE, online)


def known(engine: Engine, minute: int) -> Absences | None:
    with reading(engine) as session:
        return judge_memory.absences_before(session, "demo", START + minute * MINUTE).get("batch")


def test_absences_of_minutes_are_kept_with_their_lengths_and_restarts_are_not(engine: Engine) -> None:
    judged(engine, range(2), 1)
    assert known(engine, 2) is None
    judged(engine, range(2, 9), 0)
    assert known(engine, 9) == Absences((), timedelta(0), START + 2 * MINUTE)
    judged(engine, range(9, 12), 2)
    judged(engine, range(12, 15), 0)  # a deployment
    judged(engine, range(15, 16), 1)
    assert known(engine, 16) == Absences((START + 2 * MINUTE,), 7 * MINUTE, None, START + 9 * MINUTE)


def test_an_absence_lasts_from_the_look_that_misses_a_group_to_the_look_that_finds_it_again(engine: Engine) -> None:
    gone, back = timedelta(minutes=1, seconds=50), timedelta(minutes=8, seconds=2)
    looked(engine, timedelta(0), 1)
    for minute in range(1, 8):
        looked(engine, minute * MINUTE + timedelta(seconds=50), 0)
    looked(engine, timedelta(minutes=7, seconds=50), 1)  # judged again: nothing changes
    assert known(engine, 8) == Absences((), timedelta(0), START + gone)
    looked(engine, back, 1)
    assert known(engine, 9) == Absences((START + gone,), back - gone, None, START + back)


def test_what_took_less_than_five_minutes_is_no_absence_although_its_minutes_lie_five_apart(engine: Engine) -> None:
    looked(engine, timedelta(0), 1)
    looked(engine, timedelta(minutes=1, seconds=58), 0)
    looked(engine, timedelta(minutes=6), 1)
    assert known(engine, 7) is None


def test_what_is_not_known_is_neither_a_going_nor_a_coming(engine: Engine) -> None:
    judged(engine, range(3), None)
    assert known(engine, 3) is None
    judged(engine, range(3, 4), 0)
    judged(engine, range(4, 9), None)
    assert known(engine, 9) == Absences((), timedelta(0), START + 3 * MINUTE)


def test_a_master_that_was_just_started_shows_nobodys_absence(engine: Engine) -> None:
    """It has forgotten all clients, and learns of each by its next heartbeat."""
    judged(engine, range(2), 1)
    boot_at = START + timedelta(minutes=1, seconds=30)
    for minute, online in ((2, 0), (3, 1)):
        at = START + minute * MINUTE
        batch = a_group("batch", 0, online_client_count=online)
        judge(engine, facts(minute, batch, now=at, brokers=(replace(BROKER, boot_at=boot_at),)))
        assert known(engine, minute + 1) is None
    judge(engine, facts(4, a_group("batch", 0, online_client_count=0), brokers=(replace(BROKER, boot_at=boot_at),)))
    assert known(engine, 9) is not None


class MeanwhileAnotherJudges(tuple[GroupFacts, ...]):
    """Groups of a minute; before they are looked at first, another judge judges the minute before."""

    other: Callable[[], None]

    def __iter__(self) -> Iterator[GroupFacts]:
        other, self.other = self.other, lambda: None
        other()
        return super().__iter__()


def test_two_judges_at_once_begin_an_absence_once(engine: Engine) -> None:
    judged(engine, range(1), 1)
    groups = MeanwhileAnotherJudges([a_group("batch", 0, online_client_count=0)])
    groups.other = lambda: judged(engine, range(1, 2), 0)
    judge(engine, replace(facts(2, now=START + 2 * MINUTE), groups=groups))
    judged(engine, range(3, 9), 0)
    judged(engine, range(9, 10), 1)
    assert known(engine, 10) == Absences((START + MINUTE,), 8 * MINUTE, None, START + 9 * MINUTE)


def test_an_absence_that_goes_on_is_forgotten_once_its_group_is_seen_no_more(engine: Engine) -> None:
    looked(engine, timedelta(0), 1)
    days = [timedelta(days=number, minutes=1) for number in range(judge_memory.KEPT_FOR.days + 5)]
    for at in days:
        looked(engine, at, 0)
    with writing(engine) as session:
        assert judge_memory.delete_rhythms(session, START + days[-1] + MINUTE) == 0, "however long ago it began"
    for at in days:
        minute = (days[-1] + at) // MINUTE
        judge(engine, facts(minute, a_group("other", 0, online_client_count=1), now=START + minute * MINUTE))
    with writing(engine) as session:
        assert judge_memory.delete_rhythms(session, START + 2 * days[-1]) == 1


def test_old_absences_are_forgotten(engine: Engine) -> None:
    judged(engine, range(6), 0)
    judged(engine, range(6, 7), 1)
    assert known(engine, 7) is not None
    later = START + KEPT_FOR + timedelta(minutes=7)
    with reading(engine) as session:
        assert judge_memory.absences_before(session, "demo", later) == {}
    with writing(engine) as session:
        assert judge_memory.delete_rhythms(session, later) == 1
