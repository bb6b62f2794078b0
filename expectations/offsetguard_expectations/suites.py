"""Invariants as Great Expectations' own expectations, evaluated by GX on the rows: on its Spark and its pandas engine.

One metric has all aggregates of a table, by cluster (`aggregates_of`), and each expectation is judged by its own of
them: a table costs one query, whatever the number of its invariants and of the clusters that it holds.

rows meeting a condition   an invariant needs two: the rows that it speaks about, and those that violate it
figure                     an SQL aggregate in whole numbers: what must agree with another table

An invariant's SQL is the same on both engines; for pandas DuckDB runs it, over the columns in the table's own types.

With `checkpoint.py` the only file that imports great_expectations (5 s): import it where a cycle
needs it, never at the top of a DAG. `expectations/README.md` shows how to use a suite in a GX project of your own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import duckdb
import great_expectations as gx
import pyarrow as pa
from great_expectations.compatibility.pyspark import AnalysisException  # type: ignore[attr-defined]
from great_expectations.compatibility.pyspark import functions as F  # type: ignore[attr-defined]
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.execution_engine import ExecutionEngine
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies

from offsetguard.tables import Table
from offsetguard.tables.table import arrow_schema
from offsetguard_expectations.invariant import Invariant, count_of
from offsetguard_expectations.invariants import ROW_INVARIANTS, TABLES, aggregates_of

_TABLES = {one.name: one for one in TABLES}
_COUNTED = "table.offsetguard_counted"
_DUCKDB_HAS_NOT = """CREATE OR REPLACE TEMP MACRO unix_seconds(moment) AS CAST(FLOOR(EPOCH(moment)) AS BIGINT);
CREATE OR REPLACE TEMP MACRO size(list) AS LEN(list)"""


def suite(table_name: str) -> gx.ExpectationSuite:
    """Return the suite of a table, for any GX batch of its rows; raises KeyError for a table without invariants.

    Each expectation has `meta["id"]`; its result counts the violating rows (`unexpected_count`) among those that the
    invariant speaks about (`element_count`), and both of each cluster in `details["by_cluster"]`.
    """
    expectations = [invariant_expectation(one) for one in ROW_INVARIANTS if one.table.name == table_name]
    if not expectations:
        raise KeyError(table_name)
    return gx.ExpectationSuite(table_name, expectations=expectations)


def invariant_expectation(invariant: Invariant) -> "ExpectInvariantToHold":
    """Return one invariant as an expectation."""
    return ExpectInvariantToHold(
        table_name=invariant.table.name,
        speaks_about=invariant.speaks_about,
        violated_when=invariant.violated_when,
        description=invariant.title,
        severity=FailureSeverity(invariant.severity.value),
        meta={"id": invariant.id, "violation_means": invariant.violation_means.value},
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """What a table's SQL aggregates are, cluster by cluster. A cluster without rows is not named."""

    by_cluster: Mapping[str, Mapping[str, int | None]]  # cluster -> aggregate -> its value
    failed: Mapping[str, str]  # aggregate that could not be evaluated -> why

    def of(self, aggregate: str) -> dict[str, int | None]:
        """Return the values of one aggregate by cluster; raises ValueError where it could not be evaluated."""
        if aggregate in self.failed:
            raise ValueError(self.failed[aggregate])
        return {cluster: values[aggregate] for cluster, values in self.by_cluster.items()}


class AggregatesByCluster(TableMetricProvider):
    """GX metric: every aggregate that a table's expectations need, by cluster, in one query.

    Not a metric for each, which GX would put into one query as well: that query has one row.
    """

    metric_name = _COUNTED
    value_keys = ("table_name",)

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805 - GX calls it with the class
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> Counted:
        rows, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return _counted_by_spark(rows, aggregates_of(metric_value_kwargs["table_name"]))

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> Counted:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return _counted_by_duckdb(frame, _TABLES[metric_value_kwargs["table_name"]])


