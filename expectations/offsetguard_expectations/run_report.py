"""What one run of the invariants found, as records: made from Great Expectations' results, shown by the Data Docs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from offsetguard.model.intervals import Interval
from offsetguard.tables import MANIFEST, Table
from offsetguard_expectations.invariant import ViolationMeans
from offsetguard_expectations.invariants import Check


@dataclass(frozen=True, slots=True)
class Count:
    """The result of one expectation."""

    checked: int  # rows that it speaks about; of an agreement 1, or 0 where nothing can be compared
    violations: int  # rows among them that violate it


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was evaluated. Tables that were not validated have no rows of the interval."""

    counts: dict[tuple[str, str], Count] = field(default_factory=dict)  # by the table that was looked at, and id
    figures: dict[str, int | None] = field(default_factory=dict)  # by name; None: it cannot be compared with another
    not_checked: dict[str, str] = field(default_factory=dict)  # id of an invariant, or name of a figure -> why

    def count(self, table_name: str, id_: str) -> Count:
        """Return an expectation's counts."""
        return self.counts.get((table_name, id_), Count(0, 0))


_WORST_FIRST = (ViolationMeans.DEFECT, ViolationMeans.TROUBLE, ViolationMeans.CORRUPT)


class Verdict(StrEnum):
    """What became of an invariant in one run."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NO_ROWS = "no rows"  # nothing that it speaks about: neither good nor bad
    NOT_CHECKED = "not checked"  # no result arrived, or the check failed: never shown as good


@dataclass(frozen=True, slots=True)
class InvariantOutcome:
    """One invariant in one run."""

    invariant: Check
    rows_checked: int
    violations: int
    examples: tuple[str, ...]  # the first violating rows
    not_checked_because: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst that can be said."""
        if self.not_checked_because is not None:
            return Verdict.NOT_CHECKED
        if self.violations:
            return Verdict.VIOLATED
        return Verdict.HOLDS if self.rows_checked else Verdict.NO_ROWS

    @property
    def unlisted_violations(self) -> int:
        """How many violating rows are not among the examples."""
        return max(0, self.violations - len(self.examples))


@dataclass(frozen=True, slots=True)
class RunReport:
    """All invariants of one cluster and interval."""

    cluster: str
    interval: Interval
    outcomes: tuple[InvariantOutcome, ...]
    not_published_because: tuple[str, ...] = ()  # what the gate found that keeps readers from the interval

    @property
    def violated(self) -> tuple[InvariantOutcome, ...]:
        """The violated invariants: our own defects, then trouble of the cluster by severity, then corrupt rows."""
        violated = [outcome for outcome in self.outcomes if outcome.verdict is Verdict.VIOLATED]
        return tuple(sorted(violated, key=_urgency))

    @property
    def not_checked(self) -> tuple[InvariantOutcome, ...]:
        """The invariants of which nothing is known."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict is Verdict.NOT_CHECKED)

    @property
    def without_rows(self) -> tuple[InvariantOutcome, ...]:
        """The invariants that had nothing to check."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict is Verdict.NO_ROWS)

    @property
    def nothing_seen(self) -> bool:
        """Nothing but the manifest was there to be checked: the snapshot is empty, which is no good news."""
        return all(
            outcome.verdict is Verdict.NO_ROWS for outcome in self.outcomes if outcome.invariant.table != MANIFEST
        )

    @property
    def success(self) -> bool:
        """Every invariant was checked, none is violated, there were rows at all, and readers may see them."""
        return not (self.violated or self.not_checked or self.nothing_seen or self.not_published_because)

    def by_table(self) -> Iterator[tuple[Table, tuple[InvariantOutcome, ...]]]:
        """Yield each table with its invariants, in the order of the suite."""
        for table, outcomes in groupby(self.outcomes, key=lambda outcome: outcome.invariant.table):
            yield table, tuple(outcomes)


def _urgency(outcome: InvariantOutcome) -> tuple[int, int]:
    return _WORST_FIRST.index(outcome.invariant.violation_means), -outcome.invariant.severity.rank
