"""Conservation of rows: what landed was written or is in quarantine, once."""

from __future__ import annotations

from offsetguard.tables import QUARANTINE, Table
from offsetguard_expectations.agreement import Figure, rows_of


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
