"""Published facts of one workspace: an interval, a table's or one group's past; no Spark, no JVM.

What may be seen is said by `published_intervals`, never by a table's newest state:
- an interval is read at the snapshot ids of its own row;
- a past of many intervals is read at the newest snapshot that was published, which holds all of them as they were last
  published (main only moves forward), and of it only intervals that have a row.

`data_files` says which files of a snapshot may have the rows, DuckDB reads them. The columns are those of this release,
whatever release wrote the files: they are found by Iceberg's numbers, and one that was added since is NULL there.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import NO_SNAPSHOT, damage_named, load_table, local_path, open_catalog
from offsetguard.lake.data_files import Condition, data_files
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import RETENTION_PASSED, PublishedInterval
from offsetguard.tables import GROUP_FACTS, INVARIANT_RESULTS, QUARANTINE, QUEUE_STATE, ColumnType, Table
from offsetguard.tables.facts import Quarantined
from offsetguard.tables.table import arrow_schema

UNDECODABLE = "UNDECODABLE"  # instead of an invariant's id: what could not even be read

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
# the starts of all intervals of some runs of them: a month has 43,200, most often in one run
_PUBLISHED = """SELECT unnest(generate_series(first, last, INTERVAL 1 MINUTE))
FROM (SELECT unnest($firsts) AS first, unnest($lasts) AS last)"""
_NO_FILE_HAS = 1_000_000  # from here on, numbers of columns that are yet to be added to the table


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
            return table_schema(table).empty_table()
        return self.published(table, published)

    def published(self, table: Table, published: PublishedInterval, *, columns: Sequence[str] = ()) -> pa.Table:
        """Return a table's rows of a published interval, ordered by key; `columns`: all by default."""
        return read_interval(self._catalog, table, published, columns=columns)

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
        sql = f"SELECT {', '.join(names)} FROM rows ORDER BY {_in_order(order)}"
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
        params: dict[str, Any] = {"cluster": cluster, "since": since, "until": until, **given}
        params |= {"firsts": firsts, "lasts": lasts}
        named, read_at = [], []
        for name, source in sources.items():
            newest, wanted = self._newest(source.table, cluster), _within(cluster, since, until, source.where)
            files = _named_files(source.table, *newest, wanted) if newest else []
            read_at += [f"{source.table.name}: snapshot {newest[1]}"] if newest else []
            params |= {f"{name}_files": files, **_named_values(name, source)}
            named.append(
                f"{name} AS NOT MATERIALIZED ({_source(name, source, newest[0] if newest and files else None)})"
            )
        statement = f"WITH {', '.join(named)} {sql}"
        used = {name: value for name, value in params.items() if re.search(rf"\${name}\b", statement)}
        try:
            with _database().cursor() as connection:
                return connection.sql(statement, params=used).to_arrow_table()
        except duckdb.Error as error:
            raise PublishError(f"{', '.join(read_at)}: data files cannot be read: {error}") from error

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
    ends = [one for one, other in pairwise(starts) if other - one != INTERVAL_LENGTH]
    begins = [other for one, other in pairwise(starts) if other - one != INTERVAL_LENGTH]
    return [*starts[:1], *begins], [*ends, *starts[-1:]]


