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
        Column("violation_means", _S, "corrupt or trouble", nullable=False),
        Column("rows_checked", _I8, "rows that the invariant applies to", nullable=False),
        Column("violations", _I8, "rows that violate it", nullable=False),
        Column("examples", ColumnType.STRING_LIST, "the first violating rows, as text", False),
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
        Column("invariant_id", _S, "the corrupt invariant that it breaks", nullable=False),
        Column("row_key", _S, "the row's key as text", nullable=False),
        Column("row_json", _S, "the whole row as JSON, so that it can be re-driven", nullable=False),
    ),
    retention=FACT_RETENTION,
)
