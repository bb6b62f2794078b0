"""Facts without a JVM: the texts of `facts/*.sql` on an in-memory DuckDB."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb

from offsetguard.facts import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_THREADS = 2


class DuckDBEngine:
    """Relations by name, and the queries over them; as many clusters at once as the relations hold."""

    def __init__(self) -> None:
        self._connection = _database().cursor()  # which has relations of its own

    def add(self, name: str, rows: pa.Table) -> None:
        """Let queries read `rows` by a name; one that was there before is replaced."""
        self._connection.register(name, rows)

    def view(self, name: str, query: str) -> None:
        """Let queries read by a name what another one gives, in DuckDB's SQL."""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def run(self, name: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Return the rows of `facts/NAME.sql`. Of `parameters` those count that the text names."""
        text = texts.duckdb_text(name)
        values = {one: (parameters or {})[one] for one in texts.parameters_of(text)}
        return self._connection.sql(text, params=values).to_arrow_table()

    def keep(self, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a query that other queries read by its name."""
        self.add(name, self.run(name, parameters))


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's one: it takes ten times as long to make as a small query."""
    database = duckdb.connect(":memory:", config={"threads": _THREADS})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database
