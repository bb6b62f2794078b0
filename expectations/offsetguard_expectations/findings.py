"""What Great Expectations found in the tables of a run, as plain numbers: what the gate judges."""

from __future__ import annotations

from dataclasses import dataclass, field


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
