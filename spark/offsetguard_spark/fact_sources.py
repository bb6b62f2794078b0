"""What facts may be made of: one interval's rows as they were written, and the folded state of its queues.

Facts are made of written rows, never of landed ones, so that the two cannot disagree.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyspark.sql import functions as F

from offsetguard.facts import texts
from offsetguard.facts.parameters import parameters_of
from offsetguard.tables import PUBLISHED, QUEUE_STATE, TRAFFIC_BASELINES
from offsetguard_spark.invariants import mark
from offsetguard_spark.sql_engine import SparkEngine
from offsetguard_spark.tags import tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from offsetguard.config import Config
    from offsetguard.intervals import Interval
    from offsetguard.tables import Table


T = TypeVar("T")
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
    shared: dict[str, Future[DataFrame]] = field(default_factory=dict, repr=False)  # what several tables are made of
    views: dict[str, Future[None]] = field(default_factory=dict, repr=False)  # what queries can read by name already

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
                _once(self.views, relation, partial(self._show, relation))

    def _show(self, relation: str) -> None:
        SparkEngine(self.spark).add(relation, self.relation(relation))

    @property
    def parameters(self) -> dict[str, Any]:
        """What the queries may ask for besides rows."""
        return parameters_of(self.config.judgement, self.interval.start, self.interval.end)

    def relation(self, name: str) -> DataFrame:
        """Return what queries read by a name."""
        if name == QUEUE_STATE.name:
            return self.folded_state
        if name == "intervals":
            moment = {"cluster": self.cluster, "start": self.interval.start, "now": self.interval.end}
            return self.spark.sql("SELECT :cluster AS cluster, :start AS interval_start, :now AS now", args=moment)
        if name in _KEPT:
            return self.once(name, lambda: self.facts(name))
        if name.endswith(_HISTORY):
            return self._earlier(_TABLES[name.removesuffix(_HISTORY)])
        table = _TABLES[name]
        rows = self.rows(table)
        return rows if self.row_count(table) else rows.where(F.lit(False))  # an empty relation costs no join

    def _earlier(self, table: Table) -> DataFrame:
        """Return a table's history; of usual traffic none where its metadata say so, for it begins after weeks."""
        rows = self.history(table).where(F.col("cluster") == self.cluster)
        weeks_ago = self.parameters["oldest_week_before"]
        if table is TRAFFIC_BASELINES and not self.may_hold(table, weeks_ago, self.interval.start):
            return rows.where(F.lit(False))
        return rows

    def rows(self, table: Table) -> DataFrame:
        """Return this interval's rows of a landed table, with `violated_invariants` (ids, never NULL)."""
        return mark(self.written.read(table), table)

    def history(self, table: Table) -> DataFrame:
        """Return a table's rows of all intervals, with those of this one.

        Filter by `cluster` and `interval_start`, which prune files; no cycle may read all of it.
        """
        return self.written.read_with_history(table)

    def may_hold(self, table: Table, first: datetime, last: datetime) -> bool:
        """Whether the history may have rows of intervals that start in [first, last]; takes milliseconds."""
        return self.written.may_hold(table, first, last)

    def row_count(self, table: Table) -> int:
        """Return how many rows of this interval were written to a table."""
        return self.row_counts.get(table.name, 0)

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Return a small DataFrame that several tables are made of, computed now.

        A checkpoint and not `persist`, which keeps the rows but leaves the plan: each table would be planned with all
        of it again, which takes longer than a small interval's rows do.
        """

        def made() -> DataFrame:
            with tagged(self.spark, f"shared {name}"):
                return make().localCheckpoint(eager=True)

        return _once(self.shared, name, made)

    def release(self) -> None:
        """Forget what `once` keeps; Spark frees what nobody refers to. Call it when the facts are written or failed."""
        self.shared.clear()


def _once(made: dict[str, Future[T]], name: str, make: Callable[[], T]) -> T:
    """Return what is made once under a name: of several threads that ask, the first makes it and the others wait."""
    own: Future[T] = Future()
    kept = made.setdefault(name, own)
    if kept is own:
        try:
            own.set_result(make())
        except BaseException as error:
            own.set_exception(error)
            raise
    return kept.result()