class _OfAggregates(BatchExpectation):
    """An expectation that is judged by aggregates of the whole table, cluster by cluster."""

    table_name: str

    def get_validation_dependencies(
        self,
        execution_engine: ExecutionEngine[Any] | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> ValidationDependencies:
        """Ask for the table's aggregates, which GX computes once for all of its expectations."""
        needed = super().get_validation_dependencies(execution_engine, runtime_configuration)
        domain = {"batch_id": self.configuration.kwargs.get("batch_id")}
        values = {"table_name": self.table_name}
        needed.set_metric_configuration("counted", MetricConfiguration(_COUNTED, domain, values))
        return needed


class ExpectInvariantToHold(_OfAggregates):
    """No row violates the invariant. Two SQL conditions, neither ever NULL."""

    speaks_about: str
    violated_when: str

    args_keys: ClassVar[tuple[str, ...]] = ("table_name", "speaks_about", "violated_when")
    success_keys: ClassVar[tuple[str, ...]] = args_keys

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        counted: Counted = metrics["counted"]
        checked, violating = counted.of(count_of(self.speaks_about)), counted.of(count_of(self.violated_when))
        found = {cluster: (checked[cluster], violating[cluster]) for cluster in checked}
        return _result(not any(violating.values()), found)


class ExpectFigureToBeBetween(_OfAggregates):
    """A figure of the table lies between two values, in each cluster; None bounds nothing.

    The result's `element_count` is 1 for each cluster, or 0 where nothing can be compared: the figure is NULL, or it
    has no bounds. A cluster without rows has the figure 0.
    """

    aggregate: str
    min_value: dict[str, Any] | None = None  # cluster -> value, or the suite parameter with these
    max_value: dict[str, Any] | None = None

    args_keys: ClassVar[tuple[str, ...]] = ("table_name", "aggregate", "min_value", "max_value")
    success_keys: ClassVar[tuple[str, ...]] = args_keys

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        figures = metrics["counted"].of(self.aggregate)
        least, most = self.min_value or {}, self.max_value or {}  # GX has put values in the place of parameters
        found = {}
        for cluster in dict.fromkeys((*figures, *least, *most)):
            figure, low, high = figures.get(cluster, 0), least.get(cluster), most.get(cluster)
            compared = figure is not None and (low is not None or high is not None)
            holds = not compared or ((low is None or figure >= low) and (high is None or figure <= high))
            found[cluster] = int(compared), int(not holds)
        return _result(not any(violating for _, violating in found.values()), found, figures)


def _result(
    success: bool, found: Mapping[str, tuple[Any, Any]], figures: Mapping[str, int | None] | None = None
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "element_count": sum(checked for checked, _ in found.values()),
        "unexpected_count": sum(violating for _, violating in found.values()),
        "details": {"by_cluster": dict(found)},
    }
    if figures is not None:
        result["observed_value"] = dict(figures)
    return {"success": success, "result": result}


def _counted_by_spark(rows: Any, aggregates: Sequence[str]) -> Counted:
    try:
        return Counted(_by_cluster(rows, aggregates), {})
    except AnalysisException:  # a column is missing; usually none is, and looking for it would cost
        failed = {aggregate: why for aggregate in aggregates if (why := _why_not(rows, aggregate))}
        return Counted(_by_cluster(rows, [one for one in aggregates if one not in failed]), failed)


def _by_cluster(rows: Any, aggregates: Sequence[str]) -> dict[str, dict[str, int | None]]:
    of_each = [F.expr(f"CAST({aggregate} AS STRING)") for aggregate in aggregates]  # sums outgrow 64 bits
    found = rows.groupBy("cluster").agg(*of_each).collect()
    return {
        cluster: {aggregate: None if one is None else int(one) for aggregate, one in zip(aggregates, row, strict=True)}
        for cluster, *row in found
    }


def _why_not(rows: Any, aggregate: str) -> str | None:
    try:
        rows.agg(F.expr(aggregate)).schema  # noqa: B018 - what makes Connect analyse it
    except AnalysisException as error:
        return str(error).strip().splitlines()[0]
    return None


def _counted_by_duckdb(frame: Any, table: Table) -> Counted:
    rows = _typed(frame, table)
    if not len(rows):
        return Counted({}, {})
    aggregates = aggregates_of(table.name)
    shown = ", ".join(_with_columns_quoted(one, table) for one in aggregates)
    with duckdb.cursor() as cursor:  # of the process's own connection: a new one takes longer than the query
        cursor.execute(_DUCKDB_HAS_NOT)
        cursor.register("offsetguard_rows", rows)
        found = cursor.execute(f"SELECT cluster, {shown} FROM offsetguard_rows GROUP BY cluster").fetchall()
    return Counted({cluster: dict(zip(aggregates, row, strict=True)) for cluster, *row in found}, {})


def _with_columns_quoted(condition: str, table: Table) -> str:
    """Quote the names of columns: `at` is a word of DuckDB's own."""
    names = "|".join(column.name for column in table.columns)
    return re.sub(
        rf"'[^']*'|\b(?:{names})\b", lambda found: found[0] if "'" in found[0] else f'"{found[0]}"', condition
    )


def _typed(frame: Any, table: Table) -> pa.Table:
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    rows = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    return rows.cast(pa.schema([(field.name, _without_zone(field.type)) for field in schema]))


def _without_zone(type_: pa.DataType) -> pa.DataType:
    """Return a time of UTC without its zone: what DuckDB makes of it then depends on no session's time zone."""
    return pa.timestamp(type_.unit) if pa.types.is_timestamp(type_) else type_
