"""`offsetguard health` gives the verdict of the heartbeat to people, to cron and to other monitoring."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.model.intervals import Interval
from offsetguard.store import judged_intervals
from offsetguard.store.database import open_database, writing
from offsetguard.store.judged_intervals import JudgedInterval
from offsetguard.store.models import Mode
from offsetguard_peers.demo.groups import ONE_TEAM


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Hold a configuration and an empty database."""
    file = tmp_path / "offsetguard.yml"
    file.write_text(ONE_TEAM)
    return {"OFFSETGUARD_CONFIG": str(file), "OFFSETGUARD_DATABASE_URL": f"sqlite:///{tmp_path / 'offsetguard.db'}"}


def run(environment: dict[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(offsetguard, ["health", *arguments], env=environment)


def judge(environment: dict[str, str], ended: datetime) -> None:
    engine = open_database(environment["OFFSETGUARD_DATABASE_URL"])
    interval = Interval.containing(ended)
    with writing(engine) as session:
        judged_intervals.record(session, JudgedInterval("main", interval, ended, Mode.LIVE, 0, 0, 0, 0))
    engine.dispose()


def test_a_cluster_that_nobody_judges_is_told_with_exit_code_1(environment: dict[str, str]) -> None:
    found = run(environment, "--format", "table")
    assert (found.exit_code, found.output) == (1, "nothing of cluster main was judged so far\n")


def test_a_cluster_that_is_judged_is_well(environment: dict[str, str]) -> None:
    judge(environment, datetime.now(UTC))
    found = run(environment, "--format", "json")
    verdict = json.loads(found.output)
    assert found.exit_code == 0
    assert (verdict["healthy"], verdict["troubles"], verdict["waiting_count"]) == (True, [], 0)
    assert list(verdict["judged_until"]) == ["main"]


def test_a_cluster_that_was_judged_long_ago_is_not(environment: dict[str, str]) -> None:
    judge(environment, datetime.now(UTC) - timedelta(days=1))
    verdict = json.loads(run(environment, "--format", "json").output)
    assert not verdict["healthy"]
    assert verdict["troubles"][0]["cluster"] == "main"
