"""The facts of some intervals on Spark: the texts of `facts/*.sql` as they are, classic or Connect, and what they read.

Facts are made of written rows, never of landed ones, so that the two cannot disagree. A new fact is a line of
FACT_TABLES. `small_facts.py` makes those of a small interval.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.config import Config
from offsetguard.facts import texts
from offsetguard.facts.parameters import FIRST_MINUTES, hour_that_passed, parameters_of
from offsetguard.facts.queries import HISTORY
from offsetguard.tables import (
    BROKER_FACTS,
    BROKER_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    PUBLISHED,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    QUEUE_STATE,
    SUBSCRIPTION_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TRAFFIC_BASELINES,
    Table,
)
from offsetguard_spark.branches import Branches, TableRows
from offsetguard_spark.minutes import Minutes, columns_of
from offsetguard_spark.session import tagged
from offsetguard_spark.tables import Query, nothing

_KEPT = ("kept", "pairs", "replicas")  # steps that are computed once: few rows of many, for several tables
_TABLES = {table.name: table for table in PUBLISHED}


def query_of(name: str, parameters: Mapping[str, Any], *, steps: Sequence[str] = ()) -> Query:
    """Return the query of `facts/NAME.sql`. Of `parameters` those count that the text names.

    `steps`: what it reads by name besides views of the session: other files, each after those it reads.
    """
    text = texts.spark_text(name)
    if steps:
        of_steps = ", ".join(f"{one} AS (\n{texts.spark_text(one)}\n)" for one in steps)
        text = f"WITH {of_steps}\nSELECT * FROM (\n{text}\n)"
    return Query(text, {one: parameters[one] for one in texts.parameters_of(text)})


@dataclass(frozen=True, slots=True)
class FactSources:
    """Some intervals' rows of some clusters, as they were written."""

    minutes: Minutes
    config: Config
    written: Branches
    row_counts: Mapping[str, int]  # table name -> rows of the intervals; a table that is not named has none

    @property
    def parameters(self) -> dict[str, Any]:
        """What the queries may ask for besides rows."""
        return parameters_of(self.config.judgement, self.minutes.last, self.minutes.intervals[0].end)

    def row_count(self, table: Table) -> int:
        """Return how many rows of the intervals were written to a table."""
        return self.row_counts.get(table.name, 0)

    def release(self) -> None:
        """Forget what is kept. Call it when the facts are written or failed."""


