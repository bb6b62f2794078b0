"""What the quality gate found: results of the invariants, and the rows that were left out."""

from __future__ import annotations

from offsetguard.tables.columns import (
    CLUSTER,
    INTERVAL_START,
)
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_S, _I4, _I8, _F, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
)

INVARIANT_RESULTS = Table(
    "invariant_results",
    "one row per invariant and interval: what was checked and what was violated",
    ("cluster", "invariant_id", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("invariant_id", _S, "id, e.g. OG-Q01", nullable=False),
        Column("table_name", _S, "the table that was checked", nullable=False),
        Column("violation_means", _S, "corrupt, trouble or defect", nullable=False),
        Column(
            "rows_checked",
            _I8,
            "rows that the invariant applies to; of the rows in quarantine, only those that break it",
            nullable=False,
        ),
        Column("violations", _I8, "rows that violate it", nullable=False),
        Column("examples", ColumnType.STRING_LIST, "at most 20 violating rows, as text", False),
    ),
    retention=FACT_RETENTION,
)
QUARANTINE = Table(
    "quarantine",
    "rows left out of the facts because they cannot be right, with the reason",
    ("cluster", "table_name", "invariant_id", "row_key", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("table_name", _S, "table that the row was meant for", nullable=False),
        Column(
            "invariant_id",
            _S,
            "the corrupt invariant that it breaks; UNDECODABLE: it could not be read",
            nullable=False,
        ),
        Column("row_key", _S, "the row's key as text", nullable=False),
        Column("row_json", _S, "the whole row as JSON, so that it can be re-driven", nullable=False),
        Column("reason", _S, "what is wrong with the row, with its names and figures", nullable=False),
        Column(
            "reason_number",
            _I4,
            "1 for the first invariant that the row breaks, 2 for the second: rows with 1 count rows",
            nullable=False,
        ),
        Column("rule_version", _S, "version of the invariant that said so; it changes with its SQL", nullable=False),
        Column("run_id", _S, "the publication that put the row here", nullable=False),
    ),
    retention=FACT_RETENTION,
)
MANIFEST = Table(
    "manifest",
    "what a collection round says of itself; one row, made of its manifest.json for the gate and not kept",
    ("cluster", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        Column("previous_interval_start", _T, "newest interval published before this one; NULL = there is none"),
        Column("started_at", _T, "when the round began", nullable=False),
        Column("finished_at", _T, "when the round ended", nullable=False),
        Column("asked_count", _I8, "requests that were sent", nullable=False),
        Column("gap_count", _I8, "things that were asked for and not seen", nullable=False),
        Column("landed_count", _I8, "rows that landed, all tables", nullable=False),
        Column("duplicate_count", _I8, "rows among them that repeat a key", nullable=False),
        Column("cluster_unseen", _B, "no name server answered", nullable=False),
        Column("master_count", _I8, "masters that the name server lists", nullable=False),
        Column("unseen_masters", _S, "names of those that gave no offsets; NULL = all did"),
        Column("missing_masters", _S, "masters of earlier rounds that are not listed any more; NULL = none"),
    ),
)
