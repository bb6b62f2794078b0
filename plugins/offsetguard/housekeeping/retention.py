"""How long each table's rows are kept, and deleting those that are older: by whole days, without reading a row."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from pyiceberg.expressions import LessThan, Reference
from pyiceberg.expressions.literals import literal

from offsetguard.housekeeping.table_files import HOUSEKEEPING_PROPERTY, live_files
from offsetguard.tables.table import FACT_RETENTION, RAW_RETENTION

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

    from offsetguard.config import Retention
    from offsetguard.tables import Table


def kept_for(table: Table, retention: Retention) -> timedelta | None:
    """Return how long a table's rows are kept; None: it holds only the newest ones."""
    configured = {
        RAW_RETENTION: timedelta(days=retention.snapshots_days),
        FACT_RETENTION: timedelta(days=retention.facts_days),
    }
    return None if table.retention is None else configured.get(table.retention, table.retention)


def kept_from(kept: timedelta, now: datetime) -> datetime:
    """Return the start of the oldest interval that is kept: the first of a day, UTC."""
    return datetime.combine((now.astimezone(UTC) - kept).date(), time(), UTC)


def delete_older(iceberg_table: IcebergTable, moment: datetime) -> int:
    """Delete the rows of all intervals before a moment; returns how many files went. The caller holds the lock.

    Only files that are older as a whole go, so that none has to be written again.
    """
    iceberg_table.refresh()
    older = [file for file in live_files(iceberg_table) if file.last < moment]
    if older:
        before = LessThan(term=Reference("interval_start"), value=literal(moment.isoformat()))
        iceberg_table.delete(before, snapshot_properties={HOUSEKEEPING_PROPERTY: "retention"})
    return len(older)
