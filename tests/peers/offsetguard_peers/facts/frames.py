"""Tables in memory for the makers of facts, in place of the branches of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_spark.facts import FactSources
from offsetguard_spark.queue_state import fold_snapshot

Row = dict[str, Any]


@dataclass
class Frames:
    """The interval's rows, and those of earlier ones, by table name; columns that a row does not have are NULL."""

    spark: SparkSession
    rows: dict[str, list[Row]] = field(default_factory=dict)
    history: dict[str, list[Row]] = field(default_factory=dict)

    def read(self, table: Table) -> DataFrame:
        """Return the interval's rows."""
        return self.frame(table, self.rows.get(table.name, []))

    def read_with_history(self, table: Table) -> DataFrame:
        """Return the rows of earlier intervals and of this one."""
        return self.frame(table, [*self.history.get(table.name, []), *self.rows.get(table.name, [])])

    def may_hold(self, table: Table, first: datetime, last: datetime) -> bool:
        """Whether there are rows of intervals in [first, last]."""
        return any(first <= row["interval_start"] <= last for row in self.history.get(table.name, []))

    def frame(self, table: Table, rows: list[Row]) -> DataFrame:
        """Return rows as a DataFrame of the table's columns."""
        schema = pa.schema([column.with_nullable(True) for column in arrow_schema(table)])
        filled = [{name: row.get(name) for name in schema.names} for row in rows]
        return self.spark.createDataFrame(pa.Table.from_pylist(filled, schema=schema))


def sources_of(frames: Frames, config: Config, interval: Interval) -> FactSources:
    """Return what the makers of facts take; no queue was seen before."""
    folded_state = fold_snapshot(frames.frame(QUEUE_STATE, []), frames.read(QUEUE_SNAPSHOTS), interval)
    counts = {name: len(rows) for name, rows in frames.rows.items()}
    return FactSources(frames.spark, "demo", interval, config, frames, counts, folded_state)


def rows_of(frame: DataFrame, table: Table) -> list[Row]:
    """Return a fact table's rows, times as UTC; its columns must be the table's, in order."""
    assert frame.columns == [column.name for column in table.columns]
    return [{name: _utc(value) for name, value in row.asDict().items()} for row in frame.collect()]


def _utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
