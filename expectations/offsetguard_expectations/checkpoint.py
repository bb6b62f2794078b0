"""One Checkpoint over all tables that a run wrote: GX evaluates their suites, and one action tells it in Data Docs.

To the invariants of each table come the figures that must agree across tables. What one table's figures are is given
to the suites of the others as suite parameters, so a table is validated after those that it is compared with, and side
by side with all others. The quarantine comes last: with the rows that were written it makes up what landed.

The tables hold the rows of any number of clusters: figures and what they must agree with are by cluster, and each
cluster is judged by itself.

GX catches whatever goes wrong while it evaluates: that is "not checked" here, never passed. The action sends nothing,
since GX would swallow its failure.

With `suites.py` the only file that imports great_expectations (5 s).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Literal

import great_expectations as gx
import pandas as pd
from great_expectations.checkpoint.actions import ActionContext, ValidationAction
from great_expectations.checkpoint.checkpoint import CheckpointResult
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from offsetguard.config.workspace import why_unwritten
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.tables import LANDED, QUARANTINE, QUEUE_STATE, Table
from offsetguard_expectations import invariant
from offsetguard_expectations.data_docs import Count, Findings, RunReport, publish_run
from offsetguard_expectations.invariants import AGREEMENTS, COMPARED, CORRUPT, ROW_INVARIANTS, figures_of
from offsetguard_expectations.suites import (
    ExpectFigureToBeBetween,
    ExpectInvariantToHold,
    invariant_expectation,
)


def validate(
    interval: Interval,
    frames: Mapping[Table, Any],
    landed: Mapping[str, Mapping[Table, int]],
    judge: Callable[[Mapping[str, Findings]], Iterable[RunReport]],
    data_docs_folder: Path,
    *,
    pool: Executor,
) -> None:
    """Validate a frame of each table, in a pool's threads; `judge` what was found and write a page per cluster.

    `frames`: all of them Spark's, or all of them pandas'. `landed`: of each cluster the rows of each landed table,
    those that repeat a key left out.
    """
    context = _context()
    assets = [{"name": one.name, "type": "dataframe", "batch_definitions": [{"name": one.name}]} for one in frames]
    options: dict[str, Any] = {"assets": assets}  # each asset that came later would cost 10 ms
    source: Any
    if all(isinstance(one, pd.DataFrame) for one in frames.values()):
        source = context.data_sources.add_pandas("written", **options)
    else:
        source = context.data_sources.add_spark("written", persist=False, **options)
    definitions = []
    for table in frames:
        data = source.get_asset(table.name).get_batch_definition(table.name)
        suite = context.suites.add(gx.ExpectationSuite(table.name, expectations=list(_expectations(table))))
        definition = gx.ValidationDefinition(name=table.name, data=data, suite=suite)
        definitions.append(context.validation_definitions.add(definition))
    page = WriteDataDocs()
    page._judge, page._folder, page._clusters = judge, data_docs_folder, tuple(landed)
    checkpoint = WrittenTables(name="written", validation_definitions=definitions, actions=[page])
    checkpoint._pool, checkpoint._clusters = pool, tuple(landed)
    checkpoint.run(
        batch_parameters={table.name: frame for table, frame in frames.items()},
        expectation_parameters=_parameters(landed),
        run_id=RunIdentifier(run_name=interval.name, run_time=interval.start),
    )


class WrittenTables(gx.Checkpoint):
    """GX's own loop validates one table after the other, and has the same frame for each."""

    _pool: Any = PrivateAttr()
    _clusters: Any = PrivateAttr()

    def _run_validation_definitions(
        self,
        batch_parameters: dict[str, Any],
        expectation_parameters: dict[str, Any],
        result_format: Any,
        run_id: RunIdentifier,
    ) -> dict[Any, ExpectationSuiteValidationResult]:
        """Run each as soon as those have ended that it needs. `batch_parameters`: the frame of each, by name."""
        definitions = {one.name: one for one in self.validation_definitions}
        running: dict[str, Future[ExpectationSuiteValidationResult]] = {}

        def run(name: str, needed: list[Future[ExpectationSuiteValidationResult]]) -> ExpectationSuiteValidationResult:
            for other in needed:
                other.result()
            found = definitions[name].run(
                checkpoint_id=self.id,
                batch_parameters={"dataframe": batch_parameters[name]},
                expectation_parameters=expectation_parameters,
                result_format=result_format,
                run_id=run_id,
            )
            _give_on(found, self._clusters, expectation_parameters)
            return found

        needs = _needs(definitions)
        for name in TopologicalSorter(needs).static_order():  # so nobody waits for what stands behind him in the queue
            running[name] = self._pool.submit(run, name, [running[other] for other in needs[name]])
        return {
            self._build_result_key(definitions[name], run_id, found.result().batch_id): found.result()
            for name, found in running.items()
        }


class WriteDataDocs(ValidationAction):
    """Judges what was found and writes the page of each cluster."""

    type: Literal["offsetguard_data_docs"] = "offsetguard_data_docs"
    name: str = "data_docs"
    _judge: Any = PrivateAttr()
    _folder: Any = PrivateAttr()
    _clusters: Any = PrivateAttr()

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, str]:
        """Do what a Checkpoint asks for. Raises PublishError when a page cannot be written."""
        written = {}
        for report in self._judge(read_findings(checkpoint_result.run_results.values(), self._clusters)):
            folder = self._folder / report.cluster
            try:
                written[report.cluster] = str(publish_run(folder, report))
            except OSError as error:
                raise PublishError(f"Data Docs: {why_unwritten(folder, error)}") from error
        return written


