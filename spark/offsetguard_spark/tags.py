"""Names on the Spark jobs of a cycle: in Spark's pages and event log one sees what each is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag the jobs that this thread starts. Spark allows no comma in a tag."""
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)
