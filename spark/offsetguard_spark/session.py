"""The one place that makes a SparkSession, and what its errors say.

- SPARK_REMOTE is set: Spark Connect. The server was started with `SERVER_CONFIG` and the jars of the set `iceberg`
  (`connect_server.py`); extensions and class path are fixed when a server starts, so no client can add them.
- started by spark-submit: master, memory and `--jars` are what it was given; nothing of that is set here.
- otherwise: Spark Connect as well, on the warm server of this workspace (`warm_server`).

Whoever needs Spark first starts the warm server; everybody after that finds it. It ends with Airflow, by `offsetguard
spark-server stop`, or when nobody has used it for a quarter of an hour (`server_process.py`). One that somebody started
by hand in the same folder, with more memory say, is used as well, and left to him.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.config.workspace import Workspace, disk_advice
from offsetguard.lake.catalog import CATALOG_NAME, jdbc_properties
from offsetguard.model.errors import PublishError
from offsetguard_spark.connect import TOKEN_VARIABLE, ConnectAddress, SparkServerUnusable, telling_line
from offsetguard_spark.connect_server import START_PATIENCE_S, ConnectServer
from offsetguard_spark.engines import SERVER_CONFIG
from offsetguard_spark.server_process import ServerRuns, SparkServerFailed

IDLE_S = 900.0
MEMORY = "1g"
ANSWER_PATIENCE_S = 60.0  # for a row that costs Spark nothing
HANGING_PATIENCE_S = 5.0
_LOOKS_APART_S = 0.1


@contextmanager
def warm_server(
    workspace: Workspace, *, idle_s: float = IDLE_S, patience_s: float = ANSWER_PATIENCE_S
) -> Iterator[ConnectServer]:
    """Yield the server of this workspace, started when none runs; it does not end by itself during the block.

    One that gives no row within `patience_s` hangs, and is replaced: each task would be ended by its time-out there.

    Raises SparkServerFailed: it could not be started, does not come up, or runs on another host.
    """
    server = ConnectServer(workspace.spark_server_folder, port=0, memory=MEMORY, idle_s=idle_s)
    with server.files.used():
        yield _found_or_started(server, patience_s)


def _found_or_started(server: ConnectServer, patience_s: float) -> ConnectServer:
    deadline, is_new = time.monotonic() + START_PATIENCE_S, False
    while time.monotonic() < deadline:
        running = server.files.running()
        if running is None:
            with suppress(ServerRuns):  # somebody else was quicker
                server.start()
                is_new = True
        elif running.is_elsewhere:
            raise SparkServerFailed(
                f"the warm Spark of this workspace runs on the host {running.host}: stop it there, or say by the "
                "Airflow connection spark_default where Spark runs for all hosts (docs/engines.md)"
            )
        elif running.listens():
            found = replace(server, port=running.port)
            try:
                if not is_new:
                    found.query(patience_s=patience_s)
            except SparkServerFailed:
                if running.idle_s is None:
                    raise  # whoever started it ends it
                server.files.stop(patience_s=HANGING_PATIENCE_S)
            else:
                return found
        else:
            time.sleep(_LOOKS_APART_S)  # somebody starts it
    raise SparkServerFailed(f"Spark does not listen after {START_PATIENCE_S:.0f} s; its log is {server.log_file}")


SMALL_SNAPSHOT_ROWS = 50_000
ROWS_PER_SHUFFLE_PARTITION = 100_000
MOST_SHUFFLE_PARTITIONS = 400
STOP_PATIENCE_S = 10.0

# A server that went away is asked again for a quarter of a minute: one that was started anew does not know the session,
# and PySpark's own ten minutes would outlast the task.
_ASKED_AGAIN = DefaultPolicy(max_retries=6, initial_backoff=200, backoff_multiplier=2.5, max_backoff=5000)
_DISK_IS_FULL = re.compile(
    r"No space left on device|File too large|Disk quota exceeded|Read-only file system|database or disk is full"
)


@contextmanager
def session_when_needed(
    workspace: Workspace, environment: Mapping[str, str] = os.environ
) -> Iterator[Callable[[], SparkSession]]:
    """Yield what opens the session with the Iceberg catalog `offsetguard` on the workspace's files, when first called.

    It is stopped with the block. What is yielded raises SparkServerUnusable when SPARK_REMOTE names a server that does
    not answer, SparkServerFailed when none could be started, JarsUnavailable.
    """
    with ExitStack() as stack:
        yield cache(lambda: _opened(workspace, environment, stack))


def _opened(workspace: Workspace, environment: Mapping[str, str], stack: ExitStack) -> SparkSession:
    if environment.get("PYSPARK_GATEWAY_PORT"):  # set by spark-submit for the Python program that it runs
        builder = SparkSession.builder.appName("offsetguard")
        for name, value in (SERVER_CONFIG | session_config(workspace)).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        stack.callback(session.stop)
        return session
    if not environment.get("SPARK_REMOTE"):
        environment = stack.enter_context(warm_server(workspace)).client_environment
    address = ConnectAddress.parse(environment["SPARK_REMOTE"], environment)
    session = _remote_session(address, environment.get(TOKEN_VARIABLE), workspace)
    stack.callback(_stop, session)
    return session


def _remote_session(address: ConnectAddress, token: str | None, workspace: Workspace) -> SparkSession:
    address.check()
    os.environ.pop(TOKEN_VARIABLE, None)
    if token and not address.trusts_network:  # then `remote` has it as a header, and PySpark would want TLS
        os.environ[TOKEN_VARIABLE] = token  # where PySpark looks for it
    builder = SparkSession.builder.remote(address.remote)
    for name, value in session_config(workspace).items():
        builder = builder.config(name, value)  # sent at once, in one request
    try:
        session = builder.getOrCreate()
    except PySparkException as error:
        raise SparkServerUnusable(
            f"Spark Connect server {address.host}:{address.port} gives no session: {telling_line(str(error))}; is the "
            "Airflow connection's password the token that the server was started with?"
        ) from error
    session.client.set_retry_policies([_ASKED_AGAIN])  # type: ignore[operator] # pyspark declares another kind
    return session


def _stop(session: SparkSession) -> None:
    """Release a session: else it stays on the server for an hour, and what it had begun goes on for some seconds.

    A server that hangs is not waited for: that would outlast the time-out of the task.
    """
    stopping = threading.Thread(target=session.stop, name="stop session", daemon=True)
    stopping.start()
    stopping.join(STOP_PATIENCE_S)


def session_config(workspace: Workspace) -> dict[str, str]:
    """Return what may be set on any running session: the catalog, UTC, and settings for small jobs."""
    catalog = f"spark.sql.catalog.{CATALOG_NAME}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{catalog}.{name}": value for name, value in jdbc_properties(workspace).items()},
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }


def size_config(row_count: int) -> dict[str, str]:
    """Return the settings that suit a snapshot of so many rows; every engine takes them on a running session.

    Below SMALL_SNAPSHOT_ROWS a query is interpreted and planned once: compiling Java for it, and planning again between
    its stages, take longer than the rows do, and one task after a shuffle is enough. That task joins, too: to broadcast
    one side of a join takes a job of its own, and facts have up to fifteen joins. Above, Spark's own defaults are
    right, but for the number of those tasks: enough for several workers, and not 200 for what two can do.
    """
    large = not is_small(row_count)
    partitions = min(max(row_count // ROWS_PER_SHUFFLE_PARTITION, 2), MOST_SHUFFLE_PARTITIONS) if large else 1
    return {
        "spark.sql.codegen.wholeStage": str(large).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if large else "NO_CODEGEN",
        "spark.sql.adaptive.enabled": str(large).lower(),
        "spark.sql.autoBroadcastJoinThreshold": "10MB" if large else "-1",
        "spark.sql.shuffle.partitions": str(partitions),
    }


def is_small(row_count: int) -> bool:
    """Whether planning takes longer than so many rows do."""
    return row_count < SMALL_SNAPSHOT_ROWS


def suit_row_count(spark: SparkSession, row_count: int) -> None:
    """Tune a session for the rows of one snapshot, as `size_config` says."""
    for name, value in size_config(row_count).items():
        spark.conf.set(name, value)


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag the jobs that this thread starts. Spark allows no comma in a tag."""
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def first_line(error: PySparkException | Py4JError) -> str:
    """Return the first line, or of an error of gRPC the one that says something."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return telling_line(text) or type(error).__name__


@contextmanager
def disk_errors_named(workspace: Workspace) -> Iterator[None]:
    """Raise PublishError naming the folder when whatever went wrong within did so because a disk is full.

    Java, Arrow and SQLite each say it in an error of their own, the first under a page of stack trace.
    """
    try:
        yield
    except (PySparkException, Py4JError, SQLAlchemyError, OSError) as error:
        found = _DISK_IS_FULL.search(f"{error}\n{_stack_trace(error)}")
        if found is None:
            raise
        raise PublishError(
            f"{workspace.home}: cannot be written: {found[0]}; {disk_advice(workspace.home)}, then run it again"
        ) from error


def _stack_trace(error: Exception) -> str:
    """Return Spark's own stack trace: under an "internal error" it alone says what went wrong."""
    if isinstance(error, SparkConnectGrpcException):
        return error.getStackTrace() or ""
    return str(getattr(error, "_stackTrace", ""))  # of a JVM of our own; PySpark has no public name for it
