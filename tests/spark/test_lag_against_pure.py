"""Spark's columns are the pure functions' figures, NULL for None, on thousands of random rows in one query."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from offsetguard.snapshot_facts import facts_from_snapshot, is_suspect, is_unknown_queue, lag_ms, offsets_of
from offsetguard.tables import GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard_spark.facts import group_facts, queue_facts
from offsetguard_spark.invariants import TROUBLE, mark
from offsetguard_spark.lag import LAG_SUMS, with_lags
from offsetguard_spark.tables import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from offsetguard.collect.landing import Row
    from offsetguard.config import Config

# Small numbers collide often (equal, one apart); large ones are what real brokers have.
OFFSETS = st.none() | st.integers(0, 4) | st.integers(0, 2**60)
AGES_MS = st.none() | st.integers(-120_000, 10**9)
ROWS = st.lists(
    st.tuples(OFFSETS, OFFSETS, OFFSETS, OFFSETS, AGES_MS, st.booleans(), st.booleans(), st.integers(0, 3)),
    min_size=300,
    max_size=600,
)


def _queue_rows(drawn: list[tuple], interval) -> list[Row]:
    rows = []
    for number, (low, committed, high, pull, age_ms, committed_seen, max_seen, group) in enumerate(drawn):
        row = dict.fromkeys(column.name for column in QUEUE_SNAPSHOTS.columns)
        row |= {"cluster": "demo", "interval_start": interval.start, "consumer_group": f"g{group}", "topic": "t"}
        row |= {"broker_name": "b", "queue_id": number, "min_offset": low, "max_offset": high, "pull_offset": pull}
        row |= {"consumer_offset": committed, "origin": "broker"}
        row["consumer_offset_read_at"] = interval.start if committed_seen else None
        row["max_offset_read_at"] = interval.start if max_seen else None
        row["oldest_unconsumed_at"] = None if age_ms is None else interval.end - timedelta(milliseconds=age_ms)
        rows.append(row)
    return [row for row in rows if not is_unknown_queue(row)]


def _frame(spark: SparkSession, table, rows: list[Row]) -> DataFrame:
    names = [column.name for column in table.columns]
    return spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], spark_schema(table))


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.generate],  # shrinking would start Spark queries by the hundred; the failure names the row
    suppress_health_check=list(HealthCheck),
)
@given(drawn=ROWS)
def test_spark_and_the_pure_functions_agree(spark: SparkSession, snapshot, config: Config, drawn) -> None:
    interval = snapshot.interval
    rows = _queue_rows(drawn, interval)
    queues = mark(_frame(spark, QUEUE_SNAPSHOTS, rows), QUEUE_SNAPSHOTS)
    by_queue = {row["queue_id"]: row.asDict() for row in with_lags(queues, interval.end).collect()}
    for row in rows:
        expected = {name: getattr(offsets_of(row), name) for name in LAG_SUMS} | {"lag_ms": lag_ms(row, interval.end)}
        found = {name: by_queue[row["queue_id"]][name] for name in expected}
        assert found == expected, row
        violations = {violation.value for violation in offsets_of(row).order_violations()}
        assert violations <= set(by_queue[row["queue_id"]][TROUBLE]), row

    suspects = {row["queue_id"] for row in queue_facts(queues, interval.end).collect()}
    assert suspects == {row["queue_id"] for row in rows if is_suspect(row)}

    groups, settings_ = _frame(spark, GROUP_SNAPSHOTS, []), _frame(spark, TOPIC_SETTINGS, [])
    pure = facts_from_snapshot(snapshot.manifest(), {"queue_snapshots": rows}, config, interval).groups
    found_groups = group_facts(queues.drop(TROUBLE), mark(groups, GROUP_SNAPSHOTS), settings_, interval.end).collect()
    figures = ("queue_count", "unknown_queue_count", "never_committed_queue_count", *LAG_SUMS, "lag_ms")
    assert {row["consumer_group"]: [row[name] for name in figures] for row in found_groups} == {
        group.consumer_group: [_int64(getattr(group, name)) for name in figures] for group in pure
    }


def _int64(figure: int | None) -> int | None:
    """Bound a figure as a table's column is bound; Python's numbers are not."""
    return None if figure is None else max(-(2**63), min(figure, 2**63 - 1))
