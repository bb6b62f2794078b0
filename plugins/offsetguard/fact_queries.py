"""`facts/*.sql` over rows in memory: those of one round, and those of the rounds before it; at many moments at once.

`diagnose` looks at a bundle after each of its rounds, and a query takes about as long for sixty moments as for one.
`cluster` is part of every key, so each moment is a cluster of its own here, whose history is the rounds up to it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from offsetguard.collect.landing import arrow_schema, table_of, with_plain_texts
from offsetguard.fact_rows import record_of
from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.queue_fold import folded
from offsetguard.tables import LANDED, QUEUE_SNAPSHOTS, QUEUE_STATE, TRAFFIC_BASELINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetguard.collect.landing import Row
    from offsetguard.fact_rows import Record
    from offsetguard.tables import Table

    Tables = Mapping[str, pa.Table | Sequence[Row]]  # by name, as landed; texts may be dictionary-encoded

HISTORY = "_history"
_TABLES = {table.name: table for table in (*LANDED, TRAFFIC_BASELINES)}
_TIME = pa.timestamp("us", "UTC")
_INTERVALS = pa.schema([("cluster", pa.string()), ("interval_start", _TIME), ("now", _TIME)])
_READ_AT = ("consumer_offset_read_at", "pull_offset_read_at", "max_offset_read_at")
_LATER = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """Some rounds, the tables of each, oldest first; a table's history is the rows of all. Ages count up to `now`."""

    rounds: Sequence[Tables]
    now: datetime


class FactQueries:
    """The facts that queries make of the newest round of each moment; what they read is given to DuckDB when they run.

    `parameters` are those of all moments: what looks back from `now` by a parameter can be asked of one moment only.
    """

    def __init__(self, moments: Sequence[Moment], parameters: Mapping[str, Any]) -> None:
        self._moments = moments
        self._parameters = parameters
        self._engine = DuckDBEngine()
        self._there: set[str] = set()
        self._plain: dict[tuple[int, str], pa.Table] = {}

    def rows(self, name: str) -> list[list[Row]]:
        """Return for each moment the rows of `facts/NAME.sql`, or of a step."""
        self._give(name)
        found = self._engine.run(name, self._parameters)
        if name in texts.names() and name not in self._there:
            self._engine.add(name, found)
            self._there.add(name)
        by_moment: dict[str, list[Row]] = defaultdict(list)
        for row in found.to_pylist():
            by_moment[row["cluster"]].append(row)
        return [by_moment[str(number)] for number in range(len(self._moments))]

    def records(self, name: str, kind: type[Record]) -> tuple[Record, ...]:
        """Return those of the only moment as typed records."""
        (rows,) = self.rows(name)
        return tuple(record_of(kind, row) for row in rows)

    def have(self, table: Table) -> bool:
        """Whether any round has a row of a table: of most there is nothing to ask about log lines."""
        return any(len(one.get(table.name, ())) for moment in self._moments for one in moment.rounds)

    def _give(self, name: str) -> None:
        for relation in texts.relations_of(name) - self._there:
            if relation == QUEUE_STATE.name:
                history = self._history(QUEUE_SNAPSHOTS.name)
                self._engine.add(relation, folded(history) if len(history) else _schema(QUEUE_STATE).empty_table())
            elif relation == "intervals":
                self._engine.add(relation, self._intervals())
            elif relation in texts.names():
                self._give(relation)
                self._engine.keep(relation, self._parameters)
            elif relation.endswith(HISTORY):
                self._engine.add(relation, self._history(relation.removesuffix(HISTORY)))
            else:
                newest = [[moment.rounds[-1]] for moment in self._moments]
                self._engine.add(relation, self._as_clusters(relation, newest))
            self._there.add(relation)

    def _history(self, name: str) -> pa.Table:
        return self._as_clusters(name, [moment.rounds for moment in self._moments])

    def _intervals(self) -> pa.Table:
        rows = [
            {"cluster": str(number), "interval_start": self._taken_at[id(moment.rounds[-1])], "now": moment.now}
            for number, moment in enumerate(self._moments)
        ]
        return pa.Table.from_pylist(rows, schema=_INTERVALS)

    def _as_clusters(self, name: str, rounds: Sequence[Sequence[Tables]]) -> pa.Table:
        """Return the rows of all moments, given with their rounds, each moment's in a cluster of its own."""
        parts = [
            _with(self._rows(name, one), "cluster", str(number)) for number, some in enumerate(rounds) for one in some
        ]
        return pa.concat_tables(parts)

    def _rows(self, name: str, one: Tables) -> pa.Table:
        key = id(one), name
        if key not in self._plain:
            rows = _plain(name, one)
            if name == QUEUE_SNAPSHOTS.name:
                rows = _with(_sound(rows), "interval_start", self._taken_at[id(one)])
            self._plain[key] = rows
        return self._plain[key]

    @cached_property
    def _taken_at(self) -> dict[int, datetime]:
        """When each round took place, later than the one before; of one that read nothing that is all we know.

        Rounds of `check` are seconds apart, several in one interval: a round's own moment stands for the interval.
        """
        taken_at: dict[int, datetime] = {}
        for moment in self._moments:
            before = datetime(1970, 1, 1, tzinfo=UTC)
            for one in moment.rounds:
                if id(one) not in taken_at:
                    rows = _plain(QUEUE_SNAPSHOTS.name, one)
                    read_at = (pc.max(rows[name]).as_py() for name in _READ_AT)
                    later = (at for at in read_at if at is not None and at > before)
                    taken_at[id(one)] = max(later, default=before + _LATER)
                before = taken_at[id(one)]
        return taken_at


def _plain(name: str, tables: Tables) -> pa.Table:
    rows, schema = tables.get(name, ()), _schema(_TABLES[name])
    found = with_plain_texts(rows) if isinstance(rows, pa.Table) else table_of(_TABLES[name], rows)
    return found.cast(schema)


def _schema(table: Table) -> pa.Schema:
    return pa.schema([column.with_nullable(True) for column in arrow_schema(table)])


def _sound(rows: pa.Table) -> pa.Table:
    """Leave out committed offsets of queues that their broker does not have: asked, and no max offset.

    The corrupt invariant "unknown queue" quarantines such rows in the pipeline. A queue whose broker was not asked or
    did not answer has neither, and stays as an unknown one.
    """
    unknown_queue = pc.and_(rows["max_offset"].is_null(), rows["max_offset_read_at"].is_valid())
    return rows.filter(pc.invert(unknown_queue))


def _with(rows: pa.Table, name: str, value: Any) -> pa.Table:
    """Return the rows with one value for all of them in a column."""
    place = rows.schema.get_field_index(name)
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.repeat(pa.scalar(value, field.type), len(rows)))
