"""The task that publishes: one at work publishes all that waits, and no other one queues behind it or starts Spark."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from offsetguard.collect.backlog import SESSION, TRIES
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.locks import hold
from offsetguard.store.models import CycleRow
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard_airflow.operators.spark_jobs import PublishIntervalOperator
from offsetguard_airflow.task_inputs import Opened, open_workspace

NOW = Interval.containing(datetime.now(UTC))
EARLIER = Interval(NOW.start - timedelta(minutes=1))


@pytest.fixture
def ours(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Make a workspace with a database; Spark Connect is where nobody listens, so that no job gets anywhere."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "sc://127.0.0.1:9")
    (config_file.parent / "home").mkdir()
    return open_workspace(print)


def publish(interval: Interval, *, cluster: str = "all", again: bool = False) -> None:
    PublishIntervalOperator(
        task_id="publish_interval", cluster=cluster, interval_start=interval.start.isoformat(), again=again
    ).execute({})


def land_nonsense(ours: Opened, cluster: str, interval: Interval) -> None:
    folder = ours.workspace.landing_folder / cluster / interval.name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("not one")


def show(ours: Opened, interval: Interval) -> None:
    row = PublishedInterval("main", interval, "run-1", interval.end, "audited", {}, "{}")
    published_intervals.record(ours.engine, row)


def test_a_minute_is_left_to_the_session_that_is_at_work_and_its_task_says_to_whom(ours: Opened) -> None:
    for cluster in ("main", "backup"):
        land_nonsense(ours, cluster, NOW)
    with hold(ours.engine, SESSION, print), pytest.raises(AirflowSkipException) as left:
        publish(NOW)
    said = str(left.value)
    assert (
        f"backup, main: {NOW.name} is left to the session that publishes all that waits (process {os.getpid()} on"
        in said
    )


def test_a_minute_that_a_session_has_taken_along_is_done_without_spark(
    ours: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    land_nonsense(ours, "main", NOW)
    show(ours, NOW)
    publish(NOW)
    assert f"main: {NOW.name} is published, by run run-1" in capsys.readouterr().out


def test_what_nobody_takes_along_waits_for_no_session(ours: Opened) -> None:
    """A backfill, and what failed again and again and is cleared by hand: their jobs begin, and say what is missing."""
    for interval in (EARLIER, NOW):
        land_nonsense(ours, "main", interval)
    show(ours, NOW)
    with hold(ours.engine, SESSION, print):
        with pytest.raises(AirflowException, match=f"{NOW.name}.*not a manifest"):
            publish(NOW, again=True)
        with pytest.raises(AirflowSkipException, match=f"{EARLIER.name} is left to the session"):
            publish(EARLIER)
        for number in range(TRIES):
            run = (f"run {number}", EARLIER.end, EARLIER.end, None)
            cycles.record(ours.engine, CycleRow("main", EARLIER.start, *run, error="no", failed_step="landed"))
        with pytest.raises(AirflowException, match=f"{EARLIER.name}.*not a manifest"):
            publish(EARLIER)


def test_a_task_that_finds_no_session_is_one_and_says_what_failed_of_whichever_cluster(ours: Opened) -> None:
    land_nonsense(ours, "backup", EARLIER)
    land_nonsense(ours, "main", NOW)
    with pytest.raises(AirflowException) as raised:
        publish(NOW)
    assert f"backup: {EARLIER.name}: " in str(raised.value)
    (failed,) = cycles.newest(ours.engine, cluster="backup", failed=True)
    assert (failed.interval, failed.failed_step) == (EARLIER, "landed")


def test_a_minute_of_which_nothing_has_landed_is_skipped(ours: Opened) -> None:
    del ours
    for again in (False, True):
        with pytest.raises(AirflowSkipException, match=f"nothing has landed of {NOW.name}"):
            publish(NOW, again=again)
