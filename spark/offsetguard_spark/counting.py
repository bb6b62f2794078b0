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

from offsetguard_expectations.invariant import EVERY_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

MAX_EXAMPLES = 20
SORTED_UP_TO = 10_000  # rows of one kind; beyond, any examples do: memory must not grow with what is wrong
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
    rows: DataFrame
    condition: str  # SQL: which of them
    line: Column  # how one is shown
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

    Up to SORTED_UP_TO rows they are the first in the order of their text, so that a rerun shows the same; all that is
    sought in one table is found in one pass over it then.
    """
    if not sought:
        return {}
    rare = [one for one in sought if one.count <= SORTED_UP_TO]
    tables = {id(one.rows): [other for other in rare if other.rows is one.rows] for one in rare}
    queries = [*map(_first, tables.values()), *(_any(one) for one in sought if one not in rare)]
    query = reduce(lambda left, right: left.unionAll(right), queries)
    found: dict[str, list[str]] = {one.id: [] for one in sought}
    with _as_one_job(spark):
        for row in query.collect():
            found[row["id"]] += row["lines"]
    return {id_: tuple(sorted(lines)[:MAX_EXAMPLES]) for id_, lines in found.items()}


def _query(counting: Counting) -> DataFrame:
    counts = ", ".join(_count(condition) for condition in counting.conditions)
    figures = ", ".join(counting.figures)
    return counting.rows.selectExpr(
        f"'{counting.name}' AS name",
        "COUNT(*) AS row_count",
        f"CAST(ARRAY({counts}) AS ARRAY<BIGINT>) AS conditions",
        f"CAST(ARRAY({figures}) AS ARRAY<DECIMAL(38,0)>) AS figures",
    )


def _count(condition: str) -> str:
    return "COUNT(*)" if condition == EVERY_ROW else f"COUNT_IF({condition})"


def _first(sought: Sequence[Sought]) -> DataFrame:
    """Find the first lines of what is rare in one table."""
    rows = sought[0].rows.where(" OR ".join(f"({one.condition})" for one in sought))
    shown = [
        F.when(F.expr(one.condition), F.struct(F.lit(one.id).alias("id"), one.line.alias("line"))) for one in sought
    ]
    lines = rows.select(F.explode(F.array_compact(F.array(*shown))).alias("found")).select("found.id", "found.line")
    first = F.slice(F.sort_array(F.collect_list("line")), 1, MAX_EXAMPLES)
    return lines.groupBy("id").agg(first.alias("lines"))


def _any(sought: Sought) -> DataFrame:
    """Take some lines of what is frequent: a few rows of each part of the table are read."""
    few = sought.rows.where(sought.condition).limit(MAX_EXAMPLES)
    return few.select(F.lit(sought.id).alias("id"), F.array(sought.line).alias("lines"))


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
