"""Published intervals are visible at once, replaced by a rerun, and found by cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)


def published(cluster: str = "orders", minute: int = 0, **changed: object) -> PublishedInterval:
    fields = {
        "cluster": cluster,
        "interval": Interval(START + timedelta(minutes=minute)),
        "run_id": "run 1",
        "published_at": START + timedelta(minutes=minute, seconds=70, microseconds=123),
        "verdict": "passed",
        "snapshot_ids": {"queue_facts": 9_113_372_036_854_775_807},
        "manifest_json": "{}",
        **changed,
    }
    return PublishedInterval(**fields)  # type: ignore[arg-type]


def test_what_was_recorded_is_read_back_with_its_zone_and_64_bit_snapshot_ids(engine: Engine) -> None:
    published_intervals.record(engine, published())
    assert published_intervals.get(engine, "orders", Interval(START)) == published()


def test_a_rerun_replaces_what_it_published_before(engine: Engine) -> None:
    published_intervals.record(engine, published())
    published_intervals.record(engine, published(run_id="run 2", snapshot_ids={"queue_facts": 2}))
    found = published_intervals.get(engine, "orders", Interval(START))
    assert found is not None
    assert (found.run_id, found.snapshot_ids) == ("run 2", {"queue_facts": 2})


def test_the_newest_is_the_newest_interval_of_that_cluster_even_when_an_older_one_is_published_later(
    engine: Engine,
) -> None:
    for minute in (1, 2, 0):
        published_intervals.record(engine, published(minute=minute))
    published_intervals.record(engine, published(cluster="billing", minute=5))
    newest = published_intervals.newest(engine, "orders")
    assert newest is not None
    assert newest.interval.start == START + timedelta(minutes=2)


def test_an_interval_that_nobody_published_is_none(engine: Engine) -> None:
    assert published_intervals.get(engine, "orders", Interval(START)) is None
    assert published_intervals.newest(engine, "orders") is None
