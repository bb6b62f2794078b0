"""What Spark's errors say, without their stack traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


def first_line(error: PySparkException | Py4JError) -> str:
    """Return the first line."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
