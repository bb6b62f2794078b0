"""Published facts of one workspace: an interval, one group's past, the newest state of all queues; no Spark, no JVM.

What may be seen is said by `published_intervals`, never by a table's newest state:
- an interval is read at the snapshot ids of its own row;
- a past of many intervals is read at the newest snapshot that was published, which holds all of them as they were last
  published (main only moves forward), and of it only intervals that have a row;
- the newest state of the queues is read at the snapshot id of the newest published interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.lake.iceberg_catalog import sqlite_file
from offsetguard.lake.reading.catalog import NO_SNAPSHOT, open_catalog
from offsetguard.lake.reading.plan import INTERVAL_START, Kept, RowFilter, matching
from offsetguard.lake.reading.snapshot_reader import SnapshotReader, ordered, snapshot_is_gone, table_schema
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.settled_intervals import RETENTION_PASSED
from offsetguard.tables import GROUP_FACTS, Table

_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_STARTS_KEPT = 16  # spans of time; pages of many groups ask for the same one


class FactReader:
    """Reads what was published into a workspace; keep one for many reads, from any number of threads.

    `engine`: of the database that has `published_intervals`. All rows are Arrow tables with the columns of this
    release. All methods raise PublishError, naming table and snapshot, when the catalog, a table, a published snapshot
    or a file of it is not there or cannot be read.
    """

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._workspace = workspace
        self._engine = engine
        self._catalog: SqlCatalog | None = None
        self._snapshots = SnapshotReader(self._open_catalog)
        self._starts: Kept[pa.Array] = Kept(_STARTS_KEPT, lambda _: 1)

    def interval(self, table: Table, cluster: str, interval: Interval) -> pa.Table:
        """Return a table's rows of one interval, ordered by key; none when it was not published."""
        published = published_intervals.get(self._engine, cluster, interval)
        return table_schema(table).empty_table() if published is None else self._snapshots.interval(table, published)

    def group_history(
        self,
        cluster: str,
        consumer_group: str,
        since: datetime,
        until: datetime,
        *,
        table: Table = GROUP_FACTS,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return one consumer group's rows of the published intervals that start in [since, until), oldest first.

        `table`: one with a column `consumer_group`; `columns`: those that are needed, of the table's (all by default).
        """
        return self._history(table, RowFilter(cluster, since, until, consumer_group), columns)

    def history(
        self, table: Table, cluster: str, since: datetime, until: datetime, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return a table's rows of the published intervals that start in [since, until), oldest first."""
        return self._history(table, RowFilter(cluster, since, until), columns)

    def _history(self, table: Table, wanted: RowFilter, columns: Sequence[str] | None) -> pa.Table:
        names = [column.name for column in table.columns if columns is None or column.name in columns]
        ids = published_intervals.recent_snapshot_ids(self._engine, wanted.cluster, table.name) - {
            NO_SNAPSHOT,
            RETENTION_PASSED,
        }
        if not ids:
            return table_schema(table, names).empty_table()
        state = self._snapshots.load(table)
        known = [snapshot for snapshot in map(state.snapshot_by_id, ids) if snapshot is not None]
        if not known:
            raise snapshot_is_gone(table, max(ids), wanted.cluster)
        newest = max(known, key=lambda snapshot: snapshot.sequence_number or 0)
        in_order = [INTERVAL_START, *(name for name in table.key if name != INTERVAL_START)]
        rows = self._snapshots.rows(table, state, newest, wanted, [*names, *(n for n in in_order if n not in names)])
        return ordered(self._only_published(rows, wanted), in_order).select(names)

    def newest_rows(self, table: Table, cluster: str) -> pa.Table:
        """Return a cluster's rows of a table that keeps only the newest ones, as of its newest published interval.

        `queue_state` has one row per queue, 200,000 at once: columns, not records.
        """
        published = published_intervals.newest(self._engine, cluster)
        if published is None:
            return table_schema(table).empty_table()
        return self._snapshots.published_rows(table, published, RowFilter(cluster))

    def _only_published(self, rows: pa.Table, wanted: RowFilter) -> pa.Table:
        """Leave out what a publication wrote that was killed before its row was there."""
        cluster, since, until = wanted.cluster, wanted.since or _FIRST, wanted.until or _LAST
        start = rows.column(INTERVAL_START)
        changes = published_intervals.count_and_newest(self._engine, cluster, since, until)
        published = self._starts.get(
            f"{cluster} {since} {until} {changes}",
            lambda: pa.array(published_intervals.starts(self._engine, cluster, since, until), start.type),
        )
        return matching(rows, pc.is_in(start, value_set=published))

    def _open_catalog(self) -> SqlCatalog:
        # A deleted file can be read on; tables that are gone from PostgreSQL are missed by the next query.
        file = sqlite_file(self._workspace)
        if self._catalog is None or (file is not None and not file.exists()):
            self._catalog = open_catalog(self._workspace)
        return self._catalog
