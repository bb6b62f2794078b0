"""Published facts of one workspace: an interval, a table's or one group's past; no Spark, no JVM.

What may be seen is said by `published_intervals`, never by a table's newest state:
- an interval is read at the snapshot ids of its own row;
- a past of many intervals is read at the newest snapshot that was published, which holds all of them as they were last
  published (main only moves forward), and of it only intervals that have a row.

`data_files` says which files of a snapshot may have the rows, DuckDB reads them. The columns are those of this release,
whatever release wrote the files: they are found by Iceberg's numbers, and one that was added since is NULL there.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import pairwise
from threading import Lock
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import Engine

from offsetguard.config.object_store import is_remote, remote_path, unchanging_files
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import NO_SNAPSHOT, damage_named, load_table, open_catalog, path_of
from offsetguard.lake.data_files import Condition, data_files
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import RETENTION_PASSED, PublishedInterval
from offsetguard.tables import GROUP_FACTS, INVARIANT_RESULTS, QUEUE_STATE, ColumnType, Table
from offsetguard.tables.table import arrow_schema

_INTERVAL_START = "interval_start"
_TYPES = {
    ColumnType.STRING: "VARCHAR",
    ColumnType.INT32: "INTEGER",
    ColumnType.INT64: "BIGINT",
    ColumnType.FLOAT64: "DOUBLE",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.TIMESTAMP: "TIMESTAMPTZ",
    ColumnType.STRING_LIST: "VARCHAR[]",
}
_NO_FILE_HAS = 1_000_000  # from here on, numbers of columns that are yet to be added to the table
# the starts of all intervals of some runs of them: a month has 43,200, most often in one run
_PUBLISHED = """SELECT unnest(generate_series(first, last, INTERVAL 1 MINUTE))
FROM (SELECT unnest($firsts) AS first, unnest($lasts) AS last)"""


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a table that a query is about; `where`: by column, the values that are wanted."""

    table: Table
    columns: Sequence[str]
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)


