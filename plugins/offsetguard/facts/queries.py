"""`facts/*.sql` over the rounds that are in memory, on DuckDB.

Many moments at once: `diagnose` judges a bundle after each of its rounds, and a query costs as much for sixty moments
as for one. `cluster` is part of every key, so each moment is a cluster of its own here, of which the rounds up to it
are the history. Every table is given to DuckDB once; a view gives each moment its rows.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from offsetguard import tables
from offsetguard.collect.columns import arrow_array
from offsetguard.collect.landing import Row, table_of, with_plain_texts
from offsetguard.config.groups import Judgement
from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.interval import Record, record_of
from offsetguard.facts.parameters import fold_parameters, parameters_of
from offsetguard.model.intervals import INTERVAL_LENGTH

Tables = Mapping[str, pa.Table | Sequence[Row]]  # by name, as landed; texts may be dictionary-encoded


HISTORY = "_history"
_TABLES = {table.name: table for table in (*tables.LANDED, *tables.PUBLISHED)}
_READ_AT = ("consumer_offset_read_at", "pull_offset_read_at", "max_offset_read_at")
_RATES = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster", "consumer_group", "topic", "broker_name")),
        ("queue_id", pa.int32()),
        ("produce_tps", pa.float64()),
        ("consume_tps", pa.float64()),
    ]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATER = timedelta(milliseconds=1)


class Moment(NamedTuple):
    """What is looked at: a round, and those before it; ages count up to `now`, windows end there."""

    round_number: int  # of the newest, from 0
    interval_start: datetime
    now: datetime
    base_round_number: int | None = None  # of the round that growing counters are compared with


class FactQueries:
    """The facts of some moments; what a query reads is given to DuckDB when the first one asks for it.

    `rounds`: the tables of each, oldest first. `moments`: in order of time, at least one. `state`: `queue_state` after
    the newest round, where more is known than the rounds show; for one moment.
    """

    def __init__(
        self,
        rounds: Sequence[Tables],
        moments: Sequence[Moment],
        judgement: Judgement,
        *,
        state: pa.Table | None = None,
    ) -> None:
        self._rounds = rounds
        self._state = state
        self._parameters = parameters_of(judgement, moments[-1].interval_start, moments[0].now)
        self._engine = DuckDBEngine()
        self._engine.add("intervals", _intervals(moments))
        self._there = {"intervals"}
        self._made: dict[str, defaultdict[str, list[Row]]] = {}

    def about(self, moment: int) -> "MomentQueries":
        """Return the queries about one of the moments, by its place."""
        return MomentQueries(self, moment)

    def rows(self, name: str, moment: int) -> Sequence[Row]:
        """Return the rows of `facts/NAME.sql` about a moment; the first call makes those of all."""
        if name not in self._made:
            self._give(name)
            made = self._made[name] = defaultdict(list)
            for row in self._engine.rows(name, self._parameters):
                made[row["cluster"]].append(row)
        return self._made[name][str(moment)]

    def rate_queues(self, rates: Sequence[Row]) -> None:
        """Let groups have these rates of their queues instead of those between the newest two samples.

        `rates`: rows with the key of a queue, `cluster` being a moment's place, `produce_tps` and `consume_tps`.
        """
        self.rows(tables.QUEUE_FACTS.name, 0)  # queues keep their own
        self._engine.rename("queue_figures", "own_figures")
        self._engine.add("queue_rates", pa.Table.from_pylist(list(rates), schema=_RATES))
        self._engine.view(
            "queue_figures",
            "SELECT one.* REPLACE (rated.produce_tps AS produce_tps, rated.consume_tps AS consume_tps) "
            "FROM own_figures AS one LEFT JOIN queue_rates AS rated "
            "USING (cluster, consumer_group, topic, broker_name, queue_id)",
        )

    def have(self, table: tables.Table) -> bool:
        """Whether any of the rounds has a row of a table: of most there is nothing to ask about log lines."""
        return any(len(one.get(table.name, ())) for one in self._rounds)

    def _give(self, name: str) -> None:
        for relation in texts.relations_of(name):
            if relation in self._there:
                continue
            if relation == tables.QUEUE_STATE.name:
                if self._state is None:
                    self._give_state()
                else:
                    self._give_own_state(self._state)
            elif relation == f"{tables.BROKER_FACTS.name}{HISTORY}":
                self._give_replicas_before()
            elif relation in texts.names():
                self._give(relation)
                self._engine.keep(relation, self._parameters)
            else:
                self._give_table(relation)
            self._there.add(relation)

    def _give_state(self) -> None:
        """Fold the queues of each moment's rounds, and leave those that its newest round does not have.

        Rounds of `check` are seconds apart, several in one interval: a round's own moment stands for the interval.
        """
        rounds = [
            _sound(_plain(tables.QUEUE_SNAPSHOTS, one.get(tables.QUEUE_SNAPSHOTS.name, ()))) for one in self._rounds
        ]
        taken_at = list(_moments_of(rounds))
        parts = (
            _numbered(_at(part, at), number) for number, (part, at) in enumerate(zip(rounds, taken_at, strict=True))
        )
        self._engine.add("sound_queues", pa.concat_tables(parts))
        self._engine.view(f"{tables.QUEUE_SNAPSHOTS.name}{HISTORY}", _of_moments("sound_queues", "<="))
        parameters = fold_parameters(taken_at[-1], first_interval_start=taken_at[0])
        self._engine.keep(texts.QUEUE_WINDOWS, parameters)
        self._engine.add("rounds", _rounds(taken_at))
        self._engine.view(
            tables.QUEUE_STATE.name,
            f"SELECT one.* REPLACE (moment.interval_start AS interval_start) FROM {texts.QUEUE_WINDOWS} AS one "
            "JOIN intervals AS moment USING (cluster) "
            "JOIN rounds ON rounds.round_number = moment.round_number AND rounds.taken_at = one.interval_start",
        )

    def _give_own_state(self, state: pa.Table) -> None:
        """Give a state that was folded elsewhere: to the moment, and of it the queues that its round has."""
        self._engine.add("own_state", state)
        self._engine.view(
            tables.QUEUE_STATE.name,
            "SELECT one.* REPLACE (moment.cluster AS cluster) FROM own_state AS one "
            "JOIN intervals AS moment USING (interval_start)",
        )

    def _give_replicas_before(self) -> None:
        """Give what the base rounds saw of replicas as the facts of an earlier interval."""
        self._give_table(tables.BROKER_SNAPSHOTS.name)
        before = f"moment.interval_start - INTERVAL {INTERVAL_LENGTH // timedelta(seconds=1)} SECOND"
        self._engine.view(
            f"{tables.BROKER_FACTS.name}{HISTORY}",
            f"SELECT one.* REPLACE (moment.cluster AS cluster, {before} AS interval_start) "
            f"FROM {tables.BROKER_SNAPSHOTS.name}_rounds AS one "
            "JOIN intervals AS moment ON one.round_number = moment.base_round_number",
        )

    def _give_table(self, relation: str) -> None:
        name = relation.removesuffix(HISTORY)
        table, rounds = _TABLES[name], f"{name}_rounds"
        parts = [_plain(table, one.get(name, ())) for one in self._rounds]
        self._engine.add(rounds, pa.concat_tables(_numbered(part, number) for number, part in enumerate(parts)))
        self._engine.view(relation, _of_moments(rounds, "=" if relation == name else "<="))


def _of_moments(rounds: str, which: str) -> str:
    """Return the query that gives each moment its rows of a table of numbered rounds."""
    return (
        f"SELECT one.* EXCLUDE (round_number) REPLACE (moment.cluster AS cluster) FROM {rounds} AS one "
        f"JOIN intervals AS moment ON one.round_number {which} moment.round_number"
    )


def _intervals(moments: Sequence[Moment]) -> pa.Table:
    columns = {
        "cluster": arrow_array(tables.ColumnType.STRING, [str(number) for number in range(len(moments))]),
        "interval_start": arrow_array(tables.ColumnType.TIMESTAMP, [one.interval_start for one in moments]),
        "now": arrow_array(tables.ColumnType.TIMESTAMP, [one.now for one in moments]),
        "round_number": arrow_array(tables.ColumnType.INT64, [one.round_number for one in moments]),
        "base_round_number": arrow_array(tables.ColumnType.INT64, [one.base_round_number for one in moments]),
    }
    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


@dataclass(frozen=True, slots=True)
class MomentQueries:
    """The facts of one moment."""

    of_all: FactQueries
    moment: int

    def rows(self, name: str) -> Sequence[Row]:
        """Return the rows of `facts/NAME.sql`, or of a step."""
        return self.of_all.rows(name, self.moment)

    def records(self, table: tables.Table, kind: type[Record]) -> tuple[Record, ...]:
        """Return the rows of a fact table as typed records."""
        return tuple(record_of(kind, row) for row in self.rows(table.name))


def fold(state: pa.Table, queue_snapshots: pa.Table) -> pa.Table:
    """Return `queue_state` after one more interval, by the step that the pipeline takes for each.

    An interval that is not newer than the state changes nothing.
    """
    rows = _sound(_plain(tables.QUEUE_SNAPSHOTS, queue_snapshots))
    newest = pc.max(rows["interval_start"]).as_py()
    if newest is None:
        return state
    engine = DuckDBEngine()
    engine.add(tables.QUEUE_SNAPSHOTS.name, rows)
    engine.add(f"{tables.QUEUE_STATE.name}_before", state)
    return engine.table(tables.QUEUE_STATE.name, fold_parameters(newest))


def _sound(rows: pa.Table) -> pa.Table:
    """Leave out committed offsets of queues that their broker does not have: asked, and no max offset.

    The corrupt invariant "unknown queue" quarantines such rows in the pipeline. A queue whose broker was not asked or
    did not answer has neither, and stays as an unknown one.
    """
    unknown_queue = pc.and_(rows["max_offset"].is_null(), rows["max_offset_read_at"].is_valid())
    return rows.filter(pc.invert(unknown_queue))


def _moments_of(rounds: Sequence[pa.Table]) -> Iterator[datetime]:
    """Yield when each round took place, later than the one before; of one that read nothing that is all we know."""
    before = _EPOCH
    for rows in rounds:
        read_at = (pc.max(rows[name]).as_py() for name in _READ_AT)
        before = max((at for at in read_at if at is not None and at > before), default=before + _LATER)
        yield before


def _rounds(taken_at: Sequence[datetime]) -> pa.Table:
    numbers = arrow_array(tables.ColumnType.INT64, list(range(len(taken_at))))
    return pa.table({"round_number": numbers, "taken_at": arrow_array(tables.ColumnType.TIMESTAMP, list(taken_at))})


def _at(rows: pa.Table, moment: datetime) -> pa.Table:
    place = rows.schema.get_field_index("interval_start")
    return rows.set_column(place, "interval_start", arrow_array(tables.ColumnType.TIMESTAMP, [moment] * len(rows)))


def _plain(table: tables.Table, rows: pa.Table | Sequence[Row]) -> pa.Table:
    return with_plain_texts(rows) if isinstance(rows, pa.Table) else table_of(table, rows)


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    return rows.append_column("round_number", arrow_array(tables.ColumnType.INT64, [number] * len(rows)))
