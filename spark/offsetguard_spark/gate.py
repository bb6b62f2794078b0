"""The gate: Great Expectations evaluates everything that a run wrote to its branches, before any reader sees it.

Every table is one query, whatever the number of clusters and intervals: a Spark job, or, where all rows are few, one on
DuckDB behind GX's engine for pandas. One Spark job more fetches examples where something is violated. What was counted
is judged here, each interval of each cluster by itself, by plain numbers:

results      of each invariant and agreement that was checked, for `invariant_results` and the Data Docs
problems     why the interval may not be published: rows lost or doubled between landing and writing, a corrupt row that
             was written, figures that contradict each other, so many corrupt rows that the snapshot was misread
not checked  what could not be evaluated; nothing is published then either
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.model.intervals import Minute
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import INVARIANT_RESULTS, LANDED, MANIFEST, PUBLISHED, QUARANTINE, QUEUE_STATE, Table
from offsetguard.tables.facts import InvariantResult
from offsetguard.tables.table import arrow_schema
from offsetguard_expectations.data_docs import Count, Findings, InvariantOutcome, RunReport
from offsetguard_expectations.invariant import (
    MAX_CORRUPT_SHARE,
    Agreement,
    Figure,
    Invariant,
    ViolationMeans,
    conservation_of,
    is_reason,
    quarantined_of,
    row_count_of,
    stops_publication,
)
from offsetguard_expectations.invariants import AGREEMENTS, ALL, CORRUPT, ROW_INVARIANTS, Check
from offsetguard_spark.branches import Branches
from offsetguard_spark.invariants import Sought, example_of, find_examples
from offsetguard_spark.landed import Landed, LandedTable
from offsetguard_spark.minutes import Minutes, columns_of
from offsetguard_spark.tables import as_frame

AT_ONCE = 4  # tables: small ones mostly wait for Spark
TAG = "gate"  # of the Spark jobs
SHOWN_PROBLEM_EXAMPLES = 3
_ONE_JOB = {
    # Adaptive execution would make a job of every exchange; each of them moves a row.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class GateReport(RunReport):
    """What the gate found, and the Data Docs show."""

    rows: dict[str, int] = field(default_factory=dict)  # table name -> rows written; the results come after the gate
    not_evaluated: dict[str, str] = field(default_factory=dict)  # id, or name of a figure -> why; empty: publish

    @property
    def problem(self) -> str | None:
        """Return every problem, or what was not evaluated; None: readers may see the cluster's interval."""
        if self.not_published_because:
            problems = "; ".join(self.not_published_because)
            return f"{self.cluster} {self.interval.name}: nothing was published: {problems}"
        if self.not_evaluated:  # violations are published as what they are; what was not checked is not
            reasons = "; ".join(dict.fromkeys(self.not_evaluated.values()))
            return f"invariants without a result: {', '.join(self.not_evaluated)}; nothing published: {reasons}"
        return None

    @property
    def results(self) -> tuple[InvariantResult, ...]:
        """What is kept: one per invariant and agreement that was checked, in their order."""
        return tuple(
            InvariantResult(
                invariant_id=one.invariant.id,
                table_name=one.invariant.table.name,
                violation_means=one.invariant.violation_means.value,
                rows_checked=one.rows_checked,
                violations=one.violations,
                examples=one.examples,
            )
            for one in self.outcomes
            if one.not_checked_because is None
        )


