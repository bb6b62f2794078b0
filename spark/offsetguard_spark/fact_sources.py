"""What facts may be made of: one interval's rows as they were written, and the folded state of its queues.

Facts are made of written rows, never of landed ones, so that the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.config import Config
from offsetguard.facts import texts
from offsetguard.facts.parameters import parameters_of
from offsetguard.model.intervals import Interval
from offsetguard.tables import PUBLISHED, QUEUE_STATE, TRAFFIC_BASELINES, Table
from offsetguard_spark.sql_engine import SparkEngine
from offsetguard_spark.tables import nothing
from offsetguard_spark.tags import tagged

_HISTORY = "_history"
_KEPT = ("kept", "pairs", "replicas")  # steps that are computed once: few rows of many, for several tables
_TABLES = {table.name: table for table in PUBLISHED}


class WrittenTables(Protocol):
    """Where rows are read: the branches of a run, or in a test the DataFrames that stand for them."""

    def read(self, table: Table) -> DataFrame:
        """Return the interval's rows of a table."""
        ...

    def read_with_history(self, table: Table) -> DataFrame:
        """Return a table's rows of all intervals."""
        ...

    def may_hold(self, table: Table, first: datetime, last: datetime) -> bool:
        """Whether earlier runs may have written rows of intervals that start in [first, last]; reads only metadata."""
        ...


@dataclass(frozen=True, slots=True)
class FactSources:
    """One interval's rows; nothing is read before a DataFrame is written."""

    spark: SparkSession
    cluster: str
    interval: Interval
    config: Config
    written: WrittenTables
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
        return SparkEngine(self.spark).run(name, self.parameters, steps=tuple(steps))

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
                SparkEngine(self.spark).add(name, rows)
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
            moment = {"cluster": self.cluster, "start": self.interval.start, "now": self.interval.end}
            return self.spark.sql("SELECT :cluster AS cluster, :start AS interval_start, :now AS now", args=moment)
        if name in _KEPT:
            return self.facts(name)
        if name.endswith(_HISTORY):
            return self._earlier(_TABLES[name.removesuffix(_HISTORY)])
        table = _TABLES[name]
        return self.written.read(table) if self.row_count(table) else nothing(self.spark, table)

    def _earlier(self, table: Table) -> DataFrame:
        """Return a table's history; of usual traffic none where its metadata say so, for it begins after weeks."""
        weeks_ago = self.parameters["oldest_week_before"]
        if table is TRAFFIC_BASELINES and not self.may_hold(table, weeks_ago, self.interval.start):
            return nothing(self.spark, table)
        return self.written.read_with_history(table).where(F.col("cluster") == self.cluster)

    def may_hold(self, table: Table, first: datetime, last: datetime) -> bool:
        """Whether the history may have rows of intervals that start in [first, last]; takes milliseconds."""
        return self.written.may_hold(table, first, last)

    def row_count(self, table: Table) -> int:
        """Return how many rows of this interval were written to a table."""
        return self.row_counts.get(table.name, 0)

    def release(self) -> None:
        """Forget what is kept; Spark frees what nobody refers to. Call it when the facts are written or failed."""
        self.views.clear()
