"""An invariant: what must hold for the rows of one table, as SQL that Spark, DuckDB and SQLite all evaluate.

What is allowed in the SQL, so that it means the same everywhere: column names, integer and text literals, comparison,
AND, OR, NOT, IS [NOT] NULL, BETWEEN, COALESCE, CASE, `||`, and `unix_seconds(timestamp)` (Spark's own;
elsewhere a one-line function). Text is joined with `||` from columns that are not NULL, or through `shown`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from offsetguard.model.verdicts import Severity
from offsetguard.tables import Table

EVERY_ROW = "TRUE"  # as `applies_when`

CLOCK_TOLERANCE_S = 300  # how far a broker's clock may be ahead of ours before its times are of no use
SKEW_TOLERANCE_S = 10  # how far before it is said: ages and lags in time are wrong by as much
CORRECT_THE_CLOCKS = (
    "Compare the clocks of the broker and of the host that runs OffsetGuard (`chronyc tracking`) and correct them."
)
MAX_CORRUPT_SHARE = 0.5  # of a table's rows, by one invariant
MIN_CORRUPT_ROWS = 20  # fewer never stop anything: small clusters have few rows


class ViolationMeans(StrEnum):
    """What a violation says, and so what becomes of the row."""

    CORRUPT = "corrupt"  # the row cannot be right: it goes to quarantine and out of the facts
    TROUBLE = "trouble"  # the row is right and the cluster is not: it stays, is marked, and becomes a finding
    DEFECT = "defect"  # our own figures contradict each other: nothing is published, readers keep the last good state


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that must hold for each row. Ids are stable for ever: messages, tables and docs name them."""

    id: str
    title: str  # what holds in a healthy cluster, in a few words
    violation: str  # what a violation tells, in a few words: the headline of the Data Docs
    table: Table
    violation_means: ViolationMeans
    severity: Severity
    applies_when: str  # SQL condition: the rows that the invariant speaks about
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
