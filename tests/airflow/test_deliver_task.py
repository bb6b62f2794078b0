"""The task that sends what is due, on hosts whose clocks do not agree."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException
from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.model.views import MessageView
from offsetguard.store import judged_intervals, outbox
from offsetguard.store.database import database_time, open_database, writing
from offsetguard.store.models import JudgedIntervalRow, Mode, Status
from offsetguard.store.outbox import Lane
from offsetguard_airflow.operators import outbox as tasks
from offsetguard_peers.alertmanager import Alertmanager
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.databases import PostgresServer
from offsetguard_peers.delivery.world import RESOLVED, VIEW
from offsetguard_peers.disks import tiny_disk
from offsetguard_peers.host_clock import HostClock
from offsetguard_peers.judging.timelines import BASE, Course
from offsetguard_peers.smtp.server import SmtpServer

OFF_BY = timedelta(minutes=10)
OPS = Lane("mail", "ops@example.org")
DELIVER = "from offsetguard_airflow.operators.outbox import DeliverOperator as D; D(task_id='deliver').execute({})"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Open the database that the task finds."""
    (tmp_path / "offsetguard.yml").write_text(one_team_text(main="127.0.0.1:9876"))
    monkeypatch.setenv("OFFSETGUARD_HOME", str(tmp_path))
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(tmp_path / "offsetguard.yml"))
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
        if request.param == "postgresql":
            server = stack.enter_context(PostgresServer())
            url = server.url(server.new_database())
        monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", url)
        engine = open_database(url)
        stack.callback(engine.dispose)
        yield engine


@pytest.mark.parametrize("engine", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
@pytest.mark.parametrize("off_by", [OFF_BY, -OFF_BY], ids=["ahead", "behind"])
def test_a_host_whose_clock_is_off_sends_nothing_twice_and_nothing_late(
    engine: Engine, smtp_server: SmtpServer, monkeypatch: pytest.MonkeyPatch, off_by: timedelta
) -> None:
    """SQLite's clock is that of the one host that it is on."""
    monkeypatch.setenv("AIRFLOW_CONN_OFFSETGUARD_SMTP", _address(smtp_server))
    now = database_time(engine)
    _put(engine, "held elsewhere", VIEW, now)
    assert outbox.claim_next(engine, OPS, now=now)  # by a host whose clock is right
    _put(engine, "due", RESOLVED.model_copy(update={"thread_key": "thread 2"}), now)

    command, clock = [sys.executable, "-c", DELIVER], HostClock(off_by).environment
    task = subprocess.run(command, env={**os.environ, **clock}, check=False, capture_output=True, text=True)
    assert task.returncode == 0, task.stderr
    (mail,) = smtp_server.mails
    assert mail.message["Subject"].startswith("[RESOLVED]"), "the other one is being sent by its deliverer"


def test_each_sweep_is_written_down_for_who_watches_a_file(engine: Engine, tmp_path: Path) -> None:
    for judged, troubles in ((False, ["nothing of cluster main was judged so far"]), (True, [])):
        if judged:
            now = datetime.now(UTC)
            row = JudgedIntervalRow("main", Interval.containing(now).start, now, Mode.LIVE, 0, 0, 0, 0)
            with writing(engine) as session:
                judged_intervals.record(session, row)
        tasks.DeliverOperator(task_id="deliver").execute({})
        kept = json.loads((tmp_path / "heartbeat.json").read_text())
        assert (kept["healthy"], kept["troubles"]) == (judged, troubles)


def test_warnings_go_out_while_the_disk_of_our_files_is_full(
    engine: Engine, smtp_server: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OFFSETGUARD_SMTP", _address(smtp_server))
    _put(engine, "due", VIEW, datetime.now(UTC) - timedelta(seconds=1))
    with tiny_disk(tmp_path / "disk") as disk:
        disk.fill()
        monkeypatch.setenv("OFFSETGUARD_HOME", str(disk.folder / "home"))
        tasks.DeliverOperator(task_id="deliver").execute({})
        assert disk.files() == []
    assert len(smtp_server.mails) == 1


def test_what_is_open_is_posted_beside_messages_and_who_does_not_take_it_turns_the_task_red(
    engine: Engine, smtp_server: SmtpServer, alertmanager: Alertmanager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = database_time(engine)
    _put(engine, "due", VIEW, now)
    start = Interval.containing(now).start - timedelta(minutes=1)
    Course(engine, {"at": {0: {"bad": {"a": "warning"}}}, "until": 0}, start=start).run()
    settings = {**BASE, "delivery": {"alertmanagers": ["one", "two"]}}
    (tmp_path / "offsetguard.yml").write_text(json.dumps(settings))
    monkeypatch.setenv("AIRFLOW_CONN_OFFSETGUARD_SMTP", _address(smtp_server))
    monkeypatch.setenv("AIRFLOW_CONN_ONE", alertmanager.url)
    with pytest.raises(AirflowException, match=r"^Airflow connection 'two' does not exist; create one of type generic"):
        tasks.DeliverOperator(task_id="deliver").execute({})
    assert len(smtp_server.mails) == 2, "the message that was due, and the warning"
    assert [one["labels"]["consumer_group"] for one in alertmanager.alerts()] == ["a"]


def test_an_alertmanager_alone_is_told_and_the_outbox_knows(
    engine: Engine, alertmanager: Alertmanager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**BASE, "teams": {"ops": {}}, "delivery": {"alertmanagers": ["am"]}}
    (tmp_path / "offsetguard.yml").write_text(json.dumps(settings))
    start = Interval.containing(database_time(engine)).start - timedelta(minutes=1)
    script = {"config": {**settings, "teams": {"ops": {"mail": []}}}, "at": {0: {"bad": {"a": "warning"}}}, "until": 0}
    Course(engine, script, start=start).run()
    monkeypatch.setenv("AIRFLOW_CONN_AM", alertmanager.url)
    tasks.DeliverOperator(task_id="deliver").execute({})
    (row,) = outbox.messages(engine)
    assert (row.status, row.channel, row.receiver) == (Status.SENT, "alertmanager", "am")
    assert [one["labels"]["team"] for one in alertmanager.alerts()] == ["ops"]


def _put(engine: Engine, key: str, view: MessageView, now: datetime) -> None:
    with writing(engine) as session:
        outbox.enqueue(session, idempotency_key=key, channel=OPS.channel, receiver=OPS.receiver, view=view, now=now)


def _address(server: SmtpServer) -> str:
    return f"smtp://{server.host}:{server.port}/?disable_ssl=true&disable_tls=true"
