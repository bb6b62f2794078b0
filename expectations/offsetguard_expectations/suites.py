"""The quality gate: Great Expectations over the results of the invariants, and its Data Docs.

Spark evaluates the invariants on the written rows in one pass; this validates the small table of their results: one
expectation per invariant, so that an invariant without a result fails as loudly as one with violations. GX builds the
Data Docs with our renderer and view, since its own pages need style sheets and scripts from the internet.
Nothing is sent from here: GX's actions swallow failures.

The only file that imports great_expectations (5 s): import it where a cycle needs it, never at the top of a DAG.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import great_expectations as gx
import pandas as pd
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from offsetguard.errors import PublishError
from offsetguard.intervals import Interval
from offsetguard.rules.rule import Severity
from offsetguard_expectations.invariants import ALL
from offsetguard_expectations.run_page import render_run_page
from offsetguard_expectations.run_report import InvariantOutcome, RunReport
from offsetguard_expectations.site import page_path, publish_page, recent_runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
    from great_expectations.execution_engine import execution_engine as gx_engine

    from offsetguard.facts import InvariantResult
    from offsetguard_expectations.invariants import Check

SUITE_NAME = "OffsetGuard invariants"
_METRIC = "table.offsetguard_invariant_results"
_COLUMNS = ("invariant_id", "rows_checked", "violations", "examples")
_SEVERITY = {
    Severity.CRITICAL: FailureSeverity.CRITICAL,
    Severity.WARNING: FailureSeverity.WARNING,
    Severity.INFO: FailureSeverity.INFO,
}
_BY_ID = {invariant.id: invariant for invariant in ALL}


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """What the gate says of one interval."""

    success: bool  # every invariant was checked, none is violated, and there were rows at all
    violated_ids: tuple[str, ...]
    not_checked_ids: tuple[str, ...]  # no result arrived for them
    data_docs_index: Path  # the newest run of the cluster
    data_docs_page: Path  # this run, for links that must still be right tomorrow


def validate(
    cluster: str,
    interval_start: datetime,
    results: Sequence[InvariantResult],
    data_docs_folder: Path,
    *,
    not_published_because: Sequence[str] = (),
) -> ValidationReport:
    """Validate the results of one interval and publish its page to `<data_docs_folder>/<cluster>/`.

    `not_published_because`: what the gate found that keeps readers from the interval; the page begins with it.
    A repeated run replaces its own page and no other. Raises PublishError when a result belongs to no invariant, when
    two belong to one, or when GX could not build the page.
    """
    _check_ids(results)
    interval = Interval(interval_start)
    cluster_folder = data_docs_folder / cluster
    with tempfile.TemporaryDirectory(prefix="offsetguard-data-docs-") as staging:
        context = _context(cluster, interval, cluster_folder, Path(staging), not_published_because)
        validation = _run(context, interval, results)
        context.build_data_docs(build_index=False)
        html = _built_page(Path(staging), cluster)
    report = run_report(cluster, interval, validation, not_published_because)
    return ValidationReport(
        success=report.success,
        violated_ids=tuple(outcome.invariant.id for outcome in report.violated),
        not_checked_ids=tuple(outcome.invariant.id for outcome in report.not_checked),
        data_docs_index=publish_page(cluster_folder, interval, html),
        data_docs_page=page_path(cluster_folder, interval),
    )


def run_report(
    cluster: str,
    interval: Interval,
    validation: ExpectationSuiteValidationResult,
    not_published_because: Sequence[str] = (),
) -> RunReport:
    """Read our records back from what GX found."""
    outcomes = tuple(_outcome(result.to_json_dict()) for result in validation.results)
    return RunReport(cluster, interval, outcomes, tuple(not_published_because))


class InvariantResults(TableMetricProvider):
    """GX metric: the rows of the results table that belong to one invariant."""

    metric_name = _METRIC
    value_keys = ("invariant_id",)

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805 - GX calls it with the class
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> list[dict[str, Any]]:
        results, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type="table")
        rows: list[dict[str, Any]] = results.to_dict("records")
        return [row for row in rows if row["invariant_id"] == metric_value_kwargs["invariant_id"]]


class ExpectInvariantToHold(BatchExpectation):
    """The results table has exactly one row for the invariant, and it counts no violation."""

    invariant_id: str

    metric_dependencies: ClassVar[tuple[str, ...]] = (_METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = ("invariant_id",)
    args_keys: ClassVar[tuple[str, ...]] = ("invariant_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: gx_engine.ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        found = metrics[_METRIC]
        row = found[0] if len(found) == 1 else None
        return {
            "success": row is not None and row["violations"] == 0,
            "result": {"observed_value": None if row is None else row["violations"], "details": row or {}},
        }


class RunPageRenderer:
    """GX renderer: a validation result becomes our report."""

    def __init__(self, cluster: str, interval_name: str, not_published_because: Sequence[str]) -> None:
        self._cluster = cluster
        self._interval = Interval.from_name(interval_name)
        self._not_published_because = not_published_because

    def render(self, validation: ExpectationSuiteValidationResult) -> RunReport:
        """Do what GX's site builder asks for."""
        return run_report(self._cluster, self._interval, validation, self._not_published_because)


