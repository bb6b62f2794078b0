"""`offsetguard health` gives the verdict of the heartbeat to people, to cron and to other monitoring."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import judged_intervals
from offsetguard.store.database import writing
from offsetguard.store.models import JudgedIntervalRow, Mode
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.configs import one_team_text


@pytest.fixture(autouse=True)
def config(folder: Path) -> None:
    """Let one cluster be configured."""
    (folder / "offsetguard.yml").write_text(one_team_text(main="127.0.0.1:9876"))


def test_a_cluster_that_nobody_judges_is_told_with_exit_code_1(database: Engine) -> None:
    assert run("health", "--format", "table").output == "nothing of cluster main was judged so far\n"
    assert run("health").exit_code == 1


def test_of_a_database_that_cannot_be_read_nothing_is_said_but_that() -> None:
    found = run("health", "--format", "table")
    assert found.exit_code == 1
    assert [line.partition(".db ")[2] or line for line in found.output.splitlines()] == [
        "does not exist: nothing was collected here yet, or OFFSETGUARD_HOME (or OFFSETGUARD_DATABASE_URL) is another "
        "one where Airflow runs",
    ]
    (verdict,) = json_lines(run("health", "--format", "json"))
    assert (verdict["healthy"], verdict["judged_until"], verdict["waiting_count"]) == (False, None, None)


@pytest.mark.parametrize(("days_ago", "troubles"), [(0, []), (1, ["main"])])
def test_a_cluster_is_well_when_it_was_judged_lately(database: Engine, days_ago: int, troubles: list[str]) -> None:
    ended = datetime.now(UTC) - timedelta(days=days_ago)
    interval = Interval.containing(ended)
    with writing(database) as session:
        judged_intervals.record(session, JudgedIntervalRow("main", interval.start, ended, Mode.LIVE, 0, 0, 0, 0))
    found = run("health", "--format", "json")
    (verdict,) = json_lines(found)
    assert found.exit_code == len(troubles)
    assert (verdict["healthy"], verdict["waiting_count"], verdict["failed_count"]) == (not troubles, 0, 0)
    assert [one["cluster"] for one in verdict["troubles"]] == troubles
    assert (verdict["judged_until"], verdict["published_until"]) == ({"main": interval.end.isoformat()}, {"main": None})


@pytest.mark.parametrize("command", [("health",), ("incidents", "list"), ("cycles",), ("outbox", "list")])
def test_a_damaged_database_is_one_line_that_says_what_to_do(database: Engine, command: tuple[str, ...]) -> None:
    file = Path(database.url.database or "")
    database.dispose()
    file.write_bytes(file.read_bytes()[: 5 * 4096])
    found = subprocess.run(
        [sys.executable, "-m", "offsetguard.cli.main", *command, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == (1 if command == ("health",) else 2)
    assert f"{file}: database disk image is malformed; it is damaged: " in found.stdout + found.stderr
    assert "Traceback" not in found.stderr
