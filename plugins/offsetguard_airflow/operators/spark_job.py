"""What our Spark jobs have in common: the same job, in our workspace, on the Spark that `spark_default` names.

    no connection, or no host in it        Spark Connect, on the warm server of this workspace (`session.py`)
    type spark_connect, or host sc://...   Spark Connect, on the server that is named
    local[N], spark://..., yarn, k8s://... spark-submit to that master, the driver here

On Spark Connect the job runs in the task's own process, which has imported everything (`preload.py`); `docs/engines.md`
shows the connection of each.

The provider has a hook for connections of type `spark_connect` (`SparkConnectHook`), whose type and form are used here.
Its `get_connection_url` is not: it puts the token into the address, where PySpark shows it in errors, and where a token
with a slash in it is cut. The token goes by Spark's own variable instead, which only the job's process has.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowTaskTerminated,
)
from airflow.sdk.log import mask_secret

from offsetguard.config.workspace import ENDS_AT_VARIABLE, TASK_PROCESS_VARIABLE
from offsetguard.store.database_errors import read_url
from offsetguard.store.locks import own_process
from offsetguard_airflow.task_inputs import workspace_of_task

if TYPE_CHECKING:
    from airflow.sdk.types import Logger  # Airflow has it for type checkers only

JOBS_FOLDER = Path(__file__).resolve().parents[3] / "spark" / "jobs"
PATIENCE_S = 30.0  # for what a job tidies up at its time-out
_LAST_LINES = 5
CONNECT_TYPES = ("spark_connect", "sc")  # of the form, and of a URI `sc://...`
SCHEME = "sc://"


class SparkJobOperator(SparkSubmitOperator):
    """A file of `spark/jobs`; subclasses say its arguments."""

    def __init__(self, *, job_name: str, **kwargs: Any) -> None:
        """`job_name`: of a file in `spark/jobs`, without `.py`."""
        kwargs.setdefault("name", f"offsetguard {job_name}")
        super().__init__(application=str(JOBS_FOLDER / f"{job_name}.py"), durable=False, **kwargs)
        self._job_name = job_name
        self._end_job: Callable[[], object] | None = None

    def job_arguments(self) -> list[str]:
        """Return the job's command line, made of fields that are rendered by now."""
        raise NotImplementedError

    def execute(self, context: Context) -> None:
        """Fill in what is only known now, and run the job where the connection says."""
        self.application_args = self.job_arguments()
        self.env_vars = {**workspace_variables(), **_time_out(), **(self.env_vars or {})}
        connect = spark_connect(self._conn_id)
        if connect is None:
            self.env_vars[TASK_PROCESS_VARIABLE] = own_process()
            self._end_job = super().on_kill
            super().execute(context)
            return
        if connect.token:
            mask_secret(connect.token)
        where = connect.remote or "the warm server of this workspace"
        self.log.info("Airflow connection %r: Spark Connect, %s", self._conn_id, where)
        with _variables({**self.env_vars, **connect.environment}), _killed_where_it_hangs(self.log):
            self._end_job = _interrupt
            try:
                run_job(self._job_name, self.application_args, self.log)
            finally:
                self._end_job = None

    def on_kill(self) -> None:
        """End the job with its task."""
        if self._end_job is not None:
            self._end_job()

    def _get_hook(self) -> SparkSubmitHook:
        from offsetguard_spark.engines import submit_settings

        hook = SparkSubmitHook(
            conf=self.conf, conn_id=self._conn_id, name=self.name, application_args=self.application_args
        )
        if hook._connection["deploy_mode"] == "cluster":
            raise AirflowFailException(
                f"Airflow connection {self._conn_id!r}: deploy-mode cluster would start the job where neither "
                "OFFSETGUARD_HOME nor our database is; remove the extra (client mode), the work runs on the cluster"
            )
        settings = submit_settings(runs_here=str(hook._connection["master"]).startswith("local"))
        if settings["jars"]:
            hook._jars = ",".join(settings["jars"])
        hook._conf = {**settings["conf"], "spark.pyspark.driver.python": sys.executable, **hook._conf}
        # Not `env_vars`: for YARN and Kubernetes the provider writes those, with their passwords, on a command line.
        # spark-submit looks for Spark with the first python3 of PATH, which may be the system's, without it.
        found_by = {"PATH": _path_with_own_programs(), "PYSPARK_DRIVER_PYTHON": sys.executable}
        hook._env = {**settings["environment"], **found_by, **(self.env_vars or {})}
        return hook


