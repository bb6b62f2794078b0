"""One job, four engines, chosen by the Airflow connection alone: what is published is the same to the row."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.store.database import open_database
from offsetguard.store.locks import only_publisher
from offsetguard.tables import PUBLISHED
from offsetguard_peers.lake.readers import Readers
from offsetguard_peers.processes import ReservedPort
from offsetguard_peers.spark.standalone import StandaloneSpark
from offsetguard_peers.waiting import wait_until
from offsetguard_spark.connect import TOKEN_VARIABLE
from offsetguard_spark.connect_server import ConnectServer
from offsetguard_spark.engines import QUICK_COMPILER_OPTIONS
from offsetguard_spark.server_process import ServerFolder, SparkServerFailed

pytestmark = pytest.mark.slow

JOB = Path(__file__).parents[2] / "spark" / "jobs" / "publish_interval.py"
RUN_TASK = """\
import sys
from offsetguard_airflow.defaults import TASK_DEFAULTS
from offsetguard_airflow.operators.spark_jobs import PublishIntervalOperator
TASK_DEFAULTS["pre_execute"]({})  # as Airflow does in the task's process: the task opens our database itself
PublishIntervalOperator(task_id="publish", cluster="demo", interval_start=sys.argv[1]).execute({})
"""
# No worker of a cluster ever starts a Python: one that tried would fail. Executors fit into the small workers.
CLUSTER_DEFAULTS = """\
spark.executor.memory 512m
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.pyspark.python /nonexistent/python
"""
RUN_SPECIFIC = {"run_id"}


@dataclass(frozen=True)
class Engine:
    """What an operator configures: a connection, and what belongs to it on this machine."""

    connection: str | None
    environment: dict[str, str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


def test_the_same_interval_is_published_alike_by_every_engine(
    spark_server: ConnectServer, cluster: StandaloneSpark, workspace: Workspace, snapshot: Any, tmp_path: Path
) -> None:
    """Also what went to quarantine, what invariants counted, and the state that the next interval starts from."""
    snapshot.fill()
    connect = {
        "conn_type": "spark_connect",
        "host": "localhost",
        "port": spark_server.port,
        "password": spark_server.token,
    }
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(CLUSTER_DEFAULTS, encoding="utf-8")
    engines = {
        "warm": Engine(None, {"JDK_JAVA_OPTIONS": QUICK_COMPILER_OPTIONS}),
        "local": Engine('{"conn_type": "spark", "host": "local[2]"}', {}),
        "connect": Engine(json.dumps(connect), {}),
        "standalone": Engine(cluster.master, {"SPARK_CONF_DIR": str(tmp_path / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}),
    }
    published = {
        name: _publish(engine, tmp_path / name, workspace.config_file, snapshot) for name, engine in engines.items()
    }
    assert ServerFolder(tmp_path / "warm" / "spark-server").stop(), "the server of the workspace outlives the task"
    assert not (tmp_path / "local" / "spark-server").exists()

    assert {name for name, rows in published["warm"].items() if rows} >= {
        "queue_snapshots",
        "group_facts",
        "quarantine",
    }
    for table in PUBLISHED:
        for name in engines:
            assert published[name][table.name] == published["warm"][table.name], (name, table.name)
    assert all(list(folder.glob("app-*")) for folder in cluster.worker_folders), "a worker had no part in it"


def _publish(engine: Engine, folder: Path, config_file: Path, snapshot: Any) -> dict[str, list[dict[str, Any]]]:
    """Run Airflow's task in a process of its own; returns what readers then see, by table."""
    workspace = Workspace(folder, config_file, f"sqlite:///{folder / 'offsetguard.db'}")
    snapshot.land(workspace)
    with _task(engine, workspace, snapshot) as task:
        log, _ = task.communicate()
    assert task.returncode == 0, log
    assert '"verdict": "published"' in log, "the job's lines are in the task's log"
    if engine.connection and "password" in engine.connection:
        assert json.loads(engine.connection)["password"] not in log
    made = [folder / name for name in ("warehouse", "catalog.db", "data_docs", "offsetguard.db")]
    assert [path for path in made if path.stat().st_mode & 0o077] == [], "others can look into it"
    readers = Readers(workspace)
    return {
        table.name: [
            {name: value for name, value in row.items() if name not in RUN_SPECIFIC}
            for row in readers.rows(table, snapshot.interval)
        ]
        for table in PUBLISHED
    }


