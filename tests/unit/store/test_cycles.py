"""A cycle comes back from the database as it went in, whether it published or failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.cycles import Cycle
from offsetguard.store.database import writing

START = datetime(2026, 11, 21, 10, 40, 3, tzinfo=UTC)
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
PUBLISHED = Cycle(
    cluster="demo",
    interval=INTERVAL,
    run_id="20261121T103900Z_0123456789ab",
    started_at=START,
    finished_at=START + timedelta(milliseconds=2_750),
    verdict="published",
    seconds={"landed": 0.01, "session": 0.0, "write": 1.25},
    rows={"queue_snapshots": 2_000, "queue_facts": 3},
    files={"queue_snapshots": 17},
    violations={"OG-Q01": 2},
    duplicates=0,
    quarantined=4,
)
FAILED = Cycle(
    cluster="demo",
    interval=INTERVAL,
    run_id="20261121T103900Z_fedcba987654",
    started_at=START - timedelta(minutes=1),
    finished_at=START,
    verdict=None,
    error="queue_snapshots.parquet: cannot be read as Parquet",
    failed_step="landed",
)


def test_cycles_come_back_as_they_went_in_the_last_one_first(engine: Engine) -> None:
    for cycle in (PUBLISHED, FAILED):
        cycles.record(engine, cycle)
    assert cycles.newest(engine) == [PUBLISHED, FAILED]
    assert (PUBLISHED.duration_s, PUBLISHED.failed, FAILED.failed) == (2.75, False, True)


def test_cycles_can_be_asked_for_by_cluster_by_interval_and_by_failure(engine: Engine) -> None:
    elsewhere = replace(PUBLISHED, cluster="other")
    later = replace(PUBLISHED, interval=Interval(INTERVAL.end))
    for cycle in (PUBLISHED, FAILED, elsewhere, later):
        cycles.record(engine, cycle)
    assert cycles.newest(engine, cluster="other") == [elsewhere]
    assert cycles.newest(engine, interval=later.interval) == [later]
    assert cycles.newest(engine, failed=True) == [FAILED]
    assert len(cycles.newest(engine, limit=2)) == 2


def test_the_same_run_has_one_row_and_a_long_error_is_cut(engine: Engine) -> None:
    cycles.record(engine, FAILED)
    cycles.record(engine, replace(FAILED, error="x" * 5_000))
    [row] = cycles.newest(engine)
    assert row.error == "x" * 2_000


def test_old_cycles_are_deleted_and_counted(engine: Engine) -> None:
    for cycle in (PUBLISHED, FAILED):
        cycles.record(engine, cycle)
    with writing(engine) as session:
        assert cycles.delete_older(session, START) == 1
    assert cycles.newest(engine) == [PUBLISHED]
