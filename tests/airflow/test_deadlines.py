"""A run that does not end makes Airflow look whether OffsetGuard still works, and what does not is told outside."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk._shared.module_loading import import_string
from airflow.sdk.definitions.callback import AsyncCallback

from offsetguard.model.intervals import Interval
from offsetguard.store import judged_intervals
from offsetguard.store.database import open_database, writing
from offsetguard.store.models import JudgedIntervalRow, Mode
from offsetguard_airflow.hooks import report_troubles
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.http_server import HeartbeatListener

DAGS_FOLDER = Path(__file__).parents[2] / "dags"
CONFIG = f"{one_team_text(main='127.0.0.1:9876')}delivery: {{heartbeat_connection: outside}}\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hold a configuration and an empty database; returns the address of the database."""
    (tmp_path / "offsetguard.yml").write_text(CONFIG)
    url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
    monkeypatch.setenv("OFFSETGUARD_HOME", str(tmp_path))
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(tmp_path / "offsetguard.yml"))
    monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", url)
    return url


@pytest.mark.parametrize("dag_id", ["collect_and_judge", "deliver_warnings"])
def test_the_dags_that_may_not_stop_have_a_deadline_before_airflow_ends_their_runs(dag_id: str) -> None:
    dag = DagBag(str(DAGS_FOLDER / f"{dag_id}.py")).dags[dag_id]
    (alert,) = dag.deadline or []
    assert alert.interval < dag.dagrun_timeout
    assert isinstance(alert.callback, AsyncCallback)
    assert import_string(alert.callback.path) is report_troubles


def test_a_missed_deadline_tells_the_heartbeat_what_has_stopped(
    workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HeartbeatListener() as listener:
        monkeypatch.setenv("AIRFLOW_CONN_OUTSIDE", f'{{"conn_type": "generic", "password": "{listener.url}"}}')
        asyncio.run(report_troubles())
        assert listener.heard == [("POST", "/ping/secret-key/fail", "nothing of cluster main was judged so far")]
    kept = json.loads((tmp_path / "heartbeat.json").read_text())
    assert (kept["healthy"], kept["troubles"]) == (False, ["nothing of cluster main was judged so far"])
    assert datetime.now(UTC) - datetime.fromisoformat(kept["at"]) < timedelta(minutes=5)


def test_a_heartbeat_connection_that_is_missing_is_logged_and_the_trouble_all_the_same(
    workspace: str, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(report_troubles())
    said = "\n".join(caplog.messages)
    assert "nothing of cluster main was judged so far" in said
    assert "(delivery.heartbeat_connection names it)" in said


def test_a_run_that_merely_failed_tells_nothing_while_all_is_well(
    workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For Airflow a run that failed at once has missed its deadline, too."""
    now = datetime.now(UTC)
    engine = open_database(workspace)
    with writing(engine) as session:
        interval = Interval.containing(now)
        judged_intervals.record(session, JudgedIntervalRow("main", interval.start, now, Mode.LIVE, 0, 0, 0, 0))
    engine.dispose()
    with HeartbeatListener() as listener:
        monkeypatch.setenv("AIRFLOW_CONN_OUTSIDE", f'{{"conn_type": "generic", "password": "{listener.url}"}}')
        asyncio.run(report_troubles())
        assert listener.heard == []
