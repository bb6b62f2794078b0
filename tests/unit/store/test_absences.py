"""Who comes and goes is learned from what is judged, minute by minute."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Engine

from offsetguard.model.fact_records import Absences
from offsetguard.store import judge_memory
from offsetguard.store.database import reading, writing
from offsetguard.store.judge_memory import KEPT_FOR
from offsetguard_peers.judging.records import MINUTE, START, a_group, facts, judge


def judged(engine: Engine, minutes: range, online: int | None) -> None:
    for minute in minutes:
        judge(engine, facts(minute, a_group("batch", 0, online_client_count=online)))


def known(engine: Engine, minute: int) -> Absences | None:
    with reading(engine) as session:
        return judge_memory.absences_before(session, "demo", START + minute * MINUTE).get("batch")


def test_absences_of_minutes_are_kept_with_their_lengths_and_restarts_are_not(engine: Engine) -> None:
    judged(engine, range(2), 1)
    assert known(engine, 2) is None
    judged(engine, range(2, 9), 0)
    before = known(engine, 9)
    assert before is not None
    assert (before.began_at, before.away_since) == ((), START + 2 * MINUTE)
    judged(engine, range(9, 12), 2)
    judged(engine, range(12, 15), 0)  # a deployment
    judged(engine, range(15, 16), 1)
    after = known(engine, 16)
    assert after is not None
    assert (after.began_at, after.longest, after.away_since) == ((START + 2 * MINUTE,), 7 * MINUTE, None)


def test_what_is_not_known_is_neither_a_going_nor_a_coming(engine: Engine) -> None:
    judged(engine, range(3), None)
    assert known(engine, 3) is None
    judged(engine, range(3, 4), 0)
    judged(engine, range(4, 9), None)
    found = known(engine, 9)
    assert found is not None
    assert (found.began_at, found.away_since) == ((), START + 3 * MINUTE)


def test_old_absences_are_forgotten(engine: Engine) -> None:
    judged(engine, range(6), 0)
    judged(engine, range(6, 7), 1)
    assert known(engine, 7) is not None
    later = START + KEPT_FOR + timedelta(minutes=7)
    with reading(engine) as session:
        assert judge_memory.absences_before(session, "demo", later) == {}
    with writing(engine) as session:
        assert judge_memory.delete_rhythms(session, later) == 1
