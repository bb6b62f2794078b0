"""Published intervals are visible at once, replaced by a rerun, and settled once they are old."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import reading, writing
from offsetguard.store.published_intervals import RETENTION_PASSED, PublishedInterval, SettledSnapshots

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)


INTERVALS = [Interval(START + number * timedelta(minutes=1)) for number in range(4)]
FIRST, SECOND, THIRD, NEWEST = INTERVALS


def publish(
    engine: Engine, interval: Interval, run_id: str = "run", cluster: str = "demo", **snapshot_ids: int
) -> PublishedInterval:
    published_at = START + timedelta(seconds=70, microseconds=123)
    published = PublishedInterval(cluster, interval, run_id, published_at, "passed", snapshot_ids, "{}")
    published_intervals.record(engine, published)
    return published


@pytest.fixture(autouse=True)
def shown(engine: Engine) -> None:
    for number, interval in enumerate(INTERVALS):
        publish(engine, interval, f"run-{number}", queue_facts=10 + number, queue_snapshots=20 + number)


def test_what_was_recorded_is_read_back_with_its_zone_and_64_bit_snapshot_ids_and_a_rerun_replaces_it(
    engine: Engine,
) -> None:
    for run_id, snapshot_id in (("run 1", 9_113_372_036_854_775_807), ("run 2", 2)):
        published = publish(engine, FIRST, run_id, queue_facts=snapshot_id)
        assert published_intervals.get(engine, "demo", FIRST) == published


def test_the_newest_is_the_newest_interval_of_that_cluster_even_when_an_older_one_is_published_later(
    engine: Engine,
) -> None:
    publish(engine, FIRST)
    publish(engine, Interval(NEWEST.end), cluster="other")
    newest = published_intervals.newest(engine, "demo")
    assert newest is not None
    assert newest.interval == NEWEST


def test_an_interval_that_nobody_published_is_none(engine: Engine) -> None:
    assert published_intervals.get(engine, "other", FIRST) is None
    assert published_intervals.newest(engine, "other") is None


def ids(engine: Engine, interval: Interval) -> dict[str, int]:
    found = published_intervals.get(engine, "demo", interval)
    assert found is not None
    return found.snapshot_ids


def settle(engine: Engine, snapshot_id: int, *, never_shown: Interval | None = None, kept: Interval = FIRST) -> int:
    snapshots = SettledSnapshots(
        {"queue_facts": snapshot_id, "queue_snapshots": snapshot_id, "new_table": snapshot_id},
        {"queue_snapshots": kept.start},
        START,
    )
    with writing(engine) as session:
        keys = [] if never_shown is None else [("demo", never_shown.start)]
        return published_intervals.settle(session, snapshots, keys)


def test_published_intervals_move_to_the_settled_snapshots_and_move_on_with_them(engine: Engine) -> None:
    assert settle(engine, 100) == 3
    assert {ids(engine, interval)["queue_facts"] for interval in (FIRST, SECOND, THIRD)} == {100}
    assert settle(engine, 101) == 0
    assert ids(engine, FIRST) == {"queue_facts": 101, "queue_snapshots": 101}, "no table that it was published without"


def test_the_newest_interval_of_a_cluster_keeps_its_own_until_there_is_a_newer_one(engine: Engine) -> None:
    settle(engine, 100)
    assert ids(engine, NEWEST)["queue_facts"] == 13
    publish(engine, Interval(NEWEST.end), run_id="next", queue_facts=14)
    assert settle(engine, 101) == 1
    assert ids(engine, NEWEST)["queue_facts"] == 101


def test_an_interval_whose_rows_were_never_shown_keeps_what_it_was_published_with(engine: Engine) -> None:
    assert settle(engine, 100, never_shown=SECOND) == 2
    assert ids(engine, SECOND) == {"queue_facts": 11, "queue_snapshots": 21}
    with reading(engine) as session:
        assert published_intervals.ids_of_the_others(session) == {"queue_facts": {11, 13}, "queue_snapshots": {21, 23}}


def test_a_settled_interval_that_a_killed_run_touched_stays_on_the_snapshots_of_before(engine: Engine) -> None:
    settle(engine, 100)
    settle(engine, 101, never_shown=SECOND)
    assert ids(engine, SECOND)["queue_facts"] == 100
    assert ids(engine, FIRST)["queue_facts"] == 101
    settle(engine, 102, never_shown=SECOND)
    assert ids(engine, SECOND)["queue_facts"] == 100


def test_publishing_again_shows_the_new_snapshots_until_they_are_settled(engine: Engine) -> None:
    settle(engine, 100)
    publish(engine, SECOND, run_id="again", queue_facts=150, queue_snapshots=151)
    assert ids(engine, SECOND) == {"queue_facts": 150, "queue_snapshots": 151}
    assert settle(engine, 200) == 1
    assert ids(engine, SECOND)["queue_facts"] == 200


def test_rows_that_retention_deleted_are_marked_as_such(engine: Engine) -> None:
    settle(engine, 100, kept=SECOND)
    assert ids(engine, FIRST) == {"queue_facts": 100, "queue_snapshots": RETENTION_PASSED}
    assert ids(engine, SECOND) == {"queue_facts": 100, "queue_snapshots": 100}


def test_the_newest_interval_and_the_shown_runs_are_found_as_before(engine: Engine) -> None:
    settle(engine, 100)
    newest = published_intervals.newest(engine, "demo")
    assert newest is not None
    assert (newest.interval, newest.snapshot_ids["queue_facts"]) == (NEWEST, 13)
    with reading(engine) as session:
        assert published_intervals.shown_runs(session)["demo", SECOND.start] == "run-1"


def test_intervals_past_every_retention_are_forgotten(engine: Engine) -> None:
    with writing(engine) as session:
        assert published_intervals.delete_older(session, THIRD.start) == 2
    assert published_intervals.get(engine, "demo", FIRST) is None
    assert published_intervals.get(engine, "demo", THIRD) is not None
