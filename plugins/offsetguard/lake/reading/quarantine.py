"""Rows in quarantine: which they are, why they are there, and which intervals they belong to; no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from offsetguard.lake.reading.fact_reader import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUARANTINE

UNDECODABLE = "UNDECODABLE"  # instead of an invariant's id: what could not even be read


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """One row and one invariant that it breaks. None: put there by a release that did not keep it."""

    cluster: str
    interval: Interval
    table_name: str
    invariant_id: str
    row_key: str
    row_json: str
    reason: str | None
    reason_number: int | None
    rule_version: str | None
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows; None: any."""

    cluster: str
    since: datetime
    until: datetime
    table_name: str | None = None
    invariant_id: str | None = None


def quarantined_rows(reader: FactReader, wanted: Wanted) -> list[QuarantinedRow]:
    """Return the rows of published intervals, newest interval first; raises PublishError when they cannot be read."""
    found = reader.history(QUARANTINE, wanted.cluster, wanted.since, wanted.until)
    rows = [
        QuarantinedRow(
            cluster=row["cluster"],
            interval=Interval(row["interval_start"]),
            table_name=row["table_name"],
            invariant_id=row["invariant_id"],
            row_key=row["row_key"],
            row_json=row["row_json"],
            reason=row["reason"],
            reason_number=row["reason_number"],
            rule_version=row["rule_version"],
            run_id=row["run_id"],
        )
        for row in found.to_pylist()
        if wanted.table_name in (None, row["table_name"]) and wanted.invariant_id in (None, row["invariant_id"])
    ]
    order = sorted(rows, key=lambda row: (row.table_name, row.row_key, row.reason_number or 0))
    return sorted(order, key=lambda row: row.interval, reverse=True)


def intervals_to_redrive(rows: list[QuarantinedRow]) -> list[Interval]:
    """Return the intervals with rows that can be judged again, oldest first.

    What could not be decoded has no columns that an invariant could look at: it is left out.
    """
    return sorted({row.interval for row in rows if row.invariant_id != UNDECODABLE})