@dataclass(frozen=True, slots=True)
class SparkFacts(FactSources):
    """Their facts on Spark; nothing is read before a DataFrame is written.

    What the queries read and give has names in the place of clusters (`minutes.py`).
    """

    spark: SparkSession
    folded_state: DataFrame  # `queue_state` as it is after each interval, also when a newer one stands already
    views: dict[str, Future[DataFrame]] = field(default_factory=dict, repr=False)  # what queries can read by name
    made: dict[Table, DataFrame] = field(default_factory=dict, repr=False)  # what the intervals add to histories

    def rows(self) -> Iterator[TableRows]:
        """Give what makes the rows of each fact table; the numbers are at least those of the rows."""
        self._compare_with_each_other()
        most = max(self.row_counts.values(), default=1)
        for table, has_work in FACT_TABLES.items():
            if has_work(self):
                yield TableRows(table, partial(self.query, table), most)
            else:
                yield TableRows(table, partial(nothing, self.spark, table), 0)

    def query(self, table: Table) -> Query:
        """Return the query of a fact table's rows, as they are to be written."""
        named = self._facts(table.name)
        return Query(self.minutes.without_names(named.text, table), named.parameters)

    def _compare_with_each_other(self) -> None:
        """Let each of several intervals be compared with the one before it, of which nothing is written yet.

        What is compared does not depend on what was before: so these tables are made twice.
        """
        if self.minutes.are_one or not _is_anything_seen(self):
            return
        for table in (BROKER_FACTS, TOPIC_FACTS):
            self.made[table] = self.query(table).rows(self.spark).localCheckpoint(eager=True)
            del self.views[f"{table.name}{HISTORY}"]

    def _facts(self, name: str) -> Query:
        """Return the query of `facts/NAME.sql` about the intervals.

        Steps that it reads stand in its own statement; only rows become views of the session, once for all tables. As
        views the steps took longer: the server analyses a view when it is made, and again what it is made of.
        """
        steps: dict[str, None] = {}  # each after those that it reads
        self._collect(name, steps)
        return query_of(name, self.parameters, steps=tuple(steps))

    def _collect(self, name: str, steps: dict[str, None]) -> None:
        for relation in sorted(texts.relations_of(name) - steps.keys()):
            if relation in texts.names() and relation not in (*_KEPT, QUEUE_STATE.name):
                self._collect(relation, steps)
                steps[relation] = None
            else:
                self._view(relation)

    def _view(self, name: str) -> None:
        """Let queries read rows by a name: of several threads that ask, the first makes the view and the others wait.

        What is kept is computed now. A checkpoint and not `persist`, which keeps the rows but leaves the plan: each
        table would be planned with all of it again, which takes longer than a small interval's rows do.
        """
        own: Future[DataFrame] = Future()
        if (view := self.views.setdefault(name, own)) is own:
            try:
                rows = self._relation(name)
                if name in _KEPT:
                    with tagged(self.spark, f"kept {name}"):
                        rows = rows.localCheckpoint(eager=True)
                rows.createOrReplaceTempView(name)
                own.set_result(rows)  # a server forgets a checkpoint that no client refers to
            except BaseException as error:
                own.set_exception(error)
                raise
        view.result()

    def _relation(self, name: str) -> DataFrame:
        if name == QUEUE_STATE.name:
            return self.minutes.named(self.folded_state, columns_of(QUEUE_STATE))
        if name == "intervals":
            return self.spark.createDataFrame(self.minutes.table()).coalesce(1)
        if name in _KEPT:
            return self._facts(name).rows(self.spark)
        if name.endswith(HISTORY):
            table = _TABLES[name.removesuffix(HISTORY)]
            return self.minutes.history_of_each(self._earlier(table), table)
        table = _TABLES[name]
        if not self.row_count(table):
            return nothing(self.spark, table)
        return self.minutes.named(self.written.read(table), columns_of(table))

    def _earlier(self, table: Table) -> DataFrame:
        """Return a table's history; of usual traffic none where its metadata say so, for it begins after weeks."""
        weeks_ago = self.parameters["oldest_week_before"]
        if table is TRAFFIC_BASELINES and not self.written.may_hold(table, weeks_ago, self.minutes.last):
            return nothing(self.spark, table)
        earlier = self.written.read_with_history(table).where(F.col("cluster").isin(*self.minutes.clusters))
        return earlier.unionByName(self.made[table]) if table in self.made else earlier

    def release(self) -> None:
        """Forget what is kept; Spark frees what nobody refers to."""
        self.views.clear()
        self.made.clear()


_SEEN = (QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS, BROKER_SNAPSHOTS, GROUP_SNAPSHOTS)


def _is_anything_seen(sources: FactSources) -> bool:
    return any(sources.row_count(table) for table in _SEEN)


def _has_queues(sources: FactSources) -> bool:
    return sources.row_count(QUEUE_SNAPSHOTS) > 0


def has_traffic_to_fold(sources: FactSources) -> bool:
    """Whether an hour has just passed whose beginning was seen."""
    hour = hour_that_passed(sources.minutes.first)
    return hour is not None and sources.written.may_hold(TOPIC_FACTS, hour, hour + FIRST_MINUTES)


def has_log_lines(sources: FactSources) -> bool:
    """Whether the look-back window may hold lines of any log."""
    return _looks_back_on(sources, LOG_EVENTS, "oldest_log_interval")


def has_subscriptions(sources: FactSources) -> bool:
    """Whether there are lines, or clients that may subscribe differently: one client alone agrees with itself."""
    return sources.row_count(CLIENT_SNAPSHOTS) > 1 or has_log_lines(sources)


def _has_moves(sources: FactSources) -> bool:
    return _looks_back_on(sources, OFFSET_MOVES, "oldest_move_interval")


def _looks_back_on(sources: FactSources, table: Table, oldest: str) -> bool:
    since = sources.parameters[oldest]
    return sources.row_count(table) > 0 or sources.written.may_hold(table, since, sources.minutes.last)


FACT_TABLES: dict[Table, Callable[[FactSources], bool]] = {
    QUEUE_FACTS: _has_queues,
    GROUP_FACTS: _has_queues,
    TOPIC_FACTS: _is_anything_seen,
    BROKER_FACTS: _is_anything_seen,
    CLUSTER_FACTS: _is_anything_seen,
    TRAFFIC_BASELINES: has_traffic_to_fold,
    OFFSET_MOVE_FACTS: _has_moves,
    LOCK_WAIT_FACTS: has_log_lines,
    SUBSCRIPTION_FACTS: has_subscriptions,
    LOG_LINE_FACTS: has_log_lines,
}
"""Every fact table, and whether it may have rows: those of the file of its name in `facts/`.

Where there can be none, nothing is made or written, which mostly empty tables need; a rerun still takes away what an
earlier one wrote.
"""
