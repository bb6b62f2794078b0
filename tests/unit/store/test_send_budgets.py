"""A receiver that takes so many messages a minute is never sent more, by however many deliverers."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from offsetguard.store.notifications import take_one, wait_for_one
from offsetguard.store.outbox import Lane
from offsetguard_peers.robots.server import Limit

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
LANE = Lane("wecom", "night")
LIMITS = [(20, [(20, 60)]), (100, [(100, 60), (5, 1)])]


@pytest.mark.parametrize(("per_minute", "limits"), LIMITS)
def test_a_storm_goes_out_without_one_refusal(engine: Engine, per_minute: int, limits: list[tuple[int, float]]) -> None:
    strict = [Limit(most, window_s) for most, window_s in limits]
    now, count = NOW, 0
    while now < NOW + timedelta(minutes=4):
        now += wait_for_one(engine, LANE, per_minute=per_minute, now=now) + timedelta(milliseconds=20)
        take_one(engine, LANE, per_minute=per_minute, now=now)
        assert all([limit.passes(now.timestamp()) for limit in strict])  # noqa: C419 each counts it
        count += 1
    assert count > 4 * per_minute * 0.7, "it is not slower than it has to be"


def test_two_that_take_one_at_once_wait_longer_for_the_next(engine: Engine) -> None:
    for _ in range(4):
        take_one(engine, LANE, per_minute=20, now=NOW)
    assert wait_for_one(engine, LANE, per_minute=20, now=NOW) == timedelta(seconds=8)
    assert wait_for_one(engine, Lane("wecom", "other"), per_minute=20, now=NOW) == timedelta(0)


def test_a_clock_that_was_put_back_holds_nothing_up_for_longer(engine: Engine) -> None:
    for _ in range(3):
        take_one(engine, LANE, per_minute=20, now=NOW + timedelta(hours=1))
    assert wait_for_one(engine, LANE, per_minute=20, now=NOW) == timedelta(seconds=4)