def read_findings(
    validations: Iterable[ExpectationSuiteValidationResult], clusters: Iterable[str]
) -> dict[str, Findings]:
    """Read numbers back from GX's results, by cluster; what could not be evaluated is not checked in any of them."""
    findings = {cluster: Findings() for cluster in clusters}
    for validation in validations:
        for result in validation.results:
            meta: dict[str, Any] = result.expectation_config.meta  # type: ignore[union-attr]
            why = _exception_message(result)
            for cluster, found in findings.items():
                if why is not None:
                    found.not_checked[meta["id"]] = why
                    continue
                counts = result.result["details"]["by_cluster"].get(cluster, (0, 0))
                found.counts[validation.suite_name, meta["id"]] = Count(*counts)
                if "figure" in meta:
                    found.figures[meta["figure"]] = result.result["observed_value"].get(cluster, 0)
    return findings


def _expectations(table: Table) -> Iterator[Expectation]:
    yield from (invariant_expectation(one) for one in ROW_INVARIANTS if one.table.name == table.name)
    for figure in figures_of(table):
        yield _figure_expectation(figure, str(figure))
    yield from (_agreement_expectation(one) for one in AGREEMENTS if one.table.name == table.name)
    if table == QUARANTINE:
        yield from _quarantine_expectations()


def _quarantine_expectations() -> Iterator[Expectation]:
    for one in CORRUPT:
        yield ExpectInvariantToHold(
            table_name=QUARANTINE.name,
            speaks_about=invariant.EVERY_ROW,
            violated_when=invariant.is_reason(one.id),
            description=one.title,
            severity=FailureSeverity(one.severity.value),
            meta={"id": one.id},
        )
    for table in LANDED:
        unwritten = {"$PARAMETER": invariant.unwritten_of(table)}
        yield _figure_expectation(
            invariant.quarantined_of(table), invariant.conservation_of(table), unwritten, unwritten
        )


def _agreement_expectation(agreement: invariant.Agreement) -> ExpectFigureToBeBetween:
    expected = {"$PARAMETER": agreement.expected.parameter}
    return _figure_expectation(agreement.figure, agreement.id, None if agreement.at_most else expected, expected)


def _figure_expectation(
    figure: invariant.Figure, id_: str, min_value: Any = None, max_value: Any = None
) -> ExpectFigureToBeBetween:
    meta = {"id": id_, "figure": figure.parameter}
    return ExpectFigureToBeBetween(
        table_name=figure.table.name,
        aggregate=figure.aggregate,
        min_value=min_value,
        max_value=max_value,
        description=id_,
        meta=meta,
    )


def _needs(names: Iterable[str]) -> dict[str, set[str]]:
    """Return by table the tables whose figures its suite is given."""
    needs: dict[str, set[str]] = {name: set() for name in names}
    for one in AGREEMENTS:
        if {one.figure.table.name, one.expected.table.name} <= needs.keys():
            needs[one.figure.table.name].add(one.expected.table.name)
    if QUARANTINE.name in needs:
        needs[QUARANTINE.name] |= {table.name for table in LANDED if table.name in needs}
    return needs


def _parameters(landed: Mapping[str, Mapping[Table, int]]) -> dict[str, Any]:
    """Return what the figures are of tables that are not validated: a state that was not folded says nothing."""
    without_rows = {one.parameter: dict.fromkeys(landed, None if one.table == QUEUE_STATE else 0) for one in COMPARED}
    return without_rows | {
        invariant.unwritten_of(table): {cluster: of_each[table] for cluster, of_each in landed.items()}
        for table in LANDED
    }


def _give_on(validation: ExpectationSuiteValidationResult, clusters: Iterable[str], parameters: dict[str, Any]) -> None:
    """Make a table's figures the parameters of the suites behind it; one that could not be made compares nothing."""
    figures = {cluster: found.figures for cluster, found in read_findings([validation], clusters).items()}
    name = validation.suite_name
    for one in COMPARED:
        if one.table.name == name:
            parameters[one.parameter] = {cluster: of_it.get(one.parameter) for cluster, of_it in figures.items()}
    for table in LANDED:
        if table.name == name:
            written = invariant.row_count_of(table).parameter
            landed = parameters[invariant.unwritten_of(table)]
            parameters[invariant.unwritten_of(table)] = {
                cluster: None if (count := of_it.get(written)) is None else landed[cluster] - count
                for cluster, of_it in figures.items()
            }


def _context() -> EphemeralDataContext:
    """Everything in memory, nothing from the environment, nothing to the network."""
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _exception_message(result: ExpectationValidationResult) -> str | None:
    """GX keeps one record, or one per metric that failed. Of a page of Spark's plan or stack trace the first line."""
    info: dict[str, Any] = result.exception_info or {}
    records = [info, *(record for record in info.values() if isinstance(record, dict))]
    raised = [record for record in records if record.get("raised_exception")]
    return (
        (str(raised[0].get("exception_message")).strip() or "for no reason given").splitlines()[0] if raised else None
    )
