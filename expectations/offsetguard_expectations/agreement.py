"""An agreement: two figures of different tables that must be equal, because they count the same things."""

from __future__ import annotations

from dataclasses import dataclass

from offsetguard.model.verdicts import Severity
from offsetguard.tables import Table
from offsetguard_expectations.invariant import ViolationMeans

SUMMABLE = 2**62  # sums in published tables end at 2^63 - 1: with a value beyond this, two levels cannot be compared


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
    do_next: str
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
