"""The one place that makes a SparkSession, and what its errors say.

Who decides where a job runs (design: the Airflow connection, never code; `docs/engines.md` teaches it):

- SPARK_REMOTE is set: Spark Connect. The server was started with `SERVER_CONFIG` and the jars of the set `iceberg`
  (`connect_server.py`); extensions and class path are fixed when a server starts, so no client can add them.
- started by spark-submit: master, memory and `--jars` are what it was given; nothing of that is set here.
- otherwise: local, with our jars, on as many cores as `local_master` says.

Run as a program it prints, as JSON, what spark-submit needs to know of us, for a submitter that may not import Spark
code.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.config.disk import disk_advice
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import CATALOG_NAME, jdbc_properties
from offsetguard.model.errors import PublishError
from offsetguard_spark.class_archive import class_archive_options
from offsetguard_spark.connect import TOKEN_VARIABLE, ConnectAddress, SparkServerUnusable, telling_line
from offsetguard_spark.jars import jar_paths

MOST_LOCAL_CORES = 8
SMALL_SNAPSHOT_ROWS = 50_000
ROWS_PER_SHUFFLE_PARTITION = 100_000
MOST_SHUFFLE_PARTITIONS = 400
SERVER_CONFIG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # Else PySpark notes the line of Python behind each of a cycle's thousands of column expressions, and looks for
    # IPython every time: half of what our own process does in a small cycle.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# Without it Spark looks up the machine's own name, which containers often cannot resolve.
LOCAL_ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1"}

# A cycle runs for seconds: compiling it further than C1 does, or collecting garbage in parallel, costs more than it
# gives. C1 alone keeps 48 MB of code by default: from the fifth interval of one JVM on (70 MB) it would throw away what
# it needs again.
_LOCAL_JVM_OPTIONS = "-XX:+UseSerialGC -Djava.net.preferIPv4Stack=true"
QUICK_COMPILER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
_SHORT_JVM_OPTIONS = f"{QUICK_COMPILER_OPTIONS} {_LOCAL_JVM_OPTIONS}"
_DISK_IS_FULL = re.compile(
    r"No space left on device|File too large|Disk quota exceeded|Read-only file system|database or disk is full"
)


def make_session(
    workspace: Workspace, environment: Mapping[str, str] = os.environ, *, runs_for_minutes: bool = False
) -> SparkSession:
    """Return a session with the Iceberg catalog `offsetguard` on the workspace's files. The caller stops it.

    `runs_for_minutes`: a JVM of our own compiles what it does as well as it can; only long jobs get that time back.
    Raises SparkServerUnusable when SPARK_REMOTE names a server that does not answer, JarsUnavailable.
    """
    if environment.get("SPARK_REMOTE"):
        return _remote_session(ConnectAddress.parse(environment["SPARK_REMOTE"], environment), workspace)
    config = session_config(workspace)
    builder = SparkSession.builder.appName("offsetguard")
    if not environment.get("PYSPARK_GATEWAY_PORT"):  # set by spark-submit for the Python program that it runs
        config |= local_config(runs_for_minutes=runs_for_minutes)
        for name, value in LOCAL_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        builder = builder.master(local_master())
    for name, value in (SERVER_CONFIG | config).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _remote_session(address: ConnectAddress, workspace: Workspace) -> SparkSession:
    """Return a session on a Connect server. However this process ends, short of a kill, the server is told.

    A session that is not released stays on the server for an hour, and what it had begun goes on for some seconds.
    """
    address.check()
    if address.trusts_network:
        os.environ.pop(TOKEN_VARIABLE, None)  # where PySpark finds one it wants TLS; `remote` has it as a header
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
    atexit.register(session.stop)
    return session


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
    its stages, take longer than the rows do, and one task after a shuffle is enough. Above, Spark's own defaults are
    right, but for the number of those tasks: enough for several workers, and not 200 for what two can do.
    """
    large = not is_small(row_count)
    partitions = min(max(row_count // ROWS_PER_SHUFFLE_PARTITION, 2), MOST_SHUFFLE_PARTITIONS) if large else 1
    return {
        "spark.sql.codegen.wholeStage": str(large).lower(),
        "spark.sql.codegen.factoryMode": "FALLBACK" if large else "NO_CODEGEN",
        "spark.sql.adaptive.enabled": str(large).lower(),
        "spark.sql.shuffle.partitions": str(partitions),
    }


def is_small(row_count: int) -> bool:
    """Whether planning takes longer than so many rows do."""
    return row_count < SMALL_SNAPSHOT_ROWS


def suit_row_count(spark: SparkSession, row_count: int) -> None:
    """Tune a session for the rows of one snapshot, as `size_config` says."""
    for name, value in size_config(row_count).items():
        spark.conf.set(name, value)


def local_master() -> str:
    """Return Spark's local master: a thread per core that this process may use, at least 2 and at most 8.

    More cores than that wait for the catalog's commits; with one thread a broadcast would wait for its query.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"local[{min(max(usable, 2), MOST_LOCAL_CORES)}]"


def local_config(*, runs_for_minutes: bool = False) -> dict[str, str]:
    """Return what a JVM of our own needs besides."""
    jars = jar_paths("iceberg")
    java_options = _LOCAL_JVM_OPTIONS if runs_for_minutes else _SHORT_JVM_OPTIONS
    return {
        # Not spark.jars: that copies 60 MB for each run.
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.driver.extraJavaOptions": java_options + class_archive_options(jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


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


def submit_settings() -> dict[str, Any]:
    """Return what spark-submit needs by name; fetches the jars when they are not there yet.

    `local_master`, `local_conf` and `local_environment` are for a Spark that runs in the submitter's machine alone;
    `jars` and `cluster_conf` for a cluster. The job itself then sees PYSPARK_GATEWAY_PORT and sets only what a session
    may. Nothing of our Python goes to a cluster's workers: jobs use the DataFrame API only, so no worker starts a
    Python.
    """
    jars = [str(path) for path in jar_paths("iceberg")]
    return {
        "local_master": local_master(),
        "local_conf": local_config(),
        "local_environment": LOCAL_ENVIRONMENT,
        # Workers fetch them from the driver, which has them in its class path: JDBC asks the class path for drivers.
        "jars": jars,
        "cluster_conf": {"spark.driver.extraClassPath": ":".join(jars), "spark.ui.showConsoleProgress": "false"},
    }


if __name__ == "__main__":
    json.dump(submit_settings(), sys.stdout)