def _within(
    cluster: str, since: datetime, until: datetime, where: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[Condition]:
    span = [(_INTERVAL_START, ">=", since), (_INTERVAL_START, "<", until)]
    return [("cluster", "=", cluster), *span, *((column, "in", list(values)) for column, values in where.items())]


def _named_values(name: str, source: Source) -> dict[str, str]:
    """Return the parameters of a source's conditions; single ones, because a list of them would skip no row group."""
    return {
        f"{name}_{column}_{number}": value
        for column, values in source.where.items()
        for number, value in enumerate(values)
    }


def _source(name: str, source: Source, state: IcebergTable | None) -> str:
    """Return the SELECT of a query's source; `state` None: it has no file."""
    types = {column.name: _TYPES[column.type] for column in source.table.columns}
    if state is None:
        return f"SELECT {', '.join(f'NULL::{types[column]} AS {column}' for column in source.columns)} WHERE false"
    columns = _columns_by_id(source.table, state, {"cluster", _INTERVAL_START, *source.columns, *source.where})
    named = "".join(
        f" AND {column} IN ({', '.join(f'${name}_{column}_{number}' for number in range(len(values)))})"
        for column, values in source.where.items()
    )
    return (
        f"SELECT {', '.join(source.columns)}"
        f" FROM read_parquet(${name}_files, schema = {columns}, hive_partitioning = false)"
        " WHERE cluster = $cluster AND interval_start >= $since AND interval_start < $until"
        f" AND interval_start IN ({_PUBLISHED}){named}"
    )


def read_interval(
    catalog: SqlCatalog, table: Table, published: PublishedInterval, *, columns: Sequence[str] = ()
) -> pa.Table:
    """Return a table's rows of one published interval, ordered by key; raises PublishError as FactReader does."""
    interval = published.interval
    return _rows(catalog, table, published, _within(published.cluster, interval.start, interval.end), columns)


def read_queue_state(catalog: SqlCatalog, published: PublishedInterval) -> pa.Table:
    """Return the state of every queue after a published interval; raises PublishError as FactReader does."""
    return _rows(catalog, QUEUE_STATE, published, [("cluster", "=", published.cluster)])


def _rows(
    catalog: SqlCatalog,
    table: Table,
    published: PublishedInterval,
    wanted: Sequence[Condition],
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return the rows of a published snapshot that meet all conditions, ordered by key (NULL first)."""
    names = [column.name for column in table.columns if not columns or column.name in columns]
    schema = pa.schema(map(table_schema(table).field, names))
    snapshot_id = published.snapshot_ids.get(table.name, NO_SNAPSHOT)  # the table may have come later
    if snapshot_id == NO_SNAPSHOT:
        return schema.empty_table()
    whose = f"{published.cluster} {published.interval.name}"
    if snapshot_id == RETENTION_PASSED:
        raise PublishError(f"{table.name}: rows of {whose} were deleted: retention passed")
    state = load_table(catalog, table)
    if state.snapshot_by_id(snapshot_id) is None:
        raise _snapshot_is_gone(table, snapshot_id, whose)
    files = _named_files(table, state, snapshot_id, wanted)
    if not files:
        return schema.empty_table()
    needed = {*names, *table.key, *(column for column, _, _ in wanted)}
    query = (
        f"SELECT {', '.join(names)}"
        f" FROM read_parquet(?, schema = {_columns_by_id(table, state, needed)}, hive_partitioning = false)"
        f" WHERE {' AND '.join(f'{column} {how} ?' for column, how, _ in wanted)}"
        f" ORDER BY {_in_order(table.key)}"
    )
    try:
        with _database().cursor() as connection:
            rows = connection.sql(query, params=[files, *(value for _, _, value in wanted)]).to_arrow_table()
    except duckdb.Error as error:
        raise PublishError(f"{table.name}: snapshot {snapshot_id}: data files cannot be read: {error}") from error
    return rows.cast(schema)


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as `to_pylist` does, which of times in UTC imports pandas: 40 MiB, into the API server, too."""
    times = [field.name for field in rows.schema if pa.types.is_timestamp(field.type)]
    fields = [field.with_type(pa.timestamp("us")) if field.name in times else field for field in rows.schema]
    found: list[dict[str, Any]] = rows.cast(pa.schema(fields)).to_pylist()
    for row in found:
        row |= {name: row[name].replace(tzinfo=UTC) for name in times if row[name] is not None}
    return found


def _in_order(columns: Sequence[str]) -> str:
    return ", ".join(f"{name} NULLS FIRST" for name in columns)


def _metadata_folder(state: IcebergTable) -> Path:
    return local_path(state.location()) / "metadata"


def _named_files(table: Table, state: IcebergTable, snapshot_id: int, wanted: Sequence[Condition]) -> list[str]:
    """Return the files that may have such rows; raises PublishError that names what is damaged."""
    with damage_named(f"{table.name}: snapshot {snapshot_id}", lambda: f"manifests in {_metadata_folder(state)}"):
        return data_files(state, snapshot_id, wanted)


def _columns_by_id(table: Table, state: IcebergTable, needed: Collection[str]) -> str:
    """Return columns of the table as `read_parquet` wants them: by the number that Iceberg gives each in every file."""
    ids = {field.name: field.field_id for field in state.schema().fields}
    columns = (
        f"{ids.get(column.name, _NO_FILE_HAS + number)}:"
        f" {{name: '{column.name}', type: '{_TYPES[column.type]}', default_value: NULL}}"
        for number, column in enumerate(table.columns)
        if column.name in needed
    )
    return f"MAP {{{', '.join(columns)}}}"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's one: it takes longer to make than a small query."""
    database = duckdb.connect(":memory:")
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    # Each keeps 20 to 40 MB that nobody uses: memory for another time, eight threads that wait for slow disks, and
    # those that share the work.
    database.execute("SET GLOBAL allocator_flush_threshold = '1MB'")
    database.execute("SET GLOBAL allocator_bulk_deallocation_flush_threshold = '1MB'")
    database.execute("SET GLOBAL async_threads = 1")
    database.execute("SET GLOBAL threads = 1")  # who reads a page takes no core from others
    return database


@cache
def table_schema(table: Table) -> pa.Schema:
    """Return a table's columns; any may be NULL, because an earlier release may not have had it."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(table)])


def _snapshot_is_gone(table: Table, snapshot_id: int, whose: str) -> PublishError:
    return PublishError(
        f"{table.name}: the published snapshot {snapshot_id} of {whose} is not in the table any more;"
        " publish the interval again (--again)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow(Quarantined):
    """Such a row of an interval."""

    cluster: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of the quarantine; None: any."""

    cluster: str
    since: datetime
    until: datetime
    table_name: str | None = None
    invariant_id: str | None = None


def quarantined_rows(reader: FactReader, wanted: Wanted) -> list[QuarantinedRow]:
    """Return the rows of published intervals, newest interval first; raises PublishError when they cannot be read."""
    found = reader.history(QUARANTINE, wanted.cluster, wanted.since, wanted.until)
    rows = [
        QuarantinedRow(interval=Interval(row.pop(_INTERVAL_START)), **row)
        for row in python_rows(found)
        if wanted.table_name in (None, row["table_name"]) and wanted.invariant_id in (None, row["invariant_id"])
    ]
    order = sorted(rows, key=lambda row: (row.table_name, row.row_key, row.reason_number))
    return sorted(order, key=lambda row: row.interval, reverse=True)


def intervals_to_redrive(rows: list[QuarantinedRow]) -> list[Interval]:
    """Return the intervals with rows that can be judged again, oldest first.

    What could not be decoded has no columns that an invariant could look at: it is left out.
    """
    return sorted({row.interval for row in rows if row.invariant_id != UNDECODABLE})
