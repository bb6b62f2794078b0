"""The facts of one interval on Spark: the texts of `facts/*.sql` as they are, classic or Connect, and what they read.

Facts are made of written rows, never of landed ones, so that the two cannot disagree. A new fact is a line of
FACT_TABLES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.config import Config
from offsetguard.facts import texts
from offsetguard.facts.parameters import FIRST_MINUTES, hour_that_passed, parameters_of
from offsetguard.model.intervals import Interval
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
from offsetguard_spark.branches import Branches
from offsetguard_spark.session import tagged
from offsetguard_spark.tables import nothing

_HISTORY = "_history"
_KEPT = ("kept", "pairs", "replicas")  # steps that are computed once: few rows of many, for several tables
_TABLES = {table.name: table for table in PUBLISHED}


def rows_of_query(
    spark: SparkSession, name: str, parameters: Mapping[str, Any] | None = None, *, steps: Sequence[str] = ()
) -> DataFrame:
    """Return the rows of `facts/NAME.sql`, lazily. Of `parameters` those count that the text names.

    `steps`: what it reads by name besides views of the session: other files, each after those it reads.
    """
    text = texts.spark_text(name)
    if steps:
        of_steps = ", ".join(f"{one} AS (\n{texts.spark_text(one)}\n)" for one in steps)
        text = f"WITH {of_steps}\nSELECT * FROM (\n{text}\n)"
    return spark.sql(text, args={one: (parameters or {})[one] for one in texts.parameters_of(text)})


@dataclass(frozen=True, slots=True)
class FactSources:
    """One interval's rows of some clusters; nothing is read before a DataFrame is written."""

    spark: SparkSession
    clusters: tuple[str, ...]
    interval: Interval
    config: Config
    written: Branches
    row_counts: Mapping[str, int]  # table name -> rows of this interval; a table that is not named has none
    folded_state: DataFrame  # `queue_state` as it is after this interval, also when a newer one stands already
    views: dict[str, Future[DataFrame]] = field(default_factory=dict, repr=False)  # what queries can read by name

    def facts(self, name: str) -> DataFrame:
        """Return the rows of `facts/NAME.sql` about this interval.

        Steps that it reads stand in its own statement; only rows become views of the session, once for all tables. As
        views the steps took longer: the server analyses a view when it is made, and again what it is made of.
        """
        steps: dict[str, None] = {}  # each after those that it reads
        self._collect(name, steps)
        return rows_of_query(self.spark, name, self.parameters, steps=tuple(steps))

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

    @property
    def parameters(self) -> dict[str, Any]:
        """What the queries may ask for besides rows."""
        return parameters_of(self.config.judgement, self.interval.start, self.interval.end)

    def _relation(self, name: str) -> DataFrame:
        if name == QUEUE_STATE.name:
            return self.folded_state
        if name == "intervals":
            moment = {"clusters": list(self.clusters), "start": self.interval.start, "now": self.interval.end}
            text = "SELECT explode(:clusters) AS cluster, :start AS interval_start, :now AS now"
            return self.spark.sql(text, args=moment)
        if name in _KEPT:
            return self.facts(name)
        if name.endswith(_HISTORY):
            return self._earlier(_TABLES[name.removesuffix(_HISTORY)])
        table = _TABLES[name]
        return self.written.read(table) if self.row_count(table) else nothing(self.spark, table)

    def _earlier(self, table: Table) -> DataFrame:
        """Return a table's history; of usual traffic none where its metadata say so, for it begins after weeks."""
        weeks_ago = self.parameters["oldest_week_before"]
        if table is TRAFFIC_BASELINES and not self.written.may_hold(table, weeks_ago, self.interval.start):
            return nothing(self.spark, table)
        return self.written.read_with_history(table).where(F.col("cluster").isin(*self.clusters))

    def row_count(self, table: Table) -> int:
        """Return how many rows of this interval were written to a table."""
        return self.row_counts.get(table.name, 0)

    def release(self) -> None:
        """Forget what is kept; Spark frees what nobody refers to. Call it when the facts are written or failed."""
        self.views.clear()


_SEEN = (QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS, BROKER_SNAPSHOTS, GROUP_SNAPSHOTS)


def _is_anything_seen(sources: FactSources) -> bool:
    return any(sources.row_count(table) for table in _SEEN)


def _has_queues(sources: FactSources) -> bool:
    return sources.row_count(QUEUE_SNAPSHOTS) > 0


def has_traffic_to_fold(sources: FactSources) -> bool:
    """Whether an hour has just passed whose beginning was seen."""
    hour = hour_that_passed(sources.interval.start)
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
    return sources.row_count(table) > 0 or sources.written.may_hold(table, since, sources.interval.start)


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
