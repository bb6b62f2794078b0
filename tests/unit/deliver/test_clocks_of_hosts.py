"""Hosts whose clocks are minutes apart, and a database whose clock jumps: nothing is told twice, nothing is lost."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import outbox
from offsetguard.store.database import open_database
from offsetguard.store.models import Mode
from offsetguard_peers.databases import PostgresServer, newest_judged
from offsetguard_peers.delivery.world import DeliveryWorld, delivery_world
from offsetguard_peers.host_clock import HostClock
from offsetguard_peers.hosts import LAGS, begin, end

pytestmark = pytest.mark.slow
RECEIVERS = ("a@example.com", "b@example.com", "c@example.com")
RIGHT, HOUR, CLAIM = timedelta(), timedelta(hours=1), timedelta(minutes=2, seconds=30)


@pytest.fixture
def hosts() -> tuple[HostClock, HostClock]:
    """Two hosts that are ten minutes apart; none of them has the time of the database."""
    return HostClock(timedelta(minutes=-5)), HostClock(timedelta(minutes=5))


@pytest.mark.postgres
def test_deliverers_on_hosts_that_are_minutes_apart_send_each_message_once(
    postgres_engine: Engine, hosts: tuple[HostClock, HostClock]
) -> None:
    with delivery_world(postgres_engine) as world:
        for number in range(20):
            for receiver in RECEIVERS:
                world.put(f"{number} {receiver}", receiver)
        end(*(begin(clock, "deliver", world.addresses) for clock in hosts))
        assert Counter(world.accepted()) == dict.fromkeys(RECEIVERS, 20)


@pytest.mark.postgres
def test_judges_of_the_same_minutes_on_hosts_that_are_minutes_apart_tell_once(
    postgres_engine: Engine, hosts: tuple[HostClock, HostClock]
) -> None:
    first = Interval.containing(datetime.now(UTC) - (len(LAGS) + 1) * timedelta(minutes=1))
    url = postgres_engine.url.render_as_string(hide_password=False)
    end(*(begin(clock, "judge", url, first.start.isoformat()) for clock in hosts))
    told = sorted(one.view.reason for one in outbox.messages(postgres_engine))
    assert told == ["all_resolved", "first"]
    assert [one.mode for one in newest_judged(postgres_engine)] == [Mode.LIVE] * len(LAGS)


@pytest.fixture
def postgres_engine(postgresql: PostgresServer, migrated_template: str) -> Iterator[Engine]:
    """Open a fresh database of a server whose clock is right."""
    engine = open_database(postgresql.url(postgresql.new_database(template=migrated_template)))
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> HostClock:
    """One host, of the database and of all who use it."""
    return HostClock()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def world(request: pytest.FixtureRequest, clock: HostClock, tmp_path: Path) -> Iterator[DeliveryWorld]:
    """Open a world whose database is on that host."""
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
        if request.param == "postgresql":
            server = stack.enter_context(PostgresServer(environment=clock.environment))
            url = server.url(server.new_database())
        engine = open_database(url)
        stack.callback(engine.dispose)
        yield stack.enter_context(delivery_world(engine))


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])
def test_a_message_is_sent_once_and_in_time_when_the_clock_jumps_while_a_dead_deliverer_holds_it(
    world: DeliveryWorld, clock: HostClock, jump: timedelta
) -> None:
    world.put("held", "a@example.com", now=datetime.now(UTC))
    end(begin(clock, "claim", world.addresses, "a@example.com"))
    world.put("new", "b@example.com", now=datetime.now(UTC))
    for now in (jump, jump + CLAIM, RIGHT + CLAIM):
        clock.jump_to(now)
        end(begin(clock, "deliver", world.addresses))
        assert "b@example.com" in world.accepted(), "nobody held it"
    assert world.accepted() == ["a@example.com", "b@example.com"]