def check_written(
    written: Branches,
    state: DataFrame | None,
    landed: Mapping[Minute, Landed],
    previous: Mapping[str, PublishedInterval | None],
    data_docs_folder: Path,
) -> dict[Minute, GateReport]:
    """Evaluate and judge what was written, and write the page of each to `<data_docs_folder>/<cluster>/`.

    `state`: `queue_state` after each interval, of which the last one is written; None: there is but one. `landed`:
    oldest first. `previous`: of each cluster the newest interval published before.

    Returns a report of each; it says whether readers may see the interval (`problem`). A repeated run replaces its own
    pages and no others.
    """
    from offsetguard_expectations.checkpoint import validate  # noqa: PLC0415 - seconds, for those who publish only

    spark, minutes = written.spark, written.minutes
    manifests = pa.Table.from_pylist(list(_manifest_rows(landed.values(), previous)), schema=arrow_schema(MANIFEST))
    rows: dict[Table, DataFrame | pa.Table] = {
        table: written.rows(table) if written.small else written.read(table) for table in _tables_to_read(written)
    }
    if state is not None and QUEUE_STATE in rows:
        rows[QUEUE_STATE] = state
    rows[MANIFEST] = manifests
    frame = cache(lambda table: _spark_frame(spark, table, rows[table]))  # the same one, however often it is asked for
    reports: dict[Minute, GateReport] = {}

    def judge(findings: Mapping[str, Findings]) -> Iterable[RunReport]:
        judgements = [_Judgement(minute, one.tables, findings[minutes.name(minute)]) for minute, one in landed.items()]
        examples = find_examples([sought for one in judgements for sought in one.sought(frame)])
        reports.update((one.minute, one.report(examples)) for one in judgements)
        return reports.values()

    named = {
        table: _pandas_frame(minutes, of_it) if written.small else minutes.named(frame(table), columns_of(table))
        for table, of_it in rows.items()
    }
    expected = {minutes.name(minute): one.row_counts for minute, one in landed.items()}
    with _one_job_per_query(spark), ThreadPoolExecutor(AT_ONCE, initializer=spark.addTag, initargs=(TAG,)) as pool:
        validate(minutes.intervals[-1], named, expected, judge, data_docs_folder, pool=pool)
    return reports


def _spark_frame(spark: SparkSession, table: Table, rows: DataFrame | pa.Table) -> DataFrame:
    return as_frame(spark, table, rows) if isinstance(rows, pa.Table) else rows


def _pandas_frame(minutes: Minutes, rows: DataFrame | pa.Table) -> pd.DataFrame:
    """Return rows as pandas keeps Arrow's: by its own types, whole numbers beside NULL would become floats."""
    plain = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return minutes.named_rows(plain).to_pandas(types_mapper=pd.ArrowDtype)


def _manifest_rows(
    landed: Iterable[Landed], previous: Mapping[str, PublishedInterval | None]
) -> Iterator[dict[str, Any]]:
    """Yield each manifest as the row of the table that its invariants speak about."""
    previous_start = {cluster: one.interval.start if one else None for cluster, one in previous.items()}
    for one in landed:
        yield _manifest_row(one, previous_start.get(one.manifest.cluster))
        previous_start[one.manifest.cluster] = one.manifest.interval_start


def _manifest_row(landed: Landed, previous_start: datetime | None) -> dict[str, Any]:
    manifest = landed.manifest
    return {
        "cluster": manifest.cluster,
        "interval_start": manifest.interval_start,
        "previous_interval_start": previous_start,
        "started_at": manifest.started_at,
        "finished_at": manifest.finished_at,
        "asked_count": manifest.requests.asked,
        "gap_count": manifest.gap_count,
        "landed_count": sum(table.row_count for table in landed.tables.values()),
        "duplicate_count": landed.duplicate_count,
        "cluster_unseen": manifest.cluster_unseen,
        "master_count": len(manifest.master_broker_names),
        "unseen_masters": ", ".join(manifest.unseen_broker_names) or None,
        "missing_masters": ", ".join(master.broker_name for master in manifest.missing_masters) or None,
    }


def _tables_to_read(written: Branches) -> list[Table]:
    """Return what was written, and besides what must agree with it; a state that was not folded is not compared."""
    agreeing = (one.figure.table for one in AGREEMENTS if one.expected.table in written.tables)
    compared = {*written.tables, QUARANTINE, *(table for table in agreeing if table != QUEUE_STATE)}
    return [table for table in PUBLISHED if table in compared and table != INVARIANT_RESULTS]


