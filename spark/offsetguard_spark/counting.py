"""Counting over many tables in one query: every condition and figure of every table, whatever their number.

Each table is projected to the conditions and aggregated to one row; the rows of all tables come back together. So the
number of Spark jobs does not depend on how many invariants and tables there are: one for all counts, and one more for
examples when something is violated. No aggregate holds rows: memory is the same when every row violates.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

MAX_EXAMPLES = 20
SORTED_UP_TO = 100_000  # violations; beyond, any examples do: sorting millions of lines would take longer than counting
_ONE_JOB = {
    # Adaptive execution would make a job of every table's exchange; each of them moves one row.
    "spark.sql.adaptive.enabled": "false",
    # Two counters per invariant: beyond 100 fields Spark would interpret the aggregation instead of compiling it.
    "spark.sql.codegen.maxFields": "2000",
}


@dataclass(frozen=True, slots=True)
class Counting:
    """What to count in one table's rows."""

    name: str  # of the table
    rows: DataFrame
    conditions: tuple[str, ...] = ()  # SQL, never NULL
    figures: tuple[str, ...] = ()  # SQL aggregates, whole numbers or NULL


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted, in the order of the questions."""

    row_count: int = 0
    conditions: tuple[int, ...] = ()  # rows that meet each
    figures: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Sought:
    """Rows of which some shall be shown."""

    id: str
    rows: DataFrame  # only those
    line: Column
    count: int  # how many there are


def count_all(spark: SparkSession, countings: Sequence[Counting]) -> dict[str, Counted]:
    """Count everything in one query of one job; returns the answers by name."""
    if not countings:
        return {}
    query = reduce(lambda left, right: left.unionAll(right), [_query(one) for one in countings])
    with _as_one_job(spark):
        return {
            row["name"]: Counted(
                row["row_count"],
                tuple(row["conditions"]),
                tuple(None if figure is None else int(figure) for figure in row["figures"]),
            )
            for row in query.collect()
        }


def find_examples(spark: SparkSession, sought: Sequence[Sought]) -> dict[str, tuple[str, ...]]:
    """Return at most MAX_EXAMPLES lines of each, sorted, by id; one query of one job.

    Up to SORTED_UP_TO rows they are the first in the order of their text, so that a rerun shows the same.
    """
    if not sought:
        return {}
    query = reduce(lambda left, right: left.unionAll(right), [_few(one) for one in sought])
    found: dict[str, list[str]] = {one.id: [] for one in sought}
    with _as_one_job(spark):
        for row in query.collect():
            found[row["id"]].append(row["line"])
    return {id_: tuple(sorted(lines)) for id_, lines in found.items()}


def _query(counting: Counting) -> DataFrame:
    counts = ", ".join(_count(condition) for condition in counting.conditions)
    figures = ", ".join(counting.figures)
    return counting.rows.selectExpr(
        "COUNT(*) AS row_count",
        f"CAST(ARRAY({counts}) AS ARRAY<BIGINT>) AS conditions",
        f"CAST(ARRAY({figures}) AS ARRAY<DECIMAL(38,0)>) AS figures",
    ).withColumn("name", F.lit(counting.name))


def _count(condition: str) -> str:
    return "COUNT(*)" if condition == "TRUE" else f"COUNT_IF({condition})"


def _few(sought: Sought) -> DataFrame:
    lines = sought.rows.select(F.lit(sought.id).alias("id"), sought.line.alias("line"))
    return (lines.orderBy("line") if sought.count <= SORTED_UP_TO else lines).limit(MAX_EXAMPLES)


@contextmanager
def _as_one_job(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in _ONE_JOB}
    changed = {name: value for name, value in _ONE_JOB.items() if before[name] != value}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changed:
            spark.conf.set(name, str(before[name]))