def _task(engine: Engine, workspace: Workspace, snapshot: Any) -> subprocess.Popen[str]:
    """Begin Airflow's task in a process of its own, whose log is its stdout."""
    connection = {} if engine.connection is None else {"AIRFLOW_CONN_SPARK_DEFAULT": engine.connection}
    airflow = {
        "AIRFLOW_HOME": str(workspace.home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(workspace.home / "none"),
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        # as where Airflow runs in an environment that nobody has activated
        "PATH": os.pathsep.join(one for one in os.get_exec_path() if Path(one) != Path(sys.executable).parent),
    }
    return subprocess.Popen(
        [sys.executable, "-c", RUN_TASK, snapshot.interval.start.isoformat()],
        env=os.environ | airflow | connection | engine.environment | workspace.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_killed_task_leaves_no_job_behind(workspace: Workspace, snapshot: Any) -> None:
    """That of spark-submit waits for its turn, which it never gets: nothing else would end it."""
    snapshot.broker()
    snapshot.land(workspace)
    with (
        only_publisher(open_database(workspace.database_url), print),
        _task(Engine('{"conn_type": "spark", "host": "local[2]"}', {}), workspace, snapshot) as task,
    ):
        assert task.stdout is not None
        seen = list(takewhile(lambda line: "waiting: another interval" not in line, task.stdout))
        jobs = _processes_in(workspace) - {task.pid}
        assert jobs, seen
        try:
            task.kill()
            wait_until(lambda: not jobs & _processes_in(workspace), lambda: f"{jobs} still run", timeout_s=60)
        finally:
            for left in jobs & _processes_in(workspace):
                os.kill(left, signal.SIGKILL)


def _processes_in(workspace: Workspace) -> set[int]:
    """Return the ids of the processes whose environment names the workspace's folder."""
    found, named = set(), f"OFFSETGUARD_HOME={workspace.home}\0".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if named in environment.read_bytes():
                found.add(int(environment.parent.name))
    return found


def test_the_server_listens_on_this_machine_only_and_keeps_its_token_to_itself(spark_server: ConnectServer) -> None:
    """Spark's own default is every interface, and no token."""
    listening = subprocess.run(
        ["ss", "-ltnH", f"sport = :{spark_server.port}"], capture_output=True, text=True, check=True
    )
    assert [line.split()[3].rsplit(":", 1)[0] for line in listening.stdout.splitlines()] in (
        ["127.0.0.1"],
        ["[::ffff:127.0.0.1]"],
    )
    assert stat.S_IMODE((spark_server.folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(spark_server.folder.stat().st_mode) == 0o700
    command_line = Path(f"/proc/{spark_server.process_id()}/cmdline").read_text(encoding="utf-8")
    assert str(spark_server.port) in command_line
    assert spark_server.token not in command_line


def test_what_spark_keeps_of_ended_sessions_lies_in_the_servers_folder(
    spark_server: ConnectServer, workspace: Workspace
) -> None:
    """Housekeeping deletes it there; when a release of Spark leaves nothing any more, neither is needed."""
    program = (
        "from offsetguard.config.workspace import Workspace\n"
        "from offsetguard_spark.session import session_when_needed\n"
        "with session_when_needed(Workspace.from_environment()) as start_spark: print(start_spark().session_id)"
    )
    remote = {"SPARK_REMOTE": spark_server.remote, TOKEN_VARIABLE: spark_server.token}
    ended = subprocess.run(  # a process of its own: one that has had a remote session can have no other kind any more
        [sys.executable, "-c", program],
        env=os.environ | workspace.variables | remote,
        capture_output=True,
        text=True,
        check=True,
    )
    left = spark_server.temporary_folder / "spark_connect_model_cache" / ended.stdout.split()[-1]
    wait_until(left.is_dir, lambda: f"{left}; beside it: {[*left.parent.parent.iterdir()]}")


def test_a_server_that_answers_a_query_is_told_from_one_that_only_listens(spark_server: ConnectServer) -> None:
    for _ in range(2):
        spark_server.query()
    stranger = ConnectServer(spark_server.folder.with_name("stranger"), spark_server.port)
    with pytest.raises(SparkServerFailed, match=f"port {spark_server.port}: no answer to a query: .*token"):
        stranger.query()
    free = ReservedPort()
    with pytest.raises(SparkServerFailed, match=f"port {free.port}: no answer to a query: .*refused"):
        ConnectServer(spark_server.folder, free.port).query()
    free.release()


def test_a_second_server_is_refused_before_it_harms_the_first(spark_server: ConnectServer) -> None:
    with pytest.raises(SparkServerFailed, match=f"a server runs already .process {spark_server.process_id()}."):
        spark_server.start()
    elsewhere = ConnectServer(spark_server.folder.with_name("other"), spark_server.port)
    with pytest.raises(SparkServerFailed, match=f"port {spark_server.port}: Address already in use; choose another"):
        elsewhere.start()
    assert elsewhere.process_id() is None
    assert spark_server.process_id() is not None


def test_a_wrong_token_is_an_error_of_one_line(
    spark_server: ConnectServer, workspace: Workspace, snapshot: Any
) -> None:
    """And nobody asks again for ten minutes."""
    snapshot.fill()
    snapshot.land(workspace)
    command = [sys.executable, str(JOB), "--cluster", "demo", "--interval-start", snapshot.interval.start.isoformat()]
    remote = {"SPARK_REMOTE": spark_server.remote, TOKEN_VARIABLE: "wrong"}
    job = subprocess.run(
        command, env=os.environ | workspace.variables | remote, capture_output=True, text=True, check=False
    )
    assert job.returncode == 1
    error = job.stderr.strip().splitlines()[-1]
    assert error.startswith(f"error: Spark Connect server localhost:{spark_server.port} gives no session: Invalid ")
    assert "is the Airflow connection's password the token" in error


def test_a_stopped_server_leaves_nothing_behind(tmp_path: Path) -> None:
    """Started without enough memory, Spark ends at once: the error says so, and the folder is free for the next one."""
    port = ReservedPort()
    server = ConnectServer(tmp_path / "spark-server", port.port, memory="16m")
    with pytest.raises(SparkServerFailed, match=r"Spark ended with code \d: .*server\.log\)"):
        server.start()
    assert server.process_id() is None
    assert not server.stop()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port.port)) != 0
    port.release()