@dataclass(frozen=True, slots=True)
class _Judgement:
    """What the findings about one interval of a cluster mean."""

    minute: Minute
    landed: Mapping[str, LandedTable]
    findings: Findings

    def report(self, examples: Mapping[tuple[Minute, str], tuple[str, ...]]) -> GateReport:
        """Judge; `examples`: by interval of a cluster, and id."""
        not_checked = self._not_checked()
        outcomes = tuple(
            InvariantOutcome(check, 0, 0, (), not_checked_because=not_checked[check.id])
            if check.id in not_checked
            else self._outcome(check, examples.get((self.minute, check.id), ()))
            for check in ALL
        )
        problems = (
            *self._not_conserved(),
            *self._corrupt_written(),
            *_defects(outcomes),
            *self._too_many_corrupt(outcomes),
        )
        row_counts = {table.name: self._rows(table) for table in PUBLISHED if table != INVARIANT_RESULTS}
        return GateReport(*self.minute, outcomes, problems, row_counts, not_checked)

    def sought(self, frame: Callable[[Table], DataFrame]) -> Iterator[Sought]:
        """Yield the rows of which examples are shown. `frame`: of a table."""
        not_checked = self._not_checked()
        for one in ROW_INVARIANTS:
            if one.id in not_checked:
                continue
            if one.violation_means is ViolationMeans.CORRUPT:
                if count := self._quarantined(one):
                    reason = is_reason(one.id)
                    yield Sought(self.minute, one.id, frame(QUARANTINE), reason, F.col("reason"), count)
            elif count := self.findings.count(one.table.name, one.id).violations:
                yield Sought(self.minute, one.id, frame(one.table), one.violated_when, example_of(one), count)

    def _not_checked(self) -> dict[str, str]:
        """Return what was not evaluated, and the agreements of figures that were not."""
        found = self.findings.not_checked
        behind = {
            one.id: found[str(figure)]
            for one in AGREEMENTS
            for figure in (one.figure, one.expected)
            if str(figure) in found
        }
        return found | behind

    def _rows(self, table: Table) -> int:
        return self.findings.figures.get(row_count_of(table).parameter) or 0

    def _quarantined_rows(self, table: Table) -> int:
        return self.findings.figures.get(quarantined_of(table).parameter) or 0

    def _figure(self, figure: Figure) -> int | None:
        """Return a figure; a state that this run did not fold says nothing of its interval."""
        return self.findings.figures.get(figure.parameter, None if figure.table == QUEUE_STATE else 0)

    def _quarantined(self, invariant: Invariant) -> int:
        return self.findings.count(QUARANTINE.name, invariant.id).violations

    def _outcome(self, check: Check, examples: tuple[str, ...]) -> InvariantOutcome:
        count = self.findings.count(check.table.name, check.id)
        if isinstance(check, Agreement):
            if not self._rows(check.figure.table) + self._rows(check.expected.table):  # nothing to agree on
                return InvariantOutcome(check, 0, 0, ())
            found, expected = self._figure(check.figure), self._figure(check.expected)
            if count.violations and found is not None and expected is not None:
                examples = (check.example(found, expected),)
        elif check.violation_means is ViolationMeans.CORRUPT:  # rows that break it are not in the table any more
            quarantined = self._quarantined(check)
            count = Count(count.checked + quarantined, quarantined)
        return InvariantOutcome(check, count.checked, count.violations, examples)

    def _not_conserved(self) -> list[str]:
        """Every landed row is written or in quarantine, once; those that repeat a key excepted."""
        return [
            f"{table.name}: {self._rows(table)} rows written and {self._quarantined_rows(table)} in quarantine,"
            f" {self.landed[table.name].key_count} landed"
            for table in LANDED
            if self.findings.count(QUARANTINE.name, conservation_of(table)).violations
        ]

    def _corrupt_written(self) -> list[str]:
        return [
            f"{one.table.name}: {count} corrupt rows were written ({one.id})"
            for one in CORRUPT
            if (count := self.findings.count(one.table.name, one.id).violations)
        ]

    def _too_many_corrupt(self, outcomes: tuple[InvariantOutcome, ...]) -> list[str]:
        problems = []
        for one in outcomes:
            check = one.invariant
            if not isinstance(check, Invariant) or not check.stops_publication or check not in CORRUPT:
                continue
            rows = self._rows(check.table) + self._quarantined_rows(check.table)
            if stops_publication(one.violations, rows):
                problems.append(
                    f"{check.id} {check.violation}: {one.violations} of {rows} rows of {check.table.name},"
                    f" more than {MAX_CORRUPT_SHARE:.0%}: {_first_examples(one)}"
                )
        return problems


def _defects(outcomes: tuple[InvariantOutcome, ...]) -> list[str]:
    return [
        f"{one.invariant.id} {one.invariant.violation}: {_first_examples(one)}"
        for one in outcomes
        if one.invariant.violation_means is ViolationMeans.DEFECT and one.violations
    ]


def _first_examples(outcome: InvariantOutcome) -> str:
    return "; ".join(outcome.examples[:SHOWN_PROBLEM_EXAMPLES])


@contextmanager
def _one_job_per_query(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in _ONE_JOB}
    changed = {name: value for name, value in _ONE_JOB.items() if before[name] != value}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changed:
            spark.conf.set(name, str(before[name]))
