"""The state and the facts of a small interval: the texts of `facts/*.sql` on DuckDB, as the judge and `check` run them.

Spark analyses and plans a query for longer than a few thousand rows take it: facts were five seconds of its CPU a
minute, of which its tasks were one. DuckDB makes them in a fifth of a second, and those of 80,000 queues, for which
Spark's took 39 s of CPU, in three; beyond MOST_ROWS its memory counts. Both read what was written, and what they give
is written by Spark; `tests/spark/test_facts_on_both_engines.py` holds that the two give the same rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.queries import HISTORY, fold
from offsetguard.tables import (
    BROKER_FACTS,
    GROUP_FACTS,
    LOG_EVENTS,
    OFFSET_MOVES,
    PUBLISHED,
    QUEUE_SNAPSHOTS,
    QUEUE_STATE,
    TOPIC_FACTS,
    TRAFFIC_BASELINES,
    Table,
)
from offsetguard.tables.table import arrow_schema
from offsetguard_spark.branches import EVER_SINCE, TableRows
from offsetguard_spark.facts import FACT_TABLES, FactSources

MOST_ROWS = 800_000  # landed: 500,000 queues of groups, for which the publisher took 2.7 GiB
MOST_READ = 120_000  # of several intervals, or of an older one: what Spark reads of them is sent to it
_TABLES = {table.name: table for table in PUBLISHED}
OLDEST = {  # of a history: the parameters that say since when a text reads it
    BROKER_FACTS: ("oldest_compared",),
    TOPIC_FACTS: ("oldest_compared", "hour_start"),
    GROUP_FACTS: ("hour_start",),
    TRAFFIC_BASELINES: ("oldest_baseline", "oldest_week_before"),
    LOG_EVENTS: ("oldest_log_interval", "oldest_move_interval"),
    OFFSET_MOVES: ("oldest_move_interval",),
}


@dataclass(frozen=True, slots=True)
class SmallFacts(FactSources):
    """The state after one interval of some clusters, where main has that of an earlier one, and its facts."""

    engine: DuckDBEngine = field(default_factory=DuckDBEngine)
    since: dict[str, datetime] = field(default_factory=dict)  # by name of what queries can read: its oldest interval

    def rows(self) -> Iterator[TableRows]:
        """Give the rows of `queue_state`, if there are queues, and of each fact table."""
        if self.row_count(QUEUE_SNAPSHOTS):
            before, own = self.written.rows_since(EVER_SINCE, QUEUE_STATE), self.written.rows(QUEUE_SNAPSHOTS)
            state = _as_written(QUEUE_STATE, fold(before, own))
            self.engine.add(QUEUE_STATE.name, state.filter(pc.field("interval_start") == self.minutes.first))
            self.since[QUEUE_STATE.name] = self.minutes.first
            yield TableRows(QUEUE_STATE, state, len(state))
        for table, has_work in FACT_TABLES.items():
            rows = self._facts(table) if has_work(self) else arrow_schema(table).empty_table()
            yield TableRows(table, rows, len(rows))

    def _facts(self, table: Table) -> pa.Table:
        self._give(table.name)
        return _as_written(table, self.engine.table(table.name, self.parameters))

    def _give(self, name: str) -> None:
        """Let the engine read what a text reads, steps that it shares with other texts among it."""
        for relation in sorted(texts.relations_of(name)):
            since = self._oldest(name, relation)
            if relation in self.since and self.since[relation] <= since:
                continue
            if relation in texts.names() and relation != QUEUE_STATE.name:
                self._give(relation)
                self.engine.keep(relation, self.parameters)
            else:
                self.engine.add(relation, self._relation(relation, since))
            self.since[relation] = since

    def _oldest(self, name: str, relation: str) -> datetime:
        """Return since when a text reads a history; of what is no history, the interval's start."""
        oldest = OLDEST[_TABLES[relation.removesuffix(HISTORY)]] if relation.endswith(HISTORY) else ()
        asked_for = texts.parameters_of(texts.spark_text(name))
        return min((self.parameters[one] for one in oldest if one in asked_for), default=self.minutes.first)

    def _relation(self, name: str, since: datetime) -> pa.Table:
        if name == "intervals":
            return self.minutes.table()
        if name.endswith(HISTORY):
            return self.written.rows_since(since, _TABLES[name.removesuffix(HISTORY)])
        return self.written.rows(_TABLES[name])


def _as_written(table: Table, rows: pa.Table) -> pa.Table:
    schema = arrow_schema(table)
    return rows.select(schema.names).cast(schema)
