"""What Spark's errors say, without their stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import PublishError
from offsetguard_spark.connect import telling_line

_FULL = re.compile(r"No space left on device|File too large|Disk quota exceeded|database or disk is full")


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
        found = _FULL.search(f"{error}\n{_stack_trace(error)}")
        if found is None:
            raise
        raise PublishError(
            f"{workspace.home}: cannot be written: {found[0]}; make room on the disk (or raise the quota, or the limit"
            " of file sizes), then run it again"
        ) from error


def _stack_trace(error: Exception) -> str:
    """Return Spark's own stack trace: under an "internal error" it alone says what went wrong."""
    if isinstance(error, SparkConnectGrpcException):
        return error.getStackTrace() or ""
    return str(getattr(error, "_stackTrace", ""))  # of a JVM of our own; PySpark has no public name for it
