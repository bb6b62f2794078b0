"""Counting over many tables in one query: every condition and figure of every table, whatever their number.

Each row is projected to one number with a bit for each condition that it meets, and rows are counted by that number: a
counter for each condition costs several times more, since Java does not compile a loop with dozens of them. Rows meet
few different sets of conditions, so few rows come back, of all tables together. So the number of Spark jobs does not
depend on how many invariants and tables there are: one for all counts, and one more for examples when something is
violated. No aggregate holds rows.
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

    from pyspark.sql import Column, DataFrame, Row, SparkSession

MAX_EXAMPLES = 20
SORTED_UP_TO = 10_000  # rows of one kind; beyond, any examples do: memory must not grow with what is wrong
BITS = 62  # of a BIGINT, whose sign stays out of it
_ONE_JOB = {
    # Adaptive execution would make a job of every table's exchange; each of them moves a few rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class Counting:
    """What to count in one table's rows."""

    name: str  # of the table
    rows: DataFrame
    conditions: tuple[str, ...] = ()  # SQL, never NULL
    figures: tuple[
        str, ...
    ] = ()  # SQL aggregates that add up: over all rows the sum of those over their parts, or NULL

    @property
    def bits(self) -> tuple[str, ...]:
        """The conditions that a row may meet or not, each once."""
        return tuple(dict.fromkeys(one for one in self.conditions if one != EVERY_ROW))


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
        found: dict[str, list[Row]] = {one.name: [] for one in countings}
        for row in query.collect():
            found[row["name"]].append(row)
    return {one.name: _counted(one, found[one.name]) for one in countings}


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
    """Count rows by the conditions that they meet: name, sets (BITS conditions each), row_count, figures."""
    conditions = counting.bits
    sets = {f"set_{at // BITS}": _bits(conditions[at : at + BITS]) for at in range(0, len(conditions), BITS)}
    rows = counting.rows.selectExpr(
        *(["*"] if counting.figures else []), *(f"{bits} AS {name}" for name, bits in sets.items())
    )
    counted = rows.groupBy(*sets).agg(
        F.count(F.lit(1)).alias("row_count"),
        F.expr(f"CAST(ARRAY({', '.join(counting.figures)}) AS ARRAY<DECIMAL(38,0)>)").alias("figures"),
    )
    return counted.selectExpr(
        f"'{counting.name}' AS name", f"CAST(ARRAY({', '.join(sets)}) AS ARRAY<BIGINT>) AS sets", "row_count", "figures"
    )


def _bits(conditions: Sequence[str]) -> str:
    return " | ".join(f"IF({condition}, {1 << bit}L, 0L)" for bit, condition in enumerate(conditions))


def _counted(counting: Counting, groups: Sequence[Row]) -> Counted:
    row_count = sum(group["row_count"] for group in groups)
    meeting = dict.fromkeys(counting.bits, 0) | {EVERY_ROW: row_count}
    for at, condition in enumerate(counting.bits):
        meeting[condition] = sum(group["row_count"] for group in groups if group["sets"][at // BITS] >> at % BITS & 1)
    figures = [[group["figures"][at] for group in groups] for at in range(len(counting.figures))]
    return Counted(
        row_count,
        tuple(meeting[condition] for condition in counting.conditions),
        tuple(None if None in parts else sum(map(int, parts)) for parts in figures),
    )


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
