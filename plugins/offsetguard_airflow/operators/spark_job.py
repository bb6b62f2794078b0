"""What our Spark jobs have in common: the same script, started in our workspace where `spark_default` says.

    no connection, or no host in it        spark-submit, local
    spark://..., yarn, k8s://...           spark-submit to that master, the driver here
    type spark_connect, or host sc://...   a plain Python process that is a client of a Spark Connect server

`docs/engines.md` shows the connection of each.

The provider has a hook for connections of type `spark_connect` (`SparkConnectHook`), whose type and form are used here.
Its `get_connection_url` is not: it puts the token into the address, where PySpark shows it in errors, and where a token
with a slash in it is cut. The token goes by Spark's own variable instead, which only the job's process has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from offsetguard.config.workspace import ENDS_AT_VARIABLE, TASK_PROCESS_VARIABLE, Workspace
from offsetguard.store.database_errors import read_url
from offsetguard.store.locks import own_process

if TYPE_CHECKING:
    from airflow.sdk.types import Logger  # Airflow has it for type checkers only

JOBS_FOLDER = Path(__file__).resolve().parents[3] / "spark" / "jobs"
PATIENCE_S = 10.0  # Airflow gives a task that it kills a minute (`core.killed_task_cleanup_time`)
_LAST_LINES = 5

# A daemon that was started in the background of a shell ignores SIGINT, and so would all that it starts.
_RUN_INTERRUPTIBLY = (
    "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
CONNECT_TYPES = ("spark_connect", "sc")  # of the form, and of a URI `sc://...`
SCHEME = "sc://"


class LocalByDefaultSparkSubmitHook(SparkSubmitHook):
    """The provider's hook, but without a connection (or without a host in it) Spark runs here and not on YARN."""

    def __init__(self, *, local_master: str, **kwargs: Any) -> None:
        """`local_master`: such as local[4], for connections that name no master."""
        self._local_master = local_master
        super().__init__(**kwargs)

    def _resolve_connection(self) -> dict[str, Any]:
        try:
            connection = self.get_connection(self._conn_id)
            undecided = connection.conn_type == "spark" and not connection.host
        except AirflowNotFoundException:
            undecided = True
        resolved: dict[str, Any] = super()._resolve_connection()
        if not undecided:
            return resolved
        self.log.info(
            "Airflow connection %r names no Spark master: Spark runs here, %s", self._conn_id, self._local_master
        )
        return {**resolved, "master": self._local_master}

    @property
    def runs_here(self) -> bool:
        """The driver is this machine's only Spark process."""
        return str(self._connection["master"]).startswith("local")

    @property
    def driver_leaves(self) -> bool:
        """The connection's deploy-mode would start the driver on the cluster."""
        return bool(self._connection["deploy_mode"] == "cluster")


class SparkJobOperator(SparkSubmitOperator):
    """A file of `spark/jobs`; subclasses say its arguments."""

    def __init__(self, *, job_file_name: str, **kwargs: Any) -> None:
        """`job_file_name`: in `spark/jobs`."""
        kwargs.setdefault("name", f"offsetguard {Path(job_file_name).stem}")
        super().__init__(application=str(JOBS_FOLDER / job_file_name), durable=False, **kwargs)
        self._process: JobProcess | None = None

    def job_arguments(self) -> list[str]:
        """Return the job's command line, made of fields that are rendered by now."""
        raise NotImplementedError

    def execute(self, context: Context) -> None:
        """Fill in what is only known now, and run the job where the connection says."""
        self.application_args = self.job_arguments()
        self.env_vars = {**workspace_variables(), **_end_of_task(), **(self.env_vars or {})}
        server = spark_connect_server(self._conn_id)
        if server is None:
            super().execute(context)
        else:
            self._run_as_client(server)

    def on_kill(self) -> None:
        """End the job with its task."""
        if self._process is None:
            super().on_kill()
        else:
            self._process.kill()

    def _run_as_client(self, server: SparkConnectServer) -> None:
        if server.token:
            mask_secret(server.token)
        self.log.info("Airflow connection %r: Spark Connect at %s", self._conn_id, server.remote)
        environment = {**(self.env_vars or {}), **server.environment}
        self._process = JobProcess(Path(self.application), self.application_args or [], environment)
        self._process.follow(self.log)

    def _get_hook(self) -> SparkSubmitHook:
        settings = _submit_settings()
        hook = LocalByDefaultSparkSubmitHook(
            local_master=settings["local_master"],
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
        )
        if hook.driver_leaves:
            raise AirflowFailException(
                f"Airflow connection {self._conn_id!r}: deploy-mode cluster would start the job where neither "
                "OFFSETGUARD_HOME nor our database is; remove the extra (client mode), the work runs on the cluster"
            )
        if hook.runs_here:
            own_conf, own_environment = settings["local_conf"], settings["local_environment"]
        else:
            own_conf, own_environment = settings["cluster_conf"], {}
            hook._jars = ",".join(settings["jars"])
        hook._conf = {**own_conf, "spark.pyspark.driver.python": sys.executable, **hook._conf}
        # Not `env_vars`: for YARN and Kubernetes the provider writes those, with their passwords, on a command line.
        # spark-submit looks for Spark with the first python3 of PATH, which may be the system's, without it.
        found_by = {"PATH": _path_with_own_programs(), "PYSPARK_DRIVER_PYTHON": sys.executable}
        hook._env = {**own_environment, **found_by, **(self.env_vars or {})}
        return hook


