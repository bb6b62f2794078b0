"""Every text of facts/*.sql gives the same rows on Spark and on DuckDB, over hundreds of generated intervals."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from offsetguard.collect.landing import arrow_schema
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.queue_fold import KEPT_FOR
from offsetguard.queue_state import WINDOW
from offsetguard.tables import QUEUE_SNAPSHOTS, Table
from offsetguard_peers.generated_queues import LAST, SPAN, Row, queue_histories
from offsetguard_spark.sql_engine import SparkEngine

if TYPE_CHECKING:
    from random import Random

    from pyspark.sql import SparkSession

CLUSTERS = 150
ONCE = settings(
    max_examples=1,
    phases=[Phase.generate],  # shrinking would start Spark queries by the hundred; the failure names the rows
    suppress_health_check=list(HealthCheck),
)
_US = timedelta(microseconds=1)
_KEY = ("cluster", "consumer_group", "topic", "broker_name", "queue_id")


@ONCE
@given(dice=st.randoms(use_true_random=True))
def test_the_window_and_the_figures_of_queues(spark: SparkSession, dice: Random) -> None:
    rows = queue_histories(dice, CLUSTERS)
    both = _BothEngines(spark)
    both.parameters |= {
        "interval_start": LAST.start,
        "first_interval_start": LAST.start - SPAN,
        "window_us": WINDOW // _US,
        "kept_for_us": KEPT_FOR // _US,
    }
    clusters = sorted({row["cluster"] for row in rows})
    both.add("intervals", pa.Table.from_pylist([_interval(name) for name in clusters]))
    newest = [row for row in rows if row["interval_start"] == LAST.start]
    earlier = [row for row in rows if row["interval_start"] < LAST.start]
    both.add("queue_snapshots_history", _table(QUEUE_SNAPSHOTS, earlier))
    both.add("queue_state_before", both.same("queue_windows"))
    both.add("queue_snapshots", _table(QUEUE_SNAPSHOTS, newest))
    folded = both.same("queue_state")
    both.add("queue_snapshots_history", _table(QUEUE_SNAPSHOTS, rows))
    assert _sorted(both.same("queue_windows")) == _sorted(folded)
    both.add("queue_state", folded)
    for step in ("queue_curves", "time_lags", "queue_figures", "pairs"):
        both.add(step, both.same(step))


def _interval(cluster: str) -> Row:
    return {"cluster": cluster, "interval_start": LAST.start, "now": LAST.end}


def _table(table: Table, rows: list[Row]) -> pa.Table:
    schema = pa.schema([column.with_nullable(True) for column in arrow_schema(table)])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def _sorted(rows: pa.Table) -> list[Row]:
    key = [name for name in _KEY if name in rows.column_names]
    return sorted(rows.to_pylist(), key=lambda row: [repr(row[name]) for name in key])


class _BothEngines:
    """The same relations on Spark and on DuckDB."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._engines = SparkEngine(spark), DuckDBEngine()
        self.parameters: dict[str, Any] = {}

    def add(self, name: str, rows: pa.Table) -> None:
        spark, duckdb = self._engines
        spark.add(name, self._spark.createDataFrame(rows))
        duckdb.add(name, rows)

    def same(self, name: str) -> pa.Table:
        """Run a query on both; what differs is a failure that shows it."""
        spark, duckdb = self._engines
        found, expected = spark.run(name, self.parameters).toArrow(), duckdb.run(name, self.parameters)
        assert found.column_names == expected.column_names
        pairs = list(zip(_sorted(found), _sorted(expected), strict=True))
        differences = [
            f"{[row.get(key) for key in _KEY]} {column}: Spark {value!r}, DuckDB {other[column]!r}"
            for row, other in pairs
            for column, value in row.items()
            if value != other[column]
        ]
        assert not differences, f"{name}: {len(differences)} differ\n" + "\n".join(differences[:20])
        assert pairs, f"{name}: no row was made"
        return expected
