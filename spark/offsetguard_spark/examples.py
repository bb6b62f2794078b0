"""Examples of rows that violate something: a few lines of each kind, all tables in one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

MAX_EXAMPLES = 20
SORTED_UP_TO = 10_000  # rows of one kind; beyond, any examples do: memory must not grow with what is wrong


@dataclass(frozen=True, slots=True)
class Sought:
    """Rows of which some shall be shown."""

    id: str
    rows: DataFrame
    condition: str  # SQL: which of them
    line: Column  # how one is shown
    count: int  # how many there are


def find_examples(sought: Sequence[Sought]) -> dict[str, tuple[str, ...]]:
    """Return at most MAX_EXAMPLES lines of each, sorted, by id; one query.

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
    for row in query.collect():
        found[row["id"]] += row["lines"]
    return {id_: tuple(sorted(lines)[:MAX_EXAMPLES]) for id_, lines in found.items()}


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
