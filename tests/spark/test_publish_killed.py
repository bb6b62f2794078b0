"""A driver killed with SIGKILL leaves readers on the last good state, and the rerun repairs what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from offsetguard.collect.manifest import Manifest
from offsetguard.intervals import Interval
from offsetguard.published_facts import load_table, open_catalog, read_interval_facts
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard.tables import PUBLISHED
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish import Publisher

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from offsetguard.facts import IntervalFacts
    from offsetguard.workspace import Workspace

JOB = Path(__file__).parents[2] / "spark" / "jobs" / "publish_interval.py"
NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
CONFIG = """\
clusters:
  demo:
    name_servers: ["127.0.0.1:9876"]
teams:
  ops:
    mail: ["ops@example.org"]
default_team: ops
"""


def _kill_at(step: str, workspace: Workspace, interval: Interval) -> None:
    """Run the real job, and kill it and its JVM at the moment when it announces a step."""
    command, environment = _job(workspace, interval)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        assert job.stdout is not None
        lines = []
        for line in job.stdout:
            lines.append(line)
            if line.startswith(f"{step}:"):
                break
        os.killpg(job.pid, signal.SIGKILL)
        assert job.stderr is not None
        assert lines[-1].startswith(f"{step}:"), (lines, job.stderr.read())


def _job(workspace: Workspace, interval: Interval) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of the real job."""
    command = [sys.executable, str(JOB), "--cluster", "demo", "--interval-start", interval.start.isoformat()]
    return command, os.environ | {
        "OFFSETGUARD_HOME": str(workspace.home),
        "OFFSETGUARD_CONFIG": str(workspace.config_file),
        "OFFSETGUARD_DATABASE_URL": workspace.database_url,
    }


def test_a_truncated_file_is_one_line_on_stderr_and_exit_code_1(workspace, snapshot) -> None:
    workspace.config_file.write_text(CONFIG, encoding="utf-8")
    file = snapshot.land(workspace) / "topic_settings.parquet"
    file.write_bytes(file.read_bytes()[:100])
    command, environment = _job(workspace, snapshot.interval)
    job = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert job.returncode == 1
    assert job.stderr.startswith(f"error: {file}: cannot be read as Parquet: ")
    assert job.stderr.count("\n") == 1


def _read(engine: Engine, workspace: Workspace, interval: Interval) -> IntervalFacts | None:
    published = published_intervals.get(engine, "demo", interval)
    if published is None:
        return None
    return read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))


def test_killed_at_any_step_readers_stay_on_the_last_good_state_and_the_rerun_repairs(
    workspace, config, spark, snapshot
) -> None:
    workspace.config_file.write_text(CONFIG, encoding="utf-8")
    engine = open_database(workspace.database_url)
    lines: list[str] = []
    publisher = Publisher(workspace, config, engine, lambda: spark, Progress(lines.append))
    snapshot.queue("g", "orders", 0, (0, 5, 9))
    snapshot.topic_queue("orders", 0, 0, 9)
    snapshot.land(workspace)
    publisher.publish("demo", snapshot.interval, now=NOW)
    first = snapshot.interval
    last_good = _read(engine, workspace, first)
    assert last_good is not None
    interval = Interval(first.start + timedelta(minutes=1))
    for row in (*snapshot.rows["queue_snapshots"], *snapshot.rows["topic_queue_snapshots"]):
        row["interval_start"] = interval.start
    snapshot.interval = interval
    snapshot.queue("g", "orders", 1, (0, 1, 9))
    snapshot.topic_queue("orders", 1, 0, 9)
    snapshot.land(workspace)

    for step in ("facts", "forward"):
        _kill_at(step, workspace, interval)
        assert _read(engine, workspace, first) == last_good, step
        assert _read(engine, workspace, interval) is None, step

    report = publisher.publish("demo", interval, now=NOW)
    assert any(line.endswith("branches of a run that did not end") for line in lines)
    assert report.rows["queue_snapshots"] == 2
    facts = _read(engine, workspace, interval)
    assert facts is not None
    assert [(group.queue_count, group.lag) for group in facts.groups] == [(2, 12)]
    assert _read(engine, workspace, first) == last_good
    catalog = open_catalog(workspace)
    assert {name for table in PUBLISHED for name in load_table(catalog, table).metadata.refs} == {"main"}
