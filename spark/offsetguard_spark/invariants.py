"""Invariants of `offsetguard_expectations` on DataFrames: one projection marks the rows, one aggregation counts them.

A row that breaks a corrupt invariant goes to quarantine and nowhere else, so trouble is only counted on the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.facts import InvariantResult
from offsetguard.tables import LANDED, QUARANTINE, UNDECODABLE_RECORDS, Table
from offsetguard_expectations.invariant import Invariant, ViolationMeans
from offsetguard_expectations.invariants import ALL
from offsetguard_spark.tables import spark_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, Row, SparkSession

MAX_EXAMPLES = 20
UNDECODABLE = "UNDECODABLE"  # stands in quarantine.invariant_id for what could not even be read
CORRUPT = "corrupt_invariants"
TROUBLE = "violated_invariants"
_TABLES_BY_NAME = {table.name: table for table in LANDED}


@dataclass(frozen=True, slots=True)
class TableCheck:
    """What one table's rows are: how many, how many of them corrupt or in trouble, and each invariant's result."""

    table_name: str
    row_count: int
    corrupt_row_count: int
    marked_row_count: int  # rows that stay and break at least one trouble invariant
    corrupt_violation_count: int  # pairs of row and corrupt invariant: one quarantine row each
    results: tuple[InvariantResult, ...]

    @property
    def sound_row_count(self) -> int:
        """Rows that stay."""
        return self.row_count - self.corrupt_row_count


def invariants_of(table: Table) -> tuple[Invariant, ...]:
    """Return the invariants that speak about a table's rows."""
    return tuple(invariant for invariant in ALL if invariant.table.name == table.name)


def mark(rows: DataFrame, table: Table) -> DataFrame:
    """Add `corrupt_invariants` and `violated_invariants` (trouble): the ids that each row breaks, never NULL."""
    invariants = invariants_of(table)
    return rows.withColumns(
        {
            CORRUPT: _violated_ids(invariants, ViolationMeans.CORRUPT),
            TROUBLE: _violated_ids(invariants, ViolationMeans.TROUBLE),
        }
    )


def sound_rows(marked: DataFrame) -> DataFrame:
    """Return the rows that break no corrupt invariant."""
    return marked.where(F.size(CORRUPT) == 0)


def check_tables(marked: Mapping[str, DataFrame]) -> dict[str, TableCheck]:
    """Count rows and violations of all tables (by name, marked) in one query; a table that is not given has no rows."""
    queries = [_check_query(rows, _TABLES_BY_NAME[name]) for name, rows in marked.items()]
    rows = reduce(lambda left, right: left.unionAll(right), queries).collect() if queries else []
    return {table.name: _without_rows(table) for table in LANDED} | {
        row["table_name"]: _table_check(row) for row in rows
    }


def quarantine_rows(spark: SparkSession, marked: Mapping[str, DataFrame]) -> DataFrame:
    """Return one row per corrupt row and broken invariant, and one per undecodable record, whole, as JSON.

    `marked`: the tables with such rows.
    """
    parts = [
        _quarantined(
            rows, _TABLES_BY_NAME[name], F.lit(UNDECODABLE) if name == UNDECODABLE_RECORDS.name else F.explode(CORRUPT)
        )
        for name, rows in marked.items()
    ]
    nothing = spark.createDataFrame([], spark_schema(QUARANTINE))
    return reduce(lambda left, right: left.unionAll(right), parts) if parts else nothing


def _violated_ids(invariants: tuple[Invariant, ...], meaning: ViolationMeans) -> Column:
    ids = [F.when(F.expr(one.violated_when), F.lit(one.id)) for one in invariants if one.violation_means == meaning]
    return F.array_compact(F.array(*ids)).cast("array<string>") if ids else F.array().cast("array<string>")


def _quarantined(marked: DataFrame, table: Table, invariant_id: Column) -> DataFrame:
    columns = [column.name for column in table.columns]
    key = [F.coalesce(F.col(name).cast("string"), F.lit("NULL")) for name in table.key if name not in _INTERVAL]
    return marked.select(
        "cluster",
        "interval_start",
        F.lit(table.name).alias("table_name"),
        invariant_id.alias("invariant_id"),
        F.concat_ws(" ", *key).alias("row_key"),
        F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("row_json"),
    ).select(*[column.name for column in QUARANTINE.columns])


_INTERVAL = ("cluster", "interval_start")


def _check_query(marked: DataFrame, table: Table) -> DataFrame:
    results = [_result_struct(invariant) for invariant in invariants_of(table)]
    nothing = F.expr(f"CAST(array() AS {_RESULTS_TYPE})")
    is_sound = F.size(CORRUPT) == 0
    return marked.agg(
        F.count("*").alias("row_count"),
        F.count_if(~is_sound).alias("corrupt_row_count"),
        F.count_if(is_sound & (F.size(TROUBLE) > 0)).alias("marked_row_count"),
        F.coalesce(F.sum(F.size(CORRUPT)), F.lit(0)).alias("corrupt_violation_count"),
        (F.array(*results).cast(_RESULTS_TYPE) if results else nothing).alias("results"),
    ).withColumn("table_name", F.lit(table.name))


_RESULTS_TYPE = (
    "array<struct<invariant_id:string,violation_means:string,rows_checked:bigint,violations:bigint,"
    "examples:array<string>>>"
)


def _result_struct(invariant: Invariant) -> Column:
    """One invariant's figures over the table. The examples are the first in the order of their text."""
    corrupt = invariant.violation_means == ViolationMeans.CORRUPT
    in_scope = F.lit(True) if corrupt else F.size(CORRUPT) == 0
    violated = in_scope & F.array_contains(CORRUPT if corrupt else TROUBLE, invariant.id)
    examples = F.collect_list(F.when(violated, F.coalesce(F.expr(invariant.example), F.lit("(cannot be shown)"))))
    return F.struct(
        F.lit(invariant.id).alias("invariant_id"),
        F.lit(invariant.violation_means.value).alias("violation_means"),
        F.count_if(in_scope & F.expr(invariant.speaks_about)).alias("rows_checked"),
        F.count_if(violated).alias("violations"),
        F.slice(F.array_sort(examples), 1, MAX_EXAMPLES).alias("examples"),
    )


def _without_rows(table: Table) -> TableCheck:
    results = tuple(
        InvariantResult(one.id, table.name, one.violation_means.value, rows_checked=0, violations=0)
        for one in invariants_of(table)
    )
    return TableCheck(table.name, 0, 0, 0, 0, results)


def _table_check(row: Row) -> TableCheck:
    results = tuple(
        InvariantResult(
            invariant_id=result["invariant_id"],
            table_name=row["table_name"],
            violation_means=result["violation_means"],
            rows_checked=result["rows_checked"],
            violations=result["violations"],
            examples=tuple(result["examples"]),
        )
        for result in row["results"]
    )
    return TableCheck(
        table_name=row["table_name"],
        row_count=row["row_count"],
        corrupt_row_count=row["corrupt_row_count"],
        marked_row_count=row["marked_row_count"],
        corrupt_violation_count=row["corrupt_violation_count"],
        results=results,
    )
