"""The gate: everything that a run wrote to its branches is read back, counted and judged, before any reader sees it.

One query counts the rows of every table, what every invariant finds in them, and the figures that must agree across
tables; a second one, only when something is violated, fetches examples. What the counts mean is decided here, by
plain numbers:

results    of each invariant and agreement, for `invariant_results` and the Data Docs
problems   why the interval may not be published: rows lost or doubled between landing and writing, a corrupt row that
           was written, figures that contradict each other, so many corrupt rows that the snapshot was misread
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import functions as F

from offsetguard.collect.landing import arrow_schema
from offsetguard.errors import PublishError
from offsetguard.facts import InvariantResult
from offsetguard.tables import INVARIANT_RESULTS, LANDED, MANIFEST, PUBLISHED, QUARANTINE, QUEUE_STATE, Table
from offsetguard_expectations.agreement import Agreement
from offsetguard_expectations.corrupt_share import MAX_CORRUPT_SHARE, stops_publication
from offsetguard_expectations.invariant import Invariant, ViolationMeans
from offsetguard_expectations.invariants import AGREEMENTS, ALL, ROW_INVARIANTS
from offsetguard_spark.counting import Counted, Counting, Sought, count_all, find_examples
from offsetguard_spark.invariants import UNDECODABLE, example_of, invariants_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from offsetguard.collect.manifest import Manifest
    from offsetguard.intervals import Interval
    from offsetguard_expectations.agreement import Figure
    from offsetguard_expectations.invariants import Check

SHOWN_PROBLEM_EXAMPLES = 3
_CORRUPT = tuple(one for one in ROW_INVARIANTS if one.violation_means is ViolationMeans.CORRUPT)
_FIGURES = tuple(dict.fromkeys(figure for one in AGREEMENTS for figure in (one.figure, one.expected)))


class Written(Protocol):
    """Where the rows of a run are read: its branches, or in a test the DataFrames that stand for them."""

    @property
    def spark(self) -> SparkSession:
        """The session that reads."""
        ...

    @property
    def cluster(self) -> str:
        """The cluster of the run."""
        ...

    @property
    def interval(self) -> Interval:
        """The interval of the run."""
        ...

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that the run wrote; every other one has no rows of the interval."""
        ...

    def read(self, table: Table) -> DataFrame:
        """Return the interval's rows of a table as they were written."""
        ...


class Landed(Protocol):
    """What is known of a landed table from its file: rows, and how many of them repeat a key."""

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        ...

    @property
    def duplicate_count(self) -> int:
        """Rows that repeat the key of another one."""
        ...


@dataclass(frozen=True, slots=True)
class GateReport:
    """What the gate found."""

    cluster: str
    interval: Interval
    results: tuple[InvariantResult, ...]  # one per invariant and agreement, in their order
    rows: dict[str, int]  # table name -> rows written; the results themselves are written after the gate
    problems: tuple[str, ...]  # why nothing may be published; empty: publish

    def raise_problems(self) -> None:
        """Raise PublishError naming every problem, if there is one."""
        if self.problems:
            raise PublishError(
                f"{self.cluster} {self.interval.name}: nothing was published: " + "; ".join(self.problems)
            )


def check_written(
    written: Written,
    landed: Mapping[str, Landed],
    manifest: Manifest,
    *,
    previous: Interval | None,
    max_corrupt_share: float = MAX_CORRUPT_SHARE,
) -> GateReport:
    """Count and judge what was written. Raises nothing: the Data Docs of a run that stops here are made first.

    `previous`: the newest interval of the cluster that was published before this one.
    """
    rows = {table: written.read(table) for table in written.tables if table != INVARIANT_RESULTS}
    rows[MANIFEST] = manifest_row(written.spark, manifest, landed, previous)
    counts = _Counts(rows, count_all(written.spark, [_counting(table, one) for table, one in rows.items()]))
    examples = find_examples(written.spark, _sought(rows, counts))
    results = tuple(_result(check, counts, examples) for check in ALL)
    problems = (
        *_not_conserved(landed, counts),
        *_corrupt_written(counts),
        *_defects(results),
        *_too_many_corrupt(results, counts, max_corrupt_share),
    )
    row_counts = {table.name: counts.rows(table) for table in PUBLISHED if table != INVARIANT_RESULTS}
    return GateReport(written.cluster, written.interval, results, row_counts, problems)


def manifest_row(
    spark: SparkSession, manifest: Manifest, landed: Mapping[str, Landed], previous: Interval | None
) -> DataFrame:
    """Return the manifest as the one row of the table that its invariants speak about."""
    row = {
        "cluster": manifest.cluster,
        "interval_start": manifest.interval_start,
        "previous_interval_start": previous and previous.start,
        "started_at": manifest.started_at,
        "finished_at": manifest.finished_at,
        "asked_count": manifest.requests.asked,
        "gap_count": manifest.gap_count,
        "landed_count": sum(table.row_count for table in landed.values()),
        "duplicate_count": sum(table.duplicate_count for table in landed.values()),
        "cluster_unseen": manifest.cluster_unseen,
        "master_count": len(manifest.master_broker_names),
        "unseen_masters": ", ".join(manifest.unseen_broker_names) or None,
        "missing_masters": ", ".join(master.broker_name for master in manifest.missing_masters) or None,
    }
    return spark.createDataFrame(pa.Table.from_pylist([row], schema=arrow_schema(MANIFEST)))


