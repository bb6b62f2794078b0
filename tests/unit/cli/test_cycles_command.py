"""`offsetguard cycles`: an operator sees what each cycle did, and why some published nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.locks import PUBLICATION, hold
from offsetguard.store.models import CycleRow
from offsetguard_peers.command_line import json_lines, run

START = datetime(2026, 11, 21, 10, 40, 3, tzinfo=UTC)
STARTED = CycleRow("demo", Interval.containing(START).start, "run-0", START, START + timedelta(seconds=2.5), None)


@pytest.fixture(autouse=True)
def recorded(database: Engine) -> None:
    """One cycle failed with a reason that would clear a terminal, and the next one published."""
    earlier = START - timedelta(seconds=9)
    failed = replace(STARTED, started_at=earlier, error="no space left \x1b[2J on device", failed_step="write")
    published = replace(
        STARTED,
        run_id="run-1",
        verdict="published",
        seconds={"write": 1.25, "show": 0.0},
        rows={"queue_snapshots": 2_000},
        files={"queue_snapshots": 17},
        violations={"OG-Q01": 2},
        duplicates=0,
        quarantined=4,
    )
    for cycle in (failed, published):
        cycles.record(database, cycle)


def table(*arguments: str) -> list[str]:
    return run("cycles", "--format", "table", *arguments).stdout.splitlines()


def test_each_line_of_json_is_a_cycle_and_what_is_not_known_is_null() -> None:
    published, failed = json_lines(run("cycles", "--format", "json"))
    assert published == {
        "cluster": "demo",
        "interval_start": "2026-11-21T10:40:00+00:00",
        "run_id": "run-1",
        "started_at": START.isoformat(),
        "duration_s": 2.5,
        "verdict": "published",
        "running": False,
        "failed_step": None,
        "error": None,
        "seconds": {"write": 1.25, "show": 0.0},
        "rows": {"queue_snapshots": 2_000},
        "files": {"queue_snapshots": 17},
        "violations": {"OG-Q01": 2},
        "duplicates": 0,
        "quarantined": 4,
    }
    assert (failed["verdict"], failed["failed_step"], failed["quarantined"]) == (None, "write", None)


def test_the_table_says_what_became_of_each_and_steers_no_terminal() -> None:
    heading, published, failed = table()
    assert heading.split()[:3] == ["interval", "seconds", "rows"]
    assert published.endswith("2.5       2,000          2           4  demo: published")
    assert "demo: failed at write: no space left" in failed
    assert "\x1b" not in failed


def test_one_that_is_at_work_has_not_failed_and_one_that_was_killed_has(database: Engine) -> None:
    later = replace(STARTED, run_id="run-2", started_at=START + timedelta(minutes=1), failed_step="write")
    with hold(database, PUBLICATION, print) as lock:
        cycles.record(database, replace(later, running_under=lock.token))
        assert table("--limit", "1")[1].endswith("demo: at work: write")
        assert len(table("--failed")) == 2
        assert json_lines(run("cycles", "--format", "json", "--limit", "1"))[0]["running"] is True
    assert f"demo: failed at write: {cycles.KILLED}" in table("--failed")[1]


def test_details_say_which_step_took_how_long() -> None:
    assert {"    seconds  write 1.25", "    files    queue_snapshots 17"} < set(table("--details", "--limit", "1"))


def test_failures_can_be_asked_for_and_their_absence_is_said() -> None:
    assert len(table("--failed")) == 2
    assert table("--failed", "--cluster", "other") == ["No cycle failed."]
