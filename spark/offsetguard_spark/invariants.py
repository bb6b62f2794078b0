"""Invariants of `offsetguard_expectations` on rows before they are written: which are sound, which are corrupt and why.

Everything here is lazy. A row that breaks a corrupt invariant goes to quarantine and nowhere else.

`find_examples` shows rows that violate something: a few lines of each kind, all tables in one query.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import version

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.model.intervals import Interval, Minute
from offsetguard.tables import LANDED, QUARANTINE, UNDECODABLE_RECORDS, Table
from offsetguard_expectations.invariant import Invariant, ViolationMeans
from offsetguard_expectations.invariants import ROW_INVARIANTS
from offsetguard_spark.tables import nothing

UNDECODABLE = "UNDECODABLE"  # stands in quarantine.invariant_id for what could not even be read
CORRUPT = "corrupt_invariants"
CANNOT_BE_SHOWN = "(cannot be shown)"
_TABLES_BY_NAME = {table.name: table for table in LANDED}
_INTERVAL = ("cluster", "interval_start")


def invariants_of(table: Table) -> tuple[Invariant, ...]:
    """Return the invariants that speak about a table's rows."""
    return tuple(invariant for invariant in ROW_INVARIANTS if invariant.table.name == table.name)


def corrupt_invariants_of(table: Table) -> tuple[Invariant, ...]:
    """Return those of them that send a row to quarantine."""
    return tuple(one for one in invariants_of(table) if one.violation_means is ViolationMeans.CORRUPT)


def mark(rows: DataFrame, table: Table) -> DataFrame:
    """Add `corrupt_invariants`: the ids of those that send the row to quarantine, never NULL.

    Not by `withColumns`: a Connect server analyses what lies below it once more.
    """
    return rows.select("*", _violated_ids(corrupt_invariants_of(table)).alias(CORRUPT))


def sound_rows(marked: DataFrame) -> DataFrame:
    """Return the rows that break no corrupt invariant."""
    return marked.where(F.size(CORRUPT) == 0)


def quarantine_rows(spark: SparkSession, marked: Mapping[str, DataFrame], *, run_id: str) -> DataFrame:
    """Return one row per corrupt row and broken invariant, and one per undecodable record, whole, as JSON.

    `marked`: the tables with such rows, by name.
    """
    parts = [_quarantined(rows, _TABLES_BY_NAME[name], run_id) for name, rows in marked.items()]
    return reduce(lambda left, right: left.unionAll(right), parts) if parts else nothing(spark, QUARANTINE)


def example_of(invariant: Invariant) -> Column:
    """Return the line that shows a violating row."""
    return F.coalesce(F.expr(invariant.example), F.lit(CANNOT_BE_SHOWN))


def _violated_ids(invariants: tuple[Invariant, ...]) -> Column:
    ids = [F.when(F.expr(one.violated_when), F.lit(one.id)) for one in invariants]
    return (F.array_compact(F.array(*ids)) if ids else F.array()).cast("array<string>")


def _quarantined(marked: DataFrame, table: Table, run_id: str) -> DataFrame:
    columns = [column.name for column in table.columns]
    key = [F.coalesce(F.col(name).cast("string"), F.lit("NULL")) for name in table.key if name not in _INTERVAL]
    whole = marked.select(
        *_INTERVAL,
        F.lit(table.name).alias("table_name"),
        F.concat_ws(" ", *key).alias("row_key"),
        F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("row_json"),
        F.lit(run_id).alias("run_id"),
        F.posexplode(_reasons(table)).alias("position", "broken"),
    )
    reasons = {
        "invariant_id": F.col("broken.invariant_id"),
        "reason": F.col("broken.reason"),
        "rule_version": F.col("broken.rule_version"),
        "reason_number": F.col("position") + 1,
    }
    return whole.withColumns(reasons).select(*[column.name for column in QUARANTINE.columns])