class FactReader:
    """Reads what was published into a workspace, from any number of threads.

    `engine`: of the database that has `published_intervals`. All rows are Arrow tables with the columns of this
    release. All methods raise PublishError, naming table and snapshot, when the catalog, a table, a published snapshot
    or a file of it is not there or cannot be read.
    """

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._workspace = workspace
        self._engine = engine
        self._states: dict[str, IcebergTable] = {}  # by table, as they were last loaded

    @cached_property
    def _catalog(self) -> SqlCatalog:
        return open_catalog(self._workspace)

    def interval(self, table: Table, cluster: str, interval: Interval) -> pa.Table:
        """Return a table's rows of one interval, ordered by key; none when it was not published."""
        published = published_intervals.get(self._engine, cluster, interval)
        if published is None:
            return _no_rows(table_schema(table))
        return self.published(table, published)

    def published(self, table: Table, published: PublishedInterval, *, columns: Sequence[str] = ()) -> pa.Table:
        """Return a table's rows of a published interval, ordered by key; `columns`: all by default."""
        within = _within_interval(published)
        return _rows(lambda one: self._state_with(table, {one}), table, published, within, columns)

    def checked_invariants(self, cluster: str) -> set[str]:
        """Return the ids of the invariants that the newest published interval was checked for; none: there is none."""
        newest = published_intervals.newest(self._engine, cluster)
        results = None if newest is None else self.published(INVARIANT_RESULTS, newest, columns=["invariant_id"])
        return set() if results is None else set(results["invariant_id"].to_pylist())

    def group_history(
        self, cluster: str, consumer_group: str, since: datetime, until: datetime, *, columns: Sequence[str] = ()
    ) -> pa.Table:
        """Return one consumer group's `group_facts` as `history` does."""
        return self.history(
            GROUP_FACTS, cluster, since, until, columns=columns, where={"consumer_group": [consumer_group]}
        )

    def history(
        self,
        table: Table,
        cluster: str,
        since: datetime,
        until: datetime,
        *,
        columns: Sequence[str] = (),
        where: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> pa.Table:
        """Return a table's rows of the published intervals that start in [since, until), oldest first.

        `columns`: those that are needed, all by default; they come in the table's order. `where`: by column, the values
        that are wanted.
        """
        names = [column.name for column in table.columns if not columns or column.name in columns]
        order = [_INTERVAL_START, *(name for name in table.key if name != _INTERVAL_START)]
        sql = f"SELECT {_listed(names)} FROM rows ORDER BY {_in_order(order)}"
        rows = self.query(sql, cluster, since, until, rows=Source(table, list(dict.fromkeys((*names, *order))), where))
        return rows.cast(pa.schema(map(table_schema(table).field, names)))

    def query(
        self,
        sql: str,
        cluster: str,
        since: datetime,
        until: datetime,
        given: Mapping[str, Any] = MappingProxyType({}),
        /,
        **sources: Source,
    ) -> pa.Table:
        """Return what SQL gives of the rows of published intervals, so that few of millions come into memory.

        What a publication wrote that was killed before its row was there is left out.
        `sources`: what it has after FROM. `given`: its other parameters; `$since` is always there.
        """
        firsts, lasts = _runs(published_intervals.starts(self._engine, cluster, since, until))
        given = {"firsts": firsts, "lasts": lasts, "since": since, **given}
        found = {}
        for name, source in sources.items():
            rows = _Rows(source.table, source.columns, _within(cluster, since, until, source.where), is_history=True)
            found[name] = rows.at(*newest) if (newest := self._newest(source.table, cluster)) else rows
        return _select(sql, found, given)

    def _newest(self, table: Table, cluster: str) -> tuple[IcebergTable, int] | None:
        """Return a table with its newest published snapshot; None: no interval of it was published."""
        ids = published_intervals.recent_snapshot_ids(self._engine, cluster, table.name)
        ids -= {NO_SNAPSHOT, RETENTION_PASSED}
        if not ids:
            return None
        state = self._state_with(table, ids)
        known = [snapshot for snapshot in map(state.snapshot_by_id, ids) if snapshot is not None]
        if not known:
            raise _snapshot_is_gone(table, max(ids), cluster)
        return state, max(known, key=lambda snapshot: snapshot.sequence_number or 0).snapshot_id

    def _state_with(self, table: Table, ids: Collection[int]) -> IcebergTable:
        """Return a table as it has these snapshots, or as it is now: loading it takes as long as a small read."""
        state = self._states.get(table.name)
        if state is None or any(state.snapshot_by_id(one) is None for one in ids):
            state = self._states[table.name] = load_table(self._catalog, table)
        return state


def _runs(starts: Sequence[datetime]) -> tuple[list[datetime], list[datetime]]:
    """Return the first and the last start of each run of intervals without a gap; `starts`: oldest first."""
    gaps = [(one, other) for one, other in pairwise(starts) if other - one != INTERVAL_LENGTH]
    return [*starts[:1], *(begin for _, begin in gaps)], [*(end for end, _ in gaps), *starts[-1:]]


def _within(
    cluster: str, since: datetime, until: datetime, where: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[Condition]:
    span = [(_INTERVAL_START, ">=", since), (_INTERVAL_START, "<", until)]
    return [("cluster", "=", cluster), *span, *((column, "in", list(values)) for column, values in where.items())]


def _within_interval(published: PublishedInterval) -> list[Condition]:
    return _within(published.cluster, published.interval.start, published.interval.end)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table that meet all conditions, in the files of a snapshot that may have them."""

    table: Table
    columns: Sequence[str]
    wanted: Sequence[Condition]
    is_history: bool = False  # only of published intervals, whose runs are parameters: `firsts` and `lasts`
    snapshot_id: int = NO_SNAPSHOT
    files: Sequence[str] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)  # of columns: Iceberg's, in every file

    def at(self, state: IcebergTable, snapshot_id: int) -> "_Rows":
        """Look which files of a snapshot may have them; raises PublishError that names what is damaged."""
        folder = path_of(state.location()) / "metadata"
        with damage_named(f"{self.table.name}: snapshot {snapshot_id}", lambda: f"manifests in {folder}"):
            files = data_files(state, snapshot_id, self.wanted)
        numbers = {column.name: column.field_id for column in state.schema().fields}
        return replace(self, snapshot_id=snapshot_id, files=files, numbers=numbers)

    def select(self, name: str, params: dict[str, Any]) -> str:
        """Return the SELECT of them, and add its parameters; `name`: what no other of the query is called."""
        found = f"{name}_nothing"
        if self.files:
            params |= {f"{name}_files": self.files, f"{name}_schema": self._schema()}
            found = f"read_parquet(${name}_files, schema = ${name}_schema, hive_partitioning = false)"
        conditions = []
        for column, how, value in self.wanted:
            values = {f"{name}_{len(params)}_{n}": one for n, one in enumerate(value if how == "in" else [value])}
            params |= values
            # single ones, because a list of them would skip no row group
            among = ", ".join(f"${one}" for one in values)
            conditions.append(f"{_listed([column])} {how} ({among})")
        if self.is_history:
            conditions.append(f"{_INTERVAL_START} IN ({_PUBLISHED})")
        return f"SELECT {_listed(self.columns)} FROM {found} WHERE {' AND '.join(conditions)}"

    def _schema(self) -> dict[str, list[Any]]:
        """Return the needed columns as DuckDB's MAP from their numbers: to look for all costs 0.8 ms a file."""
        needed = dict.fromkeys((*self.columns, *(column for column, _, _ in self.wanted)))
        return {
            "key": [self.numbers.get(column, _NO_FILE_HAS + place) for place, column in enumerate(needed)],
            "value": [
                {"name": column, "type": _TYPES[self.table[column].type], "default_value": None} for column in needed
            ],
        }


def _select(sql: str, sources: Mapping[str, _Rows], given: Mapping[str, Any]) -> pa.Table:
    """Return what SQL gives of rows by name; raises PublishError that names what is read where it cannot be."""
    params = dict(given)
    named = [f"{name} AS NOT MATERIALIZED ({rows.select(name, params)})" for name, rows in sources.items()]
    statement = f"WITH {', '.join(named)} {sql}"
    used = {name: value for name, value in params.items() if re.search(rf"\${name}\b", statement)}
    try:
        with _database(os.getpid()).cursor() as connection:
            if remote := next((one for rows in sources.values() for one in rows.files if is_remote(one)), None):
                _let_read(remote)
            for name, rows in ((name, rows) for name, rows in sources.items() if not rows.files):
                connection.register(f"{name}_nothing", _no_rows(table_schema(rows.table)))
            return connection.sql(statement, params=used).to_arrow_table()
    except duckdb.Error as error:
        read = ", ".join(f"{rows.table.name}: snapshot {rows.snapshot_id}" for rows in sources.values() if rows.files)
        raise PublishError(f"{read}: data files cannot be read: {error}") from error


def read_interval(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> pa.Table:
    """Return a table's rows of one published interval, ordered by key; raises PublishError as FactReader does."""
    return _rows(lambda _: load_table(catalog, table), table, published, _within_interval(published))


def read_queue_state(catalog: SqlCatalog, published: PublishedInterval) -> pa.Table:
    """Return the state of every queue after a published interval; raises PublishError as FactReader does."""
    of_cluster = [("cluster", "=", published.cluster)]
    return _rows(lambda _: load_table(catalog, QUEUE_STATE), QUEUE_STATE, published, of_cluster)


def read_snapshot(state: IcebergTable, table: Table, snapshot_id: int, wanted: Sequence[Condition]) -> pa.Table:
    """Return a table's rows in a snapshot that meet all conditions, in any order; none of NO_SNAPSHOT.

    For who writes it; readers look at what is published. Raises PublishError as FactReader does.
    """
    schema = table_schema(table)
    if snapshot_id == NO_SNAPSHOT:
        return _no_rows(schema)
    rows = _Rows(table, schema.names, wanted).at(state, snapshot_id)
    return _select("SELECT * FROM rows", {"rows": rows}, {}).cast(schema)


def _rows(
    state_with: Callable[[int], IcebergTable],
    table: Table,
    published: PublishedInterval,
    wanted: Sequence[Condition],
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return the rows of a published snapshot that meet all conditions, ordered by key (NULL first).

    `state_with`: returns the table as it has a snapshot, or as it is now.
    """
    names = [column.name for column in table.columns if not columns or column.name in columns]
    schema = pa.schema(map(table_schema(table).field, names))
    snapshot_id = published.snapshot_ids.get(table.name, NO_SNAPSHOT)  # the table may have come later
    if snapshot_id == NO_SNAPSHOT:
        return _no_rows(schema)
    whose = f"{published.cluster} {published.interval.name}"
    if snapshot_id == RETENTION_PASSED:
        raise PublishError(f"{table.name}: rows of {whose} were deleted: retention passed")
    state = state_with(snapshot_id)
    if state.snapshot_by_id(snapshot_id) is None:
        raise _snapshot_is_gone(table, snapshot_id, whose)
    rows = _Rows(table, list(dict.fromkeys((*names, *table.key))), wanted).at(state, snapshot_id)
    sql = f"SELECT {_listed(names)} FROM rows ORDER BY {_in_order(table.key)}"
    return _select(sql, {"rows": rows}, {}).cast(schema)


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as `to_pylist` does, which of times in UTC imports pandas: 40 MiB, into the API server, too."""
    times = [field.name for field in rows.schema if pa.types.is_timestamp(field.type)]
    fields = [field.with_type(pa.timestamp("us")) if field.name in times else field for field in rows.schema]
    found: list[dict[str, Any]] = rows.cast(pa.schema(fields)).to_pylist()
    for row in found:
        row |= {name: row[name].replace(tzinfo=UTC) for name in times if row[name] is not None}
    return found


def numbers_of(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return a column of numbers in which nothing is unknown; `to_numpy` imports pandas."""
    return np.from_dlpack(column.combine_chunks()) if len(column) else np.empty(0, np.int64)


def _listed(columns: Sequence[str]) -> str:
    """Return columns as a SELECT has them: `at`, of a log line, is a word of DuckDB's own."""
    return ", ".join(f'"{name}"' for name in columns)


def _in_order(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} NULLS FIRST" for name in columns)


_REGISTERING = Lock()


def _let_read(location: str) -> None:
    """Let DuckDB read an object store by the connections of Python: its own extension is not made for each release."""
    with _REGISTERING:
        database = _database(os.getpid())
        if "s3" not in database.list_filesystems():
            database.register_filesystem(unchanging_files(remote_path(location)))


@cache
def _database(process_id: int) -> duckdb.DuckDBPyConnection:
    """Return the process's one: it takes longer to make than a small query."""
    database = duckdb.connect(":memory:")
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    # Each keeps 20 to 40 MB that nobody uses: memory for another time, eight threads that wait for slow disks, and
    # those that share the work.
    database.execute("SET GLOBAL allocator_flush_threshold = '1MB'")
    database.execute("SET GLOBAL allocator_bulk_deallocation_flush_threshold = '1MB'")
    database.execute("SET GLOBAL async_threads = 1")
    database.execute("SET GLOBAL threads = 1")  # who reads a page takes no core from others
    # Footers of files, which never change: to read them anew was a quarter to a half of what a page costs; 40 MB.
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    return database


@cache
def table_schema(table: Table) -> pa.Schema:
    """Return a table's columns; any may be NULL, because an earlier release may not have had it."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])


def _no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; `Schema.empty_table` imports pandas."""
    return pa.Table.from_batches([], schema)


def _snapshot_is_gone(table: Table, snapshot_id: int, whose: str) -> PublishError:
    return PublishError(
        f"{table.name}: the published snapshot {snapshot_id} of {whose} is not in the table any more;"
        " publish the interval again (--again)"
    )
