"""Rows of our tables as of a snapshot, with the columns of this release whatever release wrote them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from offsetguard.lake.reading.catalog import NO_SNAPSHOT, load_table, metadata_location
from offsetguard.lake.reading.data_files import DataFiles, Projection
from offsetguard.lake.reading.plan import FilePlans, Kept, RowFilter
from offsetguard.model.errors import PublishError
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.store.settled_intervals import RETENTION_PASSED
from offsetguard.tables import Table
from offsetguard.tables.arrow import arrow_schema

_STATES_KEPT = 64  # more than there are tables


class SnapshotReader:
    """Reads tables at given snapshots. Keep one for many reads: it remembers what never changes (see `plan.py`)."""

    def __init__(self, catalog: Callable[[], SqlCatalog], files: DataFiles | None = None) -> None:
        self._catalog = catalog
        self._states: Kept[IcebergTable] = Kept(_STATES_KEPT, lambda _: 1)
        self._plans = FilePlans()
        self._files = files or DataFiles()

    def interval(self, table: Table, published: PublishedInterval) -> pa.Table:
        """Return a table's rows of one published interval, ordered by key.

        The columns are those of this release; what an earlier one did not write is NULL. Raises PublishError naming
        table and snapshot when the catalog, the table, the snapshot or a file of it is not there.
        """
        this = RowFilter(published.cluster, published.interval.start, published.interval.end)
        return ordered(self.published_rows(table, published, this), table.key)

    def published_rows(self, table: Table, published: PublishedInterval, wanted: RowFilter) -> pa.Table:
        """Return rows of the snapshot that a published interval names, in no particular order."""
        snapshot_id = published.snapshot_ids.get(table.name, NO_SNAPSHOT)  # an earlier release may not know the table
        if snapshot_id == NO_SNAPSHOT:
            return table_schema(table).empty_table()
        if snapshot_id == RETENTION_PASSED:
            raise PublishError(
                f"{table.name}: rows of {published.cluster} {published.interval.name} were deleted: retention passed"
            )
        state = self.load(table)
        snapshot = state.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise snapshot_is_gone(table, snapshot_id, f"{published.cluster} {published.interval.name}")
        return self.rows(table, state, snapshot, wanted)

    def load(self, table: Table) -> IcebergTable:
        """Return a table's metadata as they are now; raises PublishError."""
        catalog = self._catalog()
        return self._states.get(metadata_location(catalog, table), lambda: load_table(catalog, table))

    def rows(
        self,
        table: Table,
        state: IcebergTable,
        snapshot: Snapshot,
        wanted: RowFilter,
        names: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return rows of a snapshot with the columns `names` (all by default), in no particular order."""
        every = table_schema(table)
        columns = Projection(every, _field_ids(table, state), names or every.names)
        try:
            files = self._plans.files(state, snapshot, wanted)
            return self._files.read(state.io, files, columns, wanted)
        except (OSError, ValueError) as error:  # what pyarrow and pyiceberg say of damaged files are ValueErrors
            raise PublishError(f"{table.name}: snapshot {snapshot.snapshot_id}: {error}") from error


def table_schema(table: Table, names: Sequence[str] | None = None) -> pa.Schema:
    """Return a table's columns; any may be NULL, because an earlier release may not have had it."""
    every = [field.with_nullable(True) for field in arrow_schema(table)]
    return pa.schema([field for field in every if names is None or field.name in names])


def ordered(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows ordered by columns, NULL first."""
    keys = [(name, "ascending", "at_start") for name in names]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def snapshot_is_gone(table: Table, snapshot_id: int, whose: str) -> PublishError:
    """Return the error that a published snapshot was expired."""
    return PublishError(
        f"{table.name}: the published snapshot {snapshot_id} of {whose} is not in the table any more;"
        " publish the interval again (--again)"
    )


def _field_ids(table: Table, state: IcebergTable) -> dict[str, int | None]:
    """Return Iceberg's number of each column; None where the table does not have it yet."""
    fields = {field.name: field.field_id for field in state.schema().fields}
    return {c.name: fields.get(c.name) for c in table.columns}