def _reasons(table: Table) -> Column:
    """Return what is wrong with a row: an array of invariant id, reason and rule version, in the invariants' order."""
    if table == UNDECODABLE_RECORDS:
        return F.array(_reason(UNDECODABLE, F.col("reason"), f"offsetguard {version('offsetguard')}"))
    broken = [
        F.when(F.expr(one.violated_when), _reason(one.id, example_of(one), one.rule_version))
        for one in corrupt_invariants_of(table)
    ]
    return F.array_compact(F.array(*broken))


def _reason(invariant_id: str, reason: Column, rule_version: str) -> Column:
    return F.struct(
        F.lit(invariant_id).alias("invariant_id"),
        reason.alias("reason"),
        F.lit(rule_version).alias("rule_version"),
    )


MAX_EXAMPLES = 20
SORTED_UP_TO = 10_000  # rows of one kind; beyond, any examples do: memory must not grow with what is wrong


@dataclass(frozen=True, slots=True)
class Sought:
    """Rows of one interval of a cluster of which some shall be shown."""

    minute: Minute
    id: str
    rows: DataFrame
    condition: str  # SQL: which of them
    line: Column  # how one is shown
    count: int  # how many there are


def find_examples(sought: Sequence[Sought]) -> dict[tuple[Minute, str], tuple[str, ...]]:
    """Return at most MAX_EXAMPLES lines of each, sorted, by interval of a cluster, and id; one query.

    Up to SORTED_UP_TO rows they are the first in the order of their text, so that a rerun shows the same; all that is
    sought in one table is found in one pass over it then, for all clusters and intervals.
    """
    if not sought:
        return {}
    rare = [one for one in sought if one.count <= SORTED_UP_TO]
    tables = {id(one.rows): [other for other in rare if other.rows is one.rows] for one in rare}
    queries = [*map(_first, tables.values()), *(_any(one) for one in sought if one not in rare)]
    query = reduce(lambda left, right: left.unionAll(right), queries)
    found: dict[tuple[Minute, str], list[str]] = {(one.minute, one.id): [] for one in sought}
    for row in query.collect():
        minute = row["cluster"], Interval(datetime.fromtimestamp(row["start_s"], UTC))
        found[minute, row["id"]] += row["lines"]
    return {key: tuple(sorted(lines)[:MAX_EXAMPLES]) for key, lines in found.items()}


def _first(sought: Sequence[Sought]) -> DataFrame:
    """Find the first lines of what is rare in one table."""
    alike: dict[tuple[str, str], list[Sought]] = {}
    for one in sought:
        alike.setdefault((one.id, one.condition), []).append(one)
    shown, conditions = [], []
    for (id_, condition), of_each in alike.items():
        is_one = F.expr(condition) & _is_of(one.minute for one in of_each)
        conditions.append(is_one)
        shown.append(F.when(is_one, F.struct(F.lit(id_).alias("id"), of_each[0].line.alias("line"))))
    rows = sought[0].rows.where(reduce(lambda left, right: left | right, conditions))
    lines = rows.select("cluster", _start_s(), F.explode(F.array_compact(F.array(*shown))).alias("found"))
    first = F.slice(F.sort_array(F.collect_list("found.line")), 1, MAX_EXAMPLES)
    return lines.groupBy("cluster", "start_s", F.col("found.id").alias("id")).agg(first.alias("lines"))


def _any(sought: Sought) -> DataFrame:
    """Take some lines of what is frequent: a few rows of each part of the table are read."""
    few = sought.rows.where(F.expr(sought.condition) & _is_of([sought.minute])).limit(MAX_EXAMPLES)
    return few.select("cluster", _start_s(), F.lit(sought.id).alias("id"), F.array(sought.line).alias("lines"))


def _is_of(minutes: Iterable[Minute]) -> Column:
    clusters: dict[Interval, list[str]] = {}
    for cluster, interval in minutes:
        clusters.setdefault(interval, []).append(cluster)
    of_each = ((F.col("interval_start") == one.start) & F.col("cluster").isin(*clusters[one]) for one in clusters)
    return reduce(lambda left, right: left | right, of_each)


def _start_s() -> Column:
    return F.unix_seconds("interval_start").alias("start_s")