class _Counts:
    """The counts by what they were asked for."""

    def __init__(self, tables: Mapping[Table, DataFrame], counted: Mapping[str, Counted]) -> None:
        self._tables = tables
        self._counted = counted
        self._conditions = {
            (table.name, condition): count
            for table in tables
            for condition, count in zip(_conditions(table), counted[table.name].conditions, strict=True)
        }
        self._figures = {
            figure: value
            for table in tables
            for figure, value in zip(_figures(table), counted[table.name].figures, strict=True)
        }

    def rows(self, table: Table) -> int:
        return self._counted[table.name].row_count if table in self._tables else 0

    def meeting(self, table: Table, condition: str) -> int:
        return self._conditions.get((table.name, condition), 0)

    def figure(self, figure: Figure) -> int | None:
        """Return a figure; a state that this run did not fold says nothing of its interval."""
        return self._figures.get(figure, None if figure.table == QUEUE_STATE else 0)

    def quarantined(self, invariant: Invariant) -> int:
        return self.meeting(QUARANTINE, _is_reason(invariant.id))

    def quarantined_rows(self, table: Table) -> int:
        return self.meeting(QUARANTINE, _is_first_reason(table))


def _conditions(table: Table) -> tuple[str, ...]:
    if table == QUARANTINE:
        ids = (*(one.id for one in _CORRUPT), UNDECODABLE)
        return (*map(_is_reason, ids), *map(_is_first_reason, LANDED))
    return tuple(condition for one in invariants_of(table) for condition in (one.speaks_about, one.violated_when))


def _is_reason(invariant_id: str) -> str:
    return f"invariant_id = '{invariant_id}'"


def _is_first_reason(table: Table) -> str:
    return f"table_name = '{table.name}' AND reason_number = 1"


def _figures(table: Table) -> tuple[Figure, ...]:
    return tuple(figure for figure in _FIGURES if figure.table.name == table.name)


def _counting(table: Table, rows: DataFrame) -> Counting:
    return Counting(table.name, rows, _conditions(table), tuple(figure.aggregate for figure in _figures(table)))


def _sought(rows: Mapping[Table, DataFrame], counts: _Counts) -> list[Sought]:
    sought = []
    for one in ROW_INVARIANTS:
        if one.violation_means is ViolationMeans.CORRUPT:
            if count := counts.quarantined(one):
                sought.append(Sought(one.id, rows[QUARANTINE], _is_reason(one.id), F.col("reason"), count))
        elif count := counts.meeting(one.table, one.violated_when):
            sought.append(Sought(one.id, rows[one.table], one.violated_when, example_of(one), count))
    return sought


def _result(check: Check, counts: _Counts, examples: Mapping[str, tuple[str, ...]]) -> InvariantResult:
    if isinstance(check, Agreement):
        return _agreement_result(check, counts)
    checked = counts.meeting(check.table, check.speaks_about)
    violations = counts.meeting(check.table, check.violated_when)
    if check.violation_means is ViolationMeans.CORRUPT:  # rows that break it are not in the table any more
        violations = counts.quarantined(check)
        checked += violations
    shown = examples.get(check.id, ())
    return InvariantResult(check.id, check.table.name, check.violation_means.value, checked, violations, shown)


def _agreement_result(check: Agreement, counts: _Counts) -> InvariantResult:
    found, expected = counts.figure(check.figure), counts.figure(check.expected)
    has_rows = counts.rows(check.figure.table) + counts.rows(check.expected.table) > 0
    name, means = check.table.name, check.violation_means.value
    if found is None or expected is None or not has_rows:
        return InvariantResult(check.id, name, means, rows_checked=0, violations=0)
    if check.holds(found, expected):
        return InvariantResult(check.id, name, means, rows_checked=1, violations=0)
    return InvariantResult(check.id, name, means, 1, 1, (check.example(found, expected),))


def _not_conserved(landed: Mapping[str, Landed], counts: _Counts) -> list[str]:
    """Every landed row is written or in quarantine, once; those that repeat a key excepted."""
    problems = []
    for table in LANDED:
        found = landed[table.name]
        expected = found.row_count - found.duplicate_count
        written, quarantined = counts.rows(table), counts.quarantined_rows(table)
        if written + quarantined != expected:
            problems.append(f"{table.name}: {written} rows written and {quarantined} in quarantine, {expected} landed")
    return problems


def _corrupt_written(counts: _Counts) -> list[str]:
    return [
        f"{one.table.name}: {count} corrupt rows were written ({one.id})"
        for one in _CORRUPT
        if (count := counts.meeting(one.table, one.violated_when))
    ]


def _defects(results: tuple[InvariantResult, ...]) -> list[str]:
    return [
        f"{check.id} {check.violation}: " + "; ".join(result.examples[:SHOWN_PROBLEM_EXAMPLES])
        for check, result in zip(ALL, results, strict=True)
        if check.violation_means is ViolationMeans.DEFECT and result.violations
    ]


def _too_many_corrupt(results: tuple[InvariantResult, ...], counts: _Counts, max_share: float) -> list[str]:
    problems = []
    for check, result in zip(ALL, results, strict=True):
        if not isinstance(check, Invariant) or not check.stops_publication or check not in _CORRUPT:
            continue
        rows = counts.rows(check.table) + counts.quarantined_rows(check.table)
        if stops_publication(result.violations, rows, max_share):
            problems.append(
                f"{check.id} {check.violation}: {result.violations} of {rows} rows of {check.table.name},"
                f" more than {max_share:.0%}: " + "; ".join(result.examples[:SHOWN_PROBLEM_EXAMPLES])
            )
    return problems
