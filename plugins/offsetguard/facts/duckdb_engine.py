"""Facts without a JVM: the texts of `facts/*.sql` on an in-memory DuckDB, and the windows that one of them makes."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from offsetguard.facts import texts
from offsetguard.facts.parameters import fold_parameters
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard.tables.queue_state import WINDOW, QueueState, Sample
from offsetguard.tables.table import arrow_schema

Row = Mapping[str, Any]
Key = TypeVar("Key")
_SAMPLE = tuple(one.name for one in fields(Sample))
_THREADS = 1  # a second one costs small rows more than it brings


class DuckDBEngine:
    """Relations by name, and the queries over them; as many clusters at once as the relations hold."""

    def __init__(self) -> None:
        self._connection = _database().cursor()  # which has relations of its own

    def add(self, name: str, rows: pa.Table) -> None:
        """Let queries read `rows` by a name."""
        self._connection.register(name, rows)

    def view(self, name: str, query: str) -> None:
        """Let queries read by a name what another one gives, in DuckDB's SQL."""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def rows(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the rows of `facts/NAME.sql`. Of `parameters` those count that the text names."""
        result = self._connection.execute(_statement(name), _of_text(name, parameters))
        columns = [column[0] for column in result.description]
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    def table(self, name: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Return the rows of `facts/NAME.sql` as a table."""
        return self._connection.sql(_statement(name), params=_of_text(name, parameters)).to_arrow_table()

    def keep(self, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a query that other queries read by its name."""
        self._connection.execute(_statement(name, kept=True), _of_text(name, parameters))

    def rename(self, kept: str, name: str) -> None:
        """Let what is kept have another name."""
        self._connection.execute(f"ALTER TABLE {kept} RENAME TO {name}")


def _of_text(name: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {one: (parameters or {})[one] for one in texts.parameters_of(texts.duckdb_text(name))}


@cache
def _statement(name: str, *, kept: bool = False) -> duckdb.Statement:
    """Return a query, or what keeps its rows: parsed once, since a text takes longer to parse than small rows take."""
    text = texts.duckdb_text(name)
    (statement,) = _database().extract_statements(f"CREATE TEMP TABLE {name} AS {text}" if kept else text)
    return statement


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's one: it takes ten times as long to make as a small query."""
    database = duckdb.connect(":memory:", config={"threads": _THREADS})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


def windows_of(
    histories: Mapping[Key, Iterable[tuple[datetime, Sample]]], window: timedelta = WINDOW
) -> dict[Key, QueueState]:
    """Return the windows of some queues in one query, each made of all its samples; one without samples has none.

    Samples are given with the starts of their intervals, in any order, one of each interval.
    """
    keys = list(histories)
    rows: list[Row] = [
        {"cluster": "", "broker_name": "", "topic": "", "queue_id": number, "consumer_group": ""}
        | {"interval_start": interval_start}
        | {name: getattr(sample, name) for name in _SAMPLE}
        for number, key in enumerate(keys)
        for interval_start, sample in histories[key]
    ]
    if not rows:
        return {}
    engine = DuckDBEngine()
    engine.add(f"{QUEUE_SNAPSHOTS.name}_history", pa.Table.from_pylist(rows, schema=arrow_schema(QUEUE_SNAPSHOTS)))
    starts = [row["interval_start"] for row in rows]
    parameters = fold_parameters(max(starts), first_interval_start=min(starts), window=window)
    windows = {row["queue_id"]: QueueState.from_row(row) for row in engine.rows(texts.QUEUE_WINDOWS, parameters)}
    return {key: windows[number] for number, key in enumerate(keys) if number in windows}
