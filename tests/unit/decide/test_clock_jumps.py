"""The clock jumps by an hour, in either direction, while silences, acknowledgements and quiet hours hold."""

from datetime import timedelta
from itertools import chain

import pytest
from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.model.notification import Matchers, Silence
from offsetguard.model.views import NotificationReason
from offsetguard.store import silences
from offsetguard.store.database import reading, writing
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import MINUTE, START, config, facts, group, judge

RIGHT, HOUR = timedelta(), timedelta(hours=1)
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])


def reasons(
    engine: Engine, minute: int, lag: int, clock: timedelta, given: Config | None = None
) -> list[NotificationReason]:
    """Judge a minute by a clock that is so far ahead; returns why people are told."""
    report = judge(engine, facts(minute, group("somebody", lag)), late=10 * MINUTE / 60 + clock, config=given)
    return [one.view.reason for one in report.messages]


def silenced_for_two_hours(engine: Engine) -> int:
    with writing(engine) as session:
        added = silences.add(session, Silence(Matchers(cluster="*"), "li", "why", START, START + 2 * HOUR, START))
    assert added.id is not None
    return added.id


@JUMPS
def test_a_silence_goes_on_and_what_it_muted_is_told_once_after_it(engine: Engine, jump: timedelta) -> None:
    silenced_for_two_hours(engine)
    minutes = ((0, RIGHT), (1, jump), (2, jump), (3, RIGHT), (121, RIGHT), (122, jump), (123, RIGHT))
    told = [reasons(engine, minute, 20_000, clock) for minute, clock in minutes]
    assert told == [[], [], [], [], [NotificationReason.FIRST], [], []]


def test_a_silence_that_somebody_ended_stays_so_when_the_clock_is_put_back(engine: Engine) -> None:
    number = silenced_for_two_hours(engine)
    with writing(engine) as session:
        assert silences.expire(session, number, now=START + 30 * MINUTE)
    with reading(engine) as session:
        assert silences.active(session, START + 10 * MINUTE) == []


def test_who_acknowledges_after_the_clock_was_put_back_is_told_no_more(engine: Engine) -> None:
    often = config(repeat_interval_ms=60_000)
    assert reasons(engine, 0, 20_000, RIGHT, often) == [NotificationReason.FIRST]
    (incident,) = newest_incidents(engine)
    with writing(engine) as session:
        silences.acknowledge(session, incident, author="li", comment="", now=START - HOUR)
    assert [reasons(engine, minute, 20_000, clock, often) for minute, clock in ((1, -HOUR), (2, RIGHT))] == [[], []]


@JUMPS
def test_what_waits_for_the_end_of_quiet_hours_is_told_once_and_so_is_its_end(engine: Engine, jump: timedelta) -> None:
    hours = {"from": "10:00", "to": "11:00", "severity_below": "critical"}
    quiet = Config.model_validate({**config().model_dump(exclude_unset=True), "routes": [{"quiet_hours": [hours]}]})
    minutes = [(minute, 20_000) for minute in (0, 1, 2, 3, 30, 31)] + [(minute, 0) for minute in (32, 33, 34)]
    clocks = {1: jump, 2: jump, 31: jump, 32: jump}  # minute 30 is after 11:00
    told = [reasons(engine, minute, lag, clocks.get(minute, RIGHT), quiet) for minute, lag in minutes]
    assert [*chain(*told)] == [NotificationReason.FIRST, NotificationReason.ALL_RESOLVED]


def test_minutes_of_a_scheduler_that_is_ahead_are_told_once_also_when_they_are_judged_twice(engine: Engine) -> None:
    """It makes the run of a minute before that has come by the database's clock."""
    minutes = [(minute, 20_000 if minute < 3 else 0) for minute in range(7) for _ in range(2)]
    told = [reasons(engine, minute, lag, -6 * MINUTE) for minute, lag in minutes]
    assert [*chain(*told)] == [NotificationReason.FIRST, NotificationReason.ALL_RESOLVED]
