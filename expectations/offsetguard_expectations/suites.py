"""Invariants as Great Expectations' own expectations, evaluated by GX on the rows: on its Spark and its pandas engine.

GX computes all aggregates of one batch in a single query. So two kinds of metric are enough, both aggregates over the
whole table, and a table costs one Spark job whatever the number of its invariants:

rows meeting a condition   an invariant needs two: the rows that it speaks about, and those that violate it
figure                     an SQL aggregate in whole numbers: what must agree with another table

An invariant's SQL is the same on both engines; for pandas DuckDB runs it, over the columns in the table's own types.

With `checkpoint.py` the only file that imports great_expectations (5 s): import it where a cycle
needs it, never at the top of a DAG. `expectations/README.md` shows how to use a suite in a GX project of your own.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import duckdb
import great_expectations as gx
import pyarrow as pa
from great_expectations.compatibility.pyspark import functions as F  # type: ignore[attr-defined]
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.core.suite_parameters import SuiteParameterDict
from great_expectations.execution_engine.execution_engine import ExecutionEngine
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies

from offsetguard.tables import Table
from offsetguard.tables.table import arrow_schema
from offsetguard_expectations.invariant import EVERY_ROW, Invariant
from offsetguard_expectations.invariants import ROW_INVARIANTS

_TABLES = {one.table.name: one.table for one in ROW_INVARIANTS}
_ROWS = "table.offsetguard_rows"
_ROWS_MEETING = "table.offsetguard_rows_meeting"
_FIGURE = "table.offsetguard_figure"
_DUCKDB_HAS_NOT = "CREATE OR REPLACE TEMP MACRO unix_seconds(moment) AS CAST(FLOOR(EPOCH(moment)) AS BIGINT)"


def suite(table_name: str) -> gx.ExpectationSuite:
    """Return the suite of a table, for any GX batch of its rows; raises KeyError for a table without invariants.

    Each expectation has `meta["id"]`; its result counts the violating rows (`unexpected_count`) among those that the
    invariant speaks about (`element_count`).
    """
    table = _TABLES[table_name]
    expectations = [invariant_expectation(one) for one in ROW_INVARIANTS if one.table == table]
    return gx.ExpectationSuite(table_name, expectations=expectations)


def invariant_expectation(invariant: Invariant) -> ExpectInvariantToHold:
    """Return one invariant as an expectation."""
    return ExpectInvariantToHold(
        table_name=invariant.table.name,
        speaks_about=invariant.speaks_about,
        violated_when=invariant.violated_when,
        description=invariant.title,
        severity=FailureSeverity(invariant.severity.value),
        meta={"id": invariant.id, "violation_means": invariant.violation_means.value},
    )


class TypedRows(TableMetricProvider):
    """GX metric, pandas only: the table's columns of the frame, in the table's types, as DuckDB reads them."""

    metric_name = _ROWS
    value_keys = ("table_name",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805 - GX calls it with the class
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> pa.Table:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return _typed(frame, _TABLES[metric_value_kwargs["table_name"]])


class RowsMeeting(TableMetricProvider):
    """GX metric: how many rows meet an SQL condition that is never NULL."""

    metric_name = _ROWS_MEETING
    value_keys = ("table_name", "condition")

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        return F.expr(_count(metric_value_kwargs["condition"])), metric_domain_kwargs, {}

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> int:
        condition = _with_columns_quoted(metric_value_kwargs["condition"], _TABLES[metric_value_kwargs["table_name"]])
        with duckdb.cursor() as cursor:  # of the process's own connection: a new one takes longer than the query
            cursor.execute(_DUCKDB_HAS_NOT)
            cursor.register("offsetguard_rows", metrics[_ROWS])
            (count,) = cursor.execute(f"SELECT {_count(condition)} FROM offsetguard_rows").fetchall()[0]
        return int(count)

    @classmethod
    def _get_evaluation_dependencies(
        cls,
        metric: MetricConfiguration,
        configuration: Any = None,
        execution_engine: ExecutionEngine[Any] | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> dict[str, MetricConfiguration]:
        found: dict[str, MetricConfiguration] = super()._get_evaluation_dependencies(
            metric, configuration, execution_engine, runtime_configuration
        )
        if isinstance(execution_engine, PandasExecutionEngine):
            table_name = {"table_name": metric.metric_value_kwargs["table_name"]}
            found[_ROWS] = MetricConfiguration(_ROWS, metric.metric_domain_kwargs, table_name)
        return found


class ExpectInvariantToHold(BatchExpectation):
    """No row violates the invariant. Two SQL conditions, neither ever NULL."""

    table_name: str
    speaks_about: str
    violated_when: str

    args_keys: ClassVar[tuple[str, ...]] = ("table_name", "speaks_about", "violated_when")
    success_keys: ClassVar[tuple[str, ...]] = args_keys

    def get_validation_dependencies(
        self,
        execution_engine: ExecutionEngine[Any] | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> ValidationDependencies:
        """Ask for two counts."""
        needed = super().get_validation_dependencies(execution_engine, runtime_configuration)
        domain = {"batch_id": self.configuration.kwargs.get("batch_id")}
        for name, condition in (("element_count", self.speaks_about), ("unexpected_count", self.violated_when)):
            values = {"table_name": self.table_name, "condition": condition}
            needed.set_metric_configuration(name, MetricConfiguration(_ROWS_MEETING, domain, values))
        return needed

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        counts = {name: metrics[name] for name in ("element_count", "unexpected_count")}
        return {"success": counts["unexpected_count"] == 0, "result": counts}


class TableFigure(TableMetricProvider):
    """GX metric, Spark only: a figure, as text: GX makes floats of decimals, and sums outgrow 64 bits."""

    metric_name = _FIGURE
    value_keys = ("aggregate",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        return F.expr(f"CAST({metric_value_kwargs['aggregate']} AS STRING)"), metric_domain_kwargs, {}


class ExpectFigureToBeBetween(BatchExpectation):
    """A figure of the table lies between two values; None bounds nothing.

    The result's `element_count` is 1, or 0 where nothing can be compared: the figure is NULL, or it has no bounds.
    """

    aggregate: str
    min_value: int | SuiteParameterDict[str, Any] | None = None
    max_value: int | SuiteParameterDict[str, Any] | None = None

    args_keys: ClassVar[tuple[str, ...]] = ("aggregate", "min_value", "max_value")
    success_keys: ClassVar[tuple[str, ...]] = args_keys

    def get_validation_dependencies(
        self,
        execution_engine: ExecutionEngine[Any] | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> ValidationDependencies:
        """Ask for the figure."""
        needed = super().get_validation_dependencies(execution_engine, runtime_configuration)
        domain = {"batch_id": self.configuration.kwargs.get("batch_id")}
        needed.set_metric_configuration("figure", MetricConfiguration(_FIGURE, domain, {"aggregate": self.aggregate}))
        return needed

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        figure = None if metrics["figure"] is None else int(metrics["figure"])
        low: Any = self.min_value  # GX has put values in the place of parameters
        high: Any = self.max_value
        compared = figure is not None and (low is not None or high is not None)
        holds = not compared or ((low is None or figure >= low) and (high is None or figure <= high))
        counts = {"element_count": int(compared), "unexpected_count": int(not holds)}
        return {"success": holds, "result": {"observed_value": figure, **counts}}


def _count(condition: str) -> str:
    return "COUNT(*)" if condition == EVERY_ROW else f"COUNT(CASE WHEN {condition} THEN 1 END)"


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
