"""`facts/*.sql` over rows in memory: those of one round, and those of the rounds before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from offsetguard.collect.landing import table_of, with_plain_texts
from offsetguard.fact_rows import record_of
from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.tables import LANDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetguard.collect.landing import Row
    from offsetguard.fact_rows import Record
    from offsetguard.tables import Table

    Tables = Mapping[str, pa.Table | Sequence[Row]]  # by name, as landed; texts may be dictionary-encoded

HISTORY = "_history"
_TABLES = {table.name: table for table in LANDED}


class FactQueries:
    """The facts that queries make of the newest of some rounds; what a query reads is given to DuckDB when it runs.

    `rounds`: the tables of each, oldest first. A table's history is the rows of all rounds, the newest included.
    """

    def __init__(self, rounds: Sequence[Tables], parameters: Mapping[str, Any]) -> None:
        self._rounds = rounds
        self._parameters = parameters
        self._engine = DuckDBEngine()
        self._there: set[str] = set()

    def rows(self, name: str) -> list[Row]:
        """Return the rows of `facts/NAME.sql`."""
        self._give(name)
        rows: list[Row] = self._engine.run(name, self._parameters).to_pylist()
        return rows

    def records(self, name: str, kind: type[Record]) -> tuple[Record, ...]:
        """Return them as typed records."""
        return tuple(record_of(kind, row) for row in self.rows(name))

    def have(self, table: Table) -> bool:
        """Whether any of the rounds has a row of a table: of most there is nothing to ask about log lines."""
        return any(len(one.get(table.name, ())) for one in self._rounds)

    def _give(self, name: str) -> None:
        for relation in texts.relations_of(name) - self._there:
            if relation in texts.names():
                self._give(relation)
                self._engine.keep(relation, self._parameters)
            elif relation.endswith(HISTORY):
                table_name = relation.removesuffix(HISTORY)
                self._engine.add(relation, pa.concat_tables(_table(table_name, one) for one in self._rounds))
            else:
                self._engine.add(relation, _table(relation, self._rounds[-1]))
            self._there.add(relation)


def _table(name: str, tables: Tables) -> pa.Table:
    rows = tables.get(name, ())
    return with_plain_texts(rows) if isinstance(rows, pa.Table) else table_of(_TABLES[name], rows)