class RunPageView:
    """GX view: our report becomes HTML."""

    def __init__(self, cluster_folder: str) -> None:
        self._cluster_folder = Path(cluster_folder)

    def render(self, report: RunReport, **_: object) -> str:
        """Do what GX's site builder asks for; its options belong to its own templates."""
        return render_run_page(report, recent_runs(self._cluster_folder))


def _check_ids(results: Sequence[InvariantResult]) -> None:
    ids = [result.invariant_id for result in results]
    unknown = sorted(set(ids) - _BY_ID.keys())
    repeated = sorted({one for one in ids if ids.count(one) > 1})
    if unknown or repeated:
        raise PublishError(
            f"results of invariants cannot be validated: unknown ids {unknown}, repeated ids {repeated};"
            " the Spark job and offsetguard_expectations must be of one version"
        )


def _context(
    cluster: str, interval: Interval, cluster_folder: Path, staging: Path, not_published_because: Sequence[str]
) -> EphemeralDataContext:
    """Everything in memory, nothing from the environment, nothing to the network."""
    page = {
        "class_name": "DefaultSiteSectionBuilder",
        "source_store_name": "validation_results_store",
        "renderer": {
            "module_name": __name__,
            "class_name": RunPageRenderer.__name__,
            "cluster": cluster,
            "interval_name": interval.name,
            "not_published_because": list(not_published_because),
        },
        "view": {
            "module_name": __name__,
            "class_name": RunPageView.__name__,
            "cluster_folder": str(cluster_folder),
        },
    }
    site = {
        "class_name": "SiteBuilder",
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(staging)},
        "site_section_builders": {"validations": page, "expectations": "None", "profiling": "None"},
        "show_how_to_buttons": False,
    }
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={"data_docs": site},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _run(
    context: EphemeralDataContext, interval: Interval, results: Sequence[InvariantResult]
) -> ExpectationSuiteValidationResult:
    rows = [(one.invariant_id, one.rows_checked, one.violations, list(one.examples)) for one in results]
    batch_definition = (
        context.data_sources.add_pandas("published")
        .add_dataframe_asset("invariant_results")
        .add_batch_definition_whole_dataframe("interval")
    )
    suite = context.suites.add(gx.ExpectationSuite(SUITE_NAME, expectations=[_expectation(one) for one in ALL]))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=SUITE_NAME, data=batch_definition, suite=suite)
    )
    return definition.run(
        batch_parameters={"dataframe": pd.DataFrame(rows, columns=list(_COLUMNS))},
        run_id=RunIdentifier(run_name=interval.name, run_time=interval.start),
    )


def _expectation(invariant: Check) -> ExpectInvariantToHold:
    return ExpectInvariantToHold(
        invariant_id=invariant.id,
        description=invariant.title,
        severity=_SEVERITY[invariant.severity],
        meta={"table": invariant.table.name, "violation_means": invariant.violation_means.value},
    )


def _outcome(result: dict[str, Any]) -> InvariantOutcome:
    invariant = _BY_ID[result["expectation_config"]["kwargs"]["invariant_id"]]
    row = result["result"].get("details") or {}
    if result["success"] or (row and row["violations"] > 0):
        return InvariantOutcome(invariant, row["rows_checked"], row["violations"], tuple(row["examples"]))
    reason = _exception_message(result["exception_info"]) or "The Spark job gave no result for this invariant."
    return InvariantOutcome(invariant, 0, 0, (), not_checked_because=reason)


def _exception_message(exception_info: dict[str, Any]) -> str | None:
    """GX keeps one record, or one per metric that failed."""
    records = (exception_info, *(record for record in exception_info.values() if isinstance(record, dict)))
    return next((record["exception_message"] for record in records if record.get("exception_message")), None)


def _built_page(staging: Path, cluster: str) -> str:
    """GX logs what goes wrong while it renders, and goes on: a page that is missing or not whole shows it."""
    pages = [page.read_text(encoding="utf-8") for page in staging.glob("validations/**/*.html")]
    if len(pages) != 1 or not pages[0].rstrip().endswith("</html>"):
        raise PublishError(
            f"Data Docs of cluster {cluster}: Great Expectations built no whole page;"
            " its reason is in the log above (logger great_expectations.render)"
        )
    return pages[0]
