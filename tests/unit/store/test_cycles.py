"""A cycle comes back from the database as it went in, whether it published or failed."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.database import writing
from offsetguard.store.locks import PUBLICATION, hold
from offsetguard.store.models import CycleRow

START = datetime(2026, 11, 21, 10, 40, 3, tzinfo=UTC)
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
PUBLISHED = CycleRow(
    cluster="demo",
    interval_start=INTERVAL.start,
    run_id="run 2",
    started_at=START,
    finished_at=START + timedelta(milliseconds=2_750),
    verdict="published",
    seconds={"landed": 0.01, "session": 0.0, "write": 1.25},
    rows={"queue_snapshots": 2_000, "queue_facts": 3},
    quarantined=4,
)
EARLIER = START - timedelta(minutes=1)
FAILED = CycleRow(
    "demo", INTERVAL.start, "run 1", EARLIER, START, verdict=None, error="no Parquet", failed_step="landed"
)

PUBLISH_FOR_EVER = """\
import sys, time
from datetime import UTC, datetime
from offsetguard.store import cycles
from offsetguard.store.database import open_database
from offsetguard.store.locks import PUBLICATION, hold
from offsetguard.store.models import CycleRow
engine, at = open_database(sys.argv[1]), datetime(2026, 11, 21, 10, 42, tzinfo=UTC)
with hold(engine, PUBLICATION, print) as lock:
    cycles.begin(engine, CycleRow("demo", at, "killed", at, at, None, running_under=lock.token))
    cycles.reach(engine, CycleRow("demo", at, "killed", at, at, None, failed_step="write", running_under=lock.token))
    print("at work", flush=True)
    time.sleep(3600)
"""


def test_cycles_come_back_as_they_went_in_the_last_one_first_and_can_be_asked_for(engine: Engine) -> None:
    elsewhere = replace(PUBLISHED, cluster="other", started_at=START + timedelta(minutes=1))
    later = replace(PUBLISHED, interval_start=INTERVAL.end, started_at=START + timedelta(minutes=2))
    for cycle in (PUBLISHED, FAILED, elsewhere, later):
        cycles.record(engine, cycle)
    assert cycles.newest(engine) == [later, elsewhere, PUBLISHED, FAILED]
    assert cycles.newest(engine, limit=2) == [later, elsewhere]
    assert cycles.newest(engine, cluster="other") == [elsewhere]
    assert cycles.newest(engine, interval=later.interval) == [later]
    assert cycles.newest(engine, failed=True) == [FAILED]


def test_of_a_thousand_clusters_all_cycles_are_read_where_nobody_sets_a_limit(engine: Engine) -> None:
    with writing(engine) as session:
        session.add_all(replace(PUBLISHED, cluster=f"c{number}") for number in range(1_000))
    assert len(cycles.newest(engine, interval=INTERVAL, since=START)) == 1_000


def test_a_step_is_reached_by_all_of_a_run_that_has_not_ended(engine: Engine) -> None:
    running = [
        replace(PUBLISHED, interval_start=START + timedelta(minutes=number), verdict=None, running_under="lock")
        for number in range(3)
    ]
    stopped = replace(running[0], failed_step="gate", running_under=None, error="no")
    cycles.begin(engine, *map(replace, running))
    cycles.record(engine, replace(stopped), replace(FAILED))
    now = START + timedelta(seconds=9)
    at_work = [replace(one, failed_step="forward", finished_at=now, seconds={"gate": 1.5}) for one in running[1:]]
    cycles.reach(engine, *map(replace, at_work))
    assert sorted(cycles.newest(engine), key=lambda one: one.interval_start) == sorted(
        [FAILED, *(replace(one, running_under=None, error=cycles.KILLED) for one in at_work), stopped],
        key=lambda one: one.interval_start,
    )


def test_the_same_run_has_one_row_and_old_cycles_are_deleted(engine: Engine) -> None:
    for cycle in (PUBLISHED, FAILED, replace(FAILED, error="disk full")):
        cycles.record(engine, cycle)
    assert cycles.newest(engine) == [PUBLISHED, replace(FAILED, error="disk full")]
    with writing(engine) as session:
        assert cycles.delete_older(session, START) == 1
    assert cycles.newest(engine) == [PUBLISHED]


def test_a_publication_that_is_killed_has_failed_at_its_step_to_all_that_read_and_the_next_one_writes_it_down(
    engine: Engine,
) -> None:
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", PUBLISH_FOR_EVER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as publisher:
        assert publisher.stdout is not None
        assert publisher.stdout.readline() == "at work\n"
        (cycle,) = cycles.newest(engine)
        assert (cycle.failed, cycle.failed_step, cycle.error) == (False, "write", None), "it is at work"
        assert cycles.newest(engine, failed=True) == []
        publisher.kill()
    (killed,) = cycles.newest(engine, failed=True)
    assert (killed.failed, killed.failed_step, killed.error) == (True, "write", cycles.KILLED)
    with hold(engine, PUBLICATION, print) as lock:
        at_work = replace(PUBLISHED, verdict=None, started_at=START - timedelta(days=1), running_under=lock.token)
        cycles.begin(engine, at_work)
        assert cycles.newest(engine) == [killed, at_work]
        assert cycles.newest(engine, failed=True) == [killed]


def test_a_cycle_that_had_nothing_to_do_leaves_no_row(engine: Engine) -> None:
    for cycle in (PUBLISHED, FAILED):
        cycles.record(engine, cycle)
    cycles.forget(engine, FAILED)
    assert cycles.newest(engine) == [PUBLISHED]
