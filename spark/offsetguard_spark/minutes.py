"""What one publication is of: some clusters, and some intervals of each, which are told apart by names.

`facts/*.sql` and the gate keep clusters apart, `cluster` being a part of every key. So where several intervals are
published at once, each interval of a cluster is a cluster of its own to them: its name is put in the place of the
cluster's, and taken away again before anything is written. Of a single interval the names are those of the clusters,
and rows stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from offsetguard.model.intervals import NAME_FORMAT, Interval, Minute
from offsetguard.tables import Table

_NAME = "yyyyMMdd'T'HHmmss'Z'"  # `Interval.name`, in Spark's words
_NAME_LENGTH = len("20261121T103900Z")
_OF_INTERVAL = "of_interval"


@dataclass(frozen=True, slots=True)
class Minutes:
    """Each of the intervals, of each of the clusters."""

    clusters: tuple[str, ...]
    intervals: tuple[Interval, ...]  # oldest first, at least one

    @property
    def first(self) -> datetime:
        """The start of the oldest interval."""
        return self.intervals[0].start

    @property
    def last(self) -> datetime:
        """The start of the newest interval."""
        return self.intervals[-1].start

    @property
    def until(self) -> datetime:
        """The end of the newest interval."""
        return self.intervals[-1].end

    @property
    def are_one(self) -> bool:
        """Whether there is one interval."""
        return len(self.intervals) == 1

    def each(self) -> list[Minute]:
        """Return every interval of every cluster, the oldest first."""
        return [(cluster, interval) for interval in self.intervals for cluster in self.clusters]

    def table(self) -> pa.Table:
        """Return what facts are about: by name (`cluster`) `interval_start`, and `now`, the interval's end."""
        of_each = [
            {"cluster": self.name(one), "interval_start": one[1].start, "now": one[1].end} for one in self.each()
        ]
        return pa.Table.from_pylist(of_each)

    def name(self, minute: Minute) -> str:
        """Return the name of one of them."""
        cluster, interval = minute
        return cluster if self.are_one else interval.name + cluster

    def named(self, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Put names in the place of clusters; `columns`: those of the rows, among them `interval_start`."""
        return rows if self.are_one else rows.select(*_with_cluster(columns, _name_of("interval_start")))

    def named_rows(self, rows: pa.Table) -> pa.Table:
        """Do what `named` does with rows that Python has."""
        if self.are_one:
            return rows
        starts = rows["interval_start"].cast(pa.timestamp("s", "UTC"))
        names = pc.binary_join_element_wise(pc.strftime(starts, NAME_FORMAT), rows["cluster"], "")
        return rows.set_column(rows.schema.get_field_index("cluster"), "cluster", names)

    def history_of_each(self, rows: DataFrame, table: Table) -> DataFrame:
        """Give each of them the rows of a table that are not of later intervals; named."""
        if self.are_one:
            return rows
        starts = F.array(*[F.lit(one.start) for one in self.intervals])
        own = F.explode(F.filter(starts, lambda start: start >= F.col("interval_start")))
        return rows.select("*", own.alias(_OF_INTERVAL)).select(
            *_with_cluster(columns_of(table), _name_of(_OF_INTERVAL))
        )

    def without_names(self, query: str, table: Table) -> str:
        """Put the clusters back in the place of the names, in a query of a table's rows."""
        if self.are_one:
            return query
        cluster = f"SUBSTRING(cluster, {_NAME_LENGTH + 1}) AS cluster"
        columns = ", ".join(cluster if name == "cluster" else name for name in columns_of(table))
        return f"SELECT {columns} FROM (\n{query}\n)"


def columns_of(table: Table) -> list[str]:
    """Return the names of a table's columns, in order."""
    return [column.name for column in table.columns]


def _with_cluster(columns: Sequence[str], cluster: Column) -> list[Column]:
    return [cluster.alias(name) if name == "cluster" else F.col(name) for name in columns]


def _name_of(start: str) -> Column:
    return F.concat(F.date_format(start, _NAME), F.col("cluster"))
