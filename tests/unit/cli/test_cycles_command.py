"""`offsetguard cycles`: an operator sees what each cycle did, and why some published nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from offsetguard.cli.main import offsetguard
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.cycles import Cycle
from offsetguard_peers.databases import fresh_database

START = datetime(2026, 11, 21, 10, 40, 3, tzinfo=UTC)
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One cycle published, and one failed with a reason that would clear a terminal."""
    url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
    engine = fresh_database(url)
    cycles.record(
        engine,
        Cycle(
            "demo",
            INTERVAL,
            "run-1",
            START,
            START + timedelta(seconds=2.5),
            "published",
            seconds={"write": 1.25, "show": 0.0},
            rows={"queue_snapshots": 2_000},
            files={"queue_snapshots": 17},
            violations={"OG-Q01": 2},
            duplicates=0,
            quarantined=4,
        ),
    )
    cycles.record(
        engine,
        Cycle(
            "demo",
            INTERVAL,
            "run-0",
            START - timedelta(seconds=9),
            START,
            None,
            error="no space left \x1b[2J on device",
            failed_step="write",
        ),
    )
    engine.dispose()
    return url


def run(database_url: str, *arguments: str) -> list[str]:
    environment = {"OFFSETGUARD_DATABASE_URL": database_url}
    answer = CliRunner().invoke(offsetguard, ["cycles", *arguments], env=environment)
    assert answer.exit_code == 0, answer.output
    return answer.output.splitlines()


def test_each_line_of_json_is_a_cycle_and_what_is_not_known_is_null(database_url: str) -> None:
    published, failed = (json.loads(line) for line in run(database_url, "--format", "json"))
    assert (published["duration_s"], published["rows"], published["files"]) == (
        2.5,
        {"queue_snapshots": 2_000},
        {"queue_snapshots": 17},
    )
    assert (failed["verdict"], failed["failed_step"], failed["quarantined"]) == (None, "write", None)


def test_the_table_says_what_became_of_each_and_steers_no_terminal(database_url: str) -> None:
    heading, published, failed = run(database_url, "--format", "table")
    assert heading.split()[:3] == ["interval", "seconds", "rows"]
    assert published.endswith("2.5       2,000          2           4  demo: published")
    assert "demo: failed at write: no space left" in failed
    assert "\x1b" not in failed


def test_details_say_which_step_took_how_long(database_url: str) -> None:
    lines = run(database_url, "--format", "table", "--details", "--limit", "1")
    assert "    seconds  write 1.25" in lines
    assert "    files    queue_snapshots 17" in lines


def test_failures_can_be_asked_for_and_their_absence_is_said(database_url: str) -> None:
    assert len(run(database_url, "--failed", "--format", "table")) == 2
    assert run(database_url, "--failed", "--cluster", "other", "--format", "table") == ["No cycle failed."]