def _interrupt() -> None:
    """Airflow calls this in the handler of a signal, in the midst of the job."""
    raise AirflowTaskTerminated("ended from outside: its task was killed")


def run_job(name: str, arguments: list[str], log: Logger) -> None:
    """Run a job in this process, its lines in the log; AirflowException with its last lines when it failed."""
    from offsetguard_spark.jobs import JOBS

    last: deque[str] = deque(maxlen=_LAST_LINES)

    def say(line: str) -> None:
        log.info("%s", line)
        last.append(line)

    if code := JOBS[name](arguments, say):
        said = "\n".join(last)
        raise AirflowException(f"{name} ended with code {code}; it said last:\n{said}")


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _killed_where_it_hangs(log: Logger) -> Iterator[None]:
    """Kill this process when it goes on for long after the time-out of its task.

    The exception of a time-out ends what Python does; threads of the gate that wait for a Spark that hangs do not end,
    nor does PySpark's farewell at the exit of the process.
    """
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)

    def kill() -> None:
        log.error("the job did not end within %.0f s of the time-out of its task: killed", PATIENCE_S)
        os.kill(os.getpid(), signal.SIGKILL)

    timer = threading.Timer(left_s + PATIENCE_S, kill)
    timer.daemon = True
    if left_s:
        timer.start()
    try:
        yield
    except Exception:  # a time-out is none (`AirflowTaskTimeout`): the timer is for what goes on after it
        timer.cancel()
        raise
    timer.cancel()


def _time_out() -> dict[str, str]:
    """Return the variable that tells the job when the time-out of its task is.

    Airflow has set an alarm for `execution_timeout`, before the operator had done anything: that says when.
    """
    now, (left_s, _) = datetime.now(UTC), signal.getitimer(signal.ITIMER_REAL)
    return {ENDS_AT_VARIABLE: (now + timedelta(seconds=left_s)).isoformat()} if left_s else {}


def _path_with_own_programs() -> str:
    """Return PATH with our own spark-submit at its end: Airflow may run in an environment that is not activated."""
    return os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))


def workspace_variables() -> dict[str, str]:
    """Return the environment that makes the job use our folders and databases, whose passwords are masked in logs."""
    workspace = workspace_of_task()
    for url in filter(None, (workspace.database_url, workspace.catalog_url)):
        with suppress(ValueError):  # the job says what is wrong with it, and shows nothing of it
            parsed = read_url(url)
            for password in filter(None, (parsed.password, *map(parsed.query.get, ("password", "sslpassword")))):
                mask_secret(url)  # here a password may be quoted
                mask_secret(str(password))
    return workspace.variables


@dataclass(frozen=True, slots=True)
class SparkConnect:
    """Address (`sc://host:port/;...`, without the token) and token of a server; neither: that of this workspace."""

    remote: str | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which PySpark finds the server."""
        remote = {"SPARK_REMOTE": self.remote} if self.remote else {}
        return remote | ({"SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token} if self.token else {})


def spark_connect(conn_id: str) -> SparkConnect | None:
    """Return the server that the connection names, or leaves to us; None when it names a master for spark-submit."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return SparkConnect()
    if connection.conn_type not in CONNECT_TYPES and not (connection.host or "").startswith(SCHEME):
        return None if connection.host or connection.conn_type != "spark" else SparkConnect()
    host = (connection.host or "localhost").removeprefix(SCHEME).rstrip("/")
    address = f"{SCHEME}{host}:{connection.port}" if connection.port else f"{SCHEME}{host}"
    extra = {name: str(value) for name, value in connection.extra_dejson.items()}
    token = connection.password or extra.get("token")
    return SparkConnect(f"{address}/{_parameters(connection.login, extra)}", token)


def _parameters(user: str | None, extra: Mapping[str, str]) -> str:
    """Return `;name=value` for the user's name and every extra that PySpark's client or a proxy may ask for."""
    parameters = {name: value for name, value in extra.items() if name != "token"}
    if user:
        parameters["user_id"] = user
    return "".join(f";{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())
