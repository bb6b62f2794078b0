"""What the quality gate found: results of the invariants, and the rows that were left out."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from offsetguard.tables.table import FACT_RETENTION, Int32, Table, row_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantResult:
    """What one invariant found in the interval."""

    invariant_id: Annotated[str, "id, e.g. OG-Q01"]
    table_name: Annotated[str, "the table that was checked"]
    violation_means: Annotated[str, "corrupt, trouble or defect"]
    rows_checked: Annotated[
        int, "rows that the invariant applies to; of the rows in quarantine, only those that break it"
    ]
    violations: Annotated[int, "rows that violate it"]
    examples: Annotated[tuple[str, ...], "at most 20 violating rows, as text"] = ()


INVARIANT_RESULTS = Table(
    "invariant_results",
    "one row per invariant and interval: what was checked and what was violated",
    ("cluster", "invariant_id", "interval_start"),
    row_of(InvariantResult),
    retention=FACT_RETENTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """One row and one invariant that it breaks."""

    table_name: Annotated[str, "table that the row was meant for"]
    invariant_id: Annotated[str, "the corrupt invariant that it breaks; UNDECODABLE: it could not be read"]
    row_key: Annotated[str, "the row's key as text"]
    row_json: Annotated[str, "the whole row as JSON, so that it can be re-driven"]
    reason: Annotated[str, "what is wrong with the row, with its names and figures"]
    reason_number: Annotated[
        Int32, "1 for the first invariant that the row breaks, 2 for the second: rows with 1 count rows"
    ]
    rule_version: Annotated[str, "version of the invariant that said so; it changes with its SQL"]
    run_id: Annotated[str, "the publication that put the row here"]


QUARANTINE = Table(
    "quarantine",
    "rows left out of the facts because they cannot be right, with the reason",
    ("cluster", "table_name", "invariant_id", "row_key", "interval_start"),
    row_of(Quarantined),
    retention=FACT_RETENTION,
)


class _Manifest:
    previous_interval_start: Annotated[
        datetime | None, "newest interval published before this one; NULL = there is none"
    ]
    started_at: Annotated[datetime, "when the round began"]
    finished_at: Annotated[datetime, "when the round ended"]
    asked_count: Annotated[int, "requests that were sent"]
    gap_count: Annotated[int, "things that were asked for and not seen"]
    landed_count: Annotated[int, "rows that landed, all tables"]
    duplicate_count: Annotated[int, "rows among them that repeat a key"]
    cluster_unseen: Annotated[bool, "no name server answered"]
    master_count: Annotated[int, "masters that the name server lists"]
    unseen_masters: Annotated[str | None, "names of those that gave no offsets; NULL = all did"]
    missing_masters: Annotated[str | None, "masters of earlier rounds that are not listed any more; NULL = none"]


MANIFEST = Table(
    "manifest",
    "what a collection round says of itself; one row, made of its manifest.json for the gate and not kept",
    ("cluster", "interval_start"),
    row_of(_Manifest),
)