def _end_of_task() -> dict[str, str]:
    """Return the variables that tell the job with what it ends: a process, and the moment of the task's time-out.

    Airflow has set an alarm for `execution_timeout`, before the operator had done anything: that says when.
    """
    process = {TASK_PROCESS_VARIABLE: own_process()}
    now, (left_s, _) = datetime.now(UTC), signal.getitimer(signal.ITIMER_REAL)
    return {**process, ENDS_AT_VARIABLE: (now + timedelta(seconds=left_s)).isoformat()} if left_s else process


def _path_with_own_programs() -> str:
    """Return PATH with our own spark-submit at its end: Airflow may run in an environment that is not activated."""
    return os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))


def workspace_variables() -> dict[str, str]:
    """Return the environment that makes the job use our folders and databases, whose passwords are masked in logs."""
    workspace = Workspace.from_environment()
    for url in filter(None, (workspace.database_url, workspace.catalog_url)):
        with suppress(ValueError):  # the job says what is wrong with it, and shows nothing of it
            parsed = read_url(url)
            for password in filter(None, (parsed.password, *map(parsed.query.get, ("password", "sslpassword")))):
                mask_secret(url)  # here a password may be quoted
                mask_secret(str(password))
    return workspace.variables


def _submit_settings() -> dict[str, Any]:
    """Ask another process: this package may not import Spark code."""
    command = [sys.executable, "-m", "offsetguard_spark.session"]
    settings: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return settings


@dataclass(frozen=True, slots=True)
class SparkConnectServer:
    """Address (`sc://host:port/;...`, without the token) and token of a server."""

    remote: str
    token: str | None = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which PySpark finds the server."""
        token = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token} if self.token else {}
        return {"SPARK_REMOTE": self.remote, **token}


def spark_connect_server(conn_id: str) -> SparkConnectServer | None:
    """Return the server that the connection names; None when it names another engine, or does not exist."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    if connection.conn_type not in CONNECT_TYPES and not (connection.host or "").startswith(SCHEME):
        return None
    host = (connection.host or "localhost").removeprefix(SCHEME).rstrip("/")
    address = f"{SCHEME}{host}:{connection.port}" if connection.port else f"{SCHEME}{host}"
    extra = {name: str(value) for name, value in connection.extra_dejson.items()}
    token = connection.password or extra.get("token")
    return SparkConnectServer(f"{address}/{_parameters(connection.login, extra)}", token)


def _parameters(user: str | None, extra: Mapping[str, str]) -> str:
    """Return `;name=value` for the user's name and every extra that PySpark's client or a proxy may ask for."""
    parameters = {name: value for name, value in extra.items() if name != "token"}
    if user:
        parameters["user_id"] = user
    return "".join(f";{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())


class JobProcess:
    """One job script, in a process group of its own."""

    def __init__(self, script: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it at once; `environment` is added to our own."""
        self._name = script.name
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _RUN_INTERRUPTIBLY, str(script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
            text=True,
            errors="replace",
        )

    def follow(self, log: Logger) -> None:
        """Log every line until the job ends; AirflowException with its last lines when it failed."""
        last: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            for line in self._process.stdout or ():
                log.info("%s", line.rstrip())
                last.append(line.rstrip())
            self._process.wait()
        except BaseException:
            self.kill()
            raise
        if self._process.returncode:
            said = "\n".join(last)
            raise AirflowException(f"{self._name} ended with code {self._process.returncode}; it said last:\n{said}")

    def kill(self) -> None:
        """End it: interrupted, it takes its work on the server back; after ten seconds for sure."""
        for signal_number in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            try:
                os.killpg(self._process.pid, signal_number)
                self._process.wait(PATIENCE_S)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue
