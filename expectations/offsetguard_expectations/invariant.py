"""An invariant: what must hold for the rows of one table, as SQL that Spark, DuckDB and SQLite all evaluate.

And an agreement: two figures of different tables that must be equal, because they count the same things.

What is allowed in the SQL, so that it means the same everywhere: column names, integer and text literals, comparison,
AND, OR, NOT, IS [NOT] NULL, BETWEEN, COALESCE, CASE, `||`, and `unix_seconds(timestamp)` (Spark's own;
elsewhere a one-line function). Text is joined with `||` from columns that are not NULL, or through `shown`.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from offsetguard.model.verdicts import Severity
from offsetguard.tables import QUARANTINE, Table

EVERY_ROW = "TRUE"  # as `applies_when`

CLOCK_TOLERANCE_S = 300  # how far a broker's clock may be ahead of ours before its times are of no use
SKEW_TOLERANCE_S = 10  # how far before it is said: ages and lags in time are wrong by as much
CORRECT_THE_CLOCKS = (
    "Compare the clocks of the broker and of the host that runs OffsetGuard (`chronyc tracking`) and correct them."
)
REPORT_IT = (
    "Readers keep the last good interval. Report a defect of OffsetGuard with the line above and the landed snapshot"
    " of this interval (its folder below `OFFSETGUARD_HOME/landing`)."
)
MAX_CORRUPT_SHARE = 0.5  # of a table's rows, by one invariant
SUMMABLE = 2**62  # sums in published tables end at 2^63 - 1: with a value beyond this, two levels cannot be compared
MIN_CORRUPT_ROWS = 20  # fewer never stop anything: small clusters have few rows


class ViolationMeans(StrEnum):
    """What a violation says, and so what becomes of the row."""

    CORRUPT = "corrupt"  # the row cannot be right: it goes to quarantine and out of the facts
    TROUBLE = "trouble"  # the row is right and the cluster is not: it stays, is marked, and becomes a finding
    DEFECT = "defect"  # our own figures contradict each other: nothing is published, readers keep the last good state


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One thing that must hold for each row. Ids are stable for ever: messages, tables and docs name them."""

    id: str
    title: str  # what holds in a healthy cluster, in a few words
    violation: str  # what a violation tells, in a few words: the headline of the Data Docs
    table: Table
    violation_means: ViolationMeans = ViolationMeans.TROUBLE
    severity: Severity = Severity.WARNING
    applies_when: str = EVERY_ROW  # SQL condition: the rows that the invariant speaks about
    holds_when: str  # SQL condition: where it is not TRUE (FALSE or NULL), the row violates the invariant
    example: str  # SQL expression, not NULL for a violating row: a short line with its names and figures
    meaning: str  # what it guards, what a violation tells, and what cannot have caused it
    do_next: str  # what the reader of a violation should do
    stops_publication: bool = True  # corrupt: a large share of such rows says that the snapshot was misread

    @property
    def speaks_about(self) -> str:
        """SQL condition, never NULL: the invariant applies to the row (`rows_checked` counts these)."""
        return EVERY_ROW if self.applies_when == EVERY_ROW else f"(({self.applies_when}) IS TRUE)"

    @property
    def violated_when(self) -> str:
        """SQL condition, never NULL: the row violates the invariant; NULL counts as violated, never as held."""
        fails = f"(({self.holds_when}) IS NOT TRUE)"
        return fails if self.speaks_about == EVERY_ROW else f"({self.speaks_about} AND {fails})"

    @property
    def rule_version(self) -> str:
        """Changes when the SQL does: rows in quarantine carry the version that judged them."""
        text = "\n".join((self.id, self.violation_means, self.applies_when, self.holds_when))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def shown(column_name: str) -> str:
    """Return the SQL text of a column that may be NULL; NULL reads `unknown`."""
    return f"COALESCE({column_name} || '', 'unknown')"


def stops_publication(violations: int, rows: int, max_share: float = MAX_CORRUPT_SHARE) -> bool:
    """Whether one invariant's corrupt rows among a table's rows (sound and corrupt) are too many.

    A single bad row, or a few, never stop a publication: they go to quarantine and are counted. When most of a
    table is corrupt, facts of the rest would look like a small and healthy cluster; readers are better off with the
    last good state. Only invariants with `stops_publication` count: left-over offsets or a log's wrong time zone
    say nothing of a snapshot.
    """
    return violations >= MIN_CORRUPT_ROWS and violations > max_share * rows


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a table's rows: an SQL aggregate over whole numbers. NULL: it cannot be compared with another."""

    table: Table
    what: str  # e.g. "queues"
    formula: str  # for people, e.g. "SUM(queue_count)"
    aggregate: str

    def __str__(self) -> str:
        """Name it, for examples."""
        return f"{self.what} in {self.table.name}"

    @property
    def parameter(self) -> str:
        """Its name where suites of other tables are given it."""
        return f"{self.table.name}_{self.what.replace(' ', '_')}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """One thing that must hold between two tables of an interval. Ids are stable for ever, as an invariant's."""

    id: str
    title: str
    violation: str
    figure: Figure
    expected: Figure
    meaning: str
    do_next: str = REPORT_IT
    violation_means: ViolationMeans = ViolationMeans.DEFECT
    severity: Severity = Severity.CRITICAL
    at_most: bool = False  # the first figure may also be the smaller one

    @property
    def table(self) -> Table:
        """The table whose figure is doubted: the one that was made of the other."""
        return self.figure.table

    @property
    def holds_when(self) -> str:
        """SQL, for docs."""
        relation = "<=" if self.at_most else "="
        return (
            f"{self.figure.formula} of {self.figure.table.name} {relation}"
            f" {self.expected.formula} of {self.expected.table.name}"
        )

    def example(self, found: int, expected: int) -> str:
        """Return the line that shows a violation."""
        return f"{self.figure}: {found:,} instead of {'at most ' if self.at_most else ''}{expected:,} ({self.expected})"


def count_of(condition: str) -> str:
    """Return the SQL aggregate that counts the rows which meet a condition."""
    return "COUNT(*)" if condition == EVERY_ROW else f"COUNT(CASE WHEN {condition} THEN 1 END)"


def sum_of(table: Table, expression: str, what: str) -> Figure:
    """Return the sum of what is known of an expression in whole numbers; 0 when nothing is, or there are no rows.

    NULL where a value lies near the ends of int64 (an offset set to 2^63 - 1 does occur).
    """
    wide = f"CAST({expression} AS DECIMAL(38,0))"
    total = f"COALESCE(SUM(CASE WHEN ABS({wide}) < {SUMMABLE} THEN {wide} END), 0)"
    bounded = f"CASE WHEN COALESCE(MAX(ABS({wide})), 0) < {SUMMABLE} THEN {total} END"
    return Figure(table, what, f"SUM({expression})", bounded)


def rows_of(table: Table, what: str, condition: str | None = None, shown_as: str | None = None) -> Figure:
    """Return how many rows there are, or how many meet a condition; `shown_as` is the condition in a few words."""
    if condition is None:
        return Figure(table, what, "COUNT(*)", "COUNT(*)")
    aggregate = f"COALESCE(SUM(CASE WHEN {condition} THEN 1 ELSE 0 END), 0)"
    return Figure(table, what, f"rows with {shown_as or condition}", aggregate)


def row_count_of(table: Table) -> Figure:
    """Return the figure that every table has."""
    return rows_of(table, "rows")


def quarantined_of(table: Table) -> Figure:
    """Return how many rows of a landed table are in quarantine: each has one first reason."""
    return rows_of(QUARANTINE, f"rows of {table.name}", f"table_name = '{table.name}' AND reason_number = 1")


def is_reason(invariant_id: str) -> str:
    """Return the SQL condition of the rows in quarantine that break an invariant."""
    return f"invariant_id = '{invariant_id}'"


def conservation_of(table: Table) -> str:
    """Return the id under which it is told whether a landed table's rows are all there."""
    return f"conservation of {table.name}"


def unwritten_of(table: Table) -> str:
    """Return the name under which the suite of the quarantine is given what landed of a table and was not written."""
    return f"{table.name}_landed_and_not_written"
