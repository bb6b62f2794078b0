"""Facts that compare an interval with earlier ones: growth, and usual traffic."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from offsetguard import tables
from offsetguard.config import Config
from offsetguard.lake.reading import table_schema
from offsetguard.model.intervals import Interval
from offsetguard.tables.facts import Baseline
from offsetguard_spark.facts import SparkFacts, has_traffic_to_fold
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.queue_state import fold_snapshot
from offsetguard_spark.session import suit_row_count

Row = dict[str, Any]


@dataclass
class Frames:
    """In place of a run's branches: the interval's rows and those of earlier ones, by table; columns may be missing."""

    spark: SparkSession
    rows: Mapping[str, list[Row]] = field(default_factory=dict)
    history: Mapping[str, list[Row]] = field(default_factory=dict)

    def read(self, table: tables.Table) -> DataFrame:
        return self._frame(table, self.rows.get(table.name, []))

    def read_with_history(self, table: tables.Table) -> DataFrame:
        return self._frame(table, [*self.history.get(table.name, []), *self.rows.get(table.name, [])])

    def may_hold(self, table: tables.Table, first: datetime, last: datetime) -> bool:
        return any(first <= row["interval_start"] <= last for row in self.history.get(table.name, []))

    def _frame(self, table: tables.Table, rows: list[Row]) -> DataFrame:
        return self.spark.createDataFrame(pa.Table.from_pylist(rows, schema=table_schema(table)))


def sources_of(frames: Frames, config: Config, interval: Interval) -> SparkFacts:
    """Return what the makers of facts take; no queue was seen before."""
    before, queues = frames.read_with_history(tables.QUEUE_STATE), frames.read(tables.QUEUE_SNAPSHOTS)
    folded = fold_snapshot(before, queues, interval).rows(frames.spark)
    counts = {name: len(rows) for name, rows in frames.rows.items()}
    return SparkFacts(Minutes(("demo",), (interval,)), config, frames, counts, frames.spark, folded)


def rows_of(sources: SparkFacts, table: tables.Table) -> list[Row]:
    return [row.asDict() for row in sources.query(table).rows(sources.spark).collect()]


def _earlier(snapshot, minutes: float, **columns: Any) -> Row:
    start = snapshot.interval.start - timedelta(minutes=minutes)
    return {"cluster": "demo", "interval_start": start, **columns}


def test_a_topic_grows_since_it_was_last_seen(spark: SparkSession, snapshot, config: Config) -> None:
    """1,200 messages in 60 s; a topic that shrank was recreated, one with other queues cannot be compared."""
    counted_at = snapshot.read_at - timedelta(seconds=60)
    before = {
        "grown": {"max_offset_total": 800, "queue_count": 2},
        "idle": {"max_offset_total": 2000, "queue_count": 2},
        "recreated": {"max_offset_total": 2001, "queue_count": 2},
        "wider": {"max_offset_total": 800, "queue_count": 1},
        "unseen before": {"max_offset_total": None, "queue_count": 2},
    }
    rows = []
    for topic, columns in before.items():
        older = {"topic": topic, "max_offset_total": 1, "queue_count": 2, "counted_at": counted_at}
        rows += [_earlier(snapshot, 3, **older), _earlier(snapshot, 1, topic=topic, counted_at=counted_at, **columns)]
    for topic in (*before, "new"):
        snapshot.topic_queue(topic, 0, 0, 1000)
        snapshot.topic_queue(topic, 1, 0, 1000)
    sources = sources_of(Frames(spark, snapshot.rows, {tables.TOPIC_FACTS.name: rows}), config, snapshot.interval)
    found = {row["topic"]: row["produce_tps"] for row in rows_of(sources, tables.TOPIC_FACTS)}
    assert found == dict.fromkeys((*before, "new")) | {"grown": 20.0, "idle": 0.0}


def test_a_commit_log_grows_since_the_replica_was_last_seen(spark: SparkSession, snapshot, config: Config) -> None:
    for broker_id, end in ((0, 5_000), (1, 4_000)):
        columns = {"address": "a:1", "answered": True, "commit_log_max_offset": end, "read_at": snapshot.read_at}
        snapshot.add("broker_snapshots", broker_name="b", broker_id=broker_id, **columns)
    read_at = snapshot.read_at - timedelta(seconds=90)
    replica = {"broker_name": "b", "broker_id": 0, "listed": True, "commit_log_max_offset": 2_000, "read_at": read_at}
    rows = [_earlier(snapshot, 1, **replica), _earlier(snapshot, 1, **{**replica, "broker_id": 1, "read_at": None})]
    sources = sources_of(Frames(spark, snapshot.rows, {tables.BROKER_FACTS.name: rows}), config, snapshot.interval)
    found = {row["broker_id"]: row for row in rows_of(sources, tables.BROKER_FACTS)}
    assert {number: (row["commit_log_growth"], row["commit_log_growth_ms"]) for number, row in found.items()} == {
        0: (3_000, 90_000),
        1: (2_000, None),
    }


def test_an_hours_traffic_joins_the_same_hour_of_earlier_weeks(spark: SparkSession, snapshot, config: Config) -> None:
    """7,200 messages were written in the hour and 3,600 committed; what is usual then stands on the facts."""
    at_noon = replace(snapshot, interval=Interval(snapshot.interval.start.replace(hour=12, minute=0)))
    at_noon.topic_queue("orders", 0, 0, 10_000)
    at_noon.topic_queue("new", 0, 0, 5)
    at_noon.queue("billing", "orders", 0, (0, 9_000, 10_000))
    begun = at_noon.read_at - timedelta(hours=1)
    written = _earlier(at_noon, 60, topic="orders", max_offset_total=2_800, counted_at=begun, queue_count=1)
    later = _earlier(at_noon, 58, topic="orders", max_offset_total=9_999, counted_at=begun, queue_count=1)
    committed = {"topic": "orders", "consumer_group": "billing", "consumer_offset_total": 5_400, "counted_at": begun}
    week = {"topic": "orders", "hour_of_week": 5 * 24 + 11, "mean_tps": 1.0, "spread_tps": 0.5, "week_count": 3}
    two_weeks = {**week, "mean_tps": 99.0}
    this_hour = {**week, "hour_of_week": 5 * 24 + 12, "mean_tps": 7.0, "consumer_group": "billing"}
    minutes = 7 * 24 * 60
    history = {
        tables.TOPIC_FACTS.name: [written, later],
        tables.GROUP_FACTS.name: [_earlier(at_noon, 60, **committed)],
        tables.TRAFFIC_BASELINES.name: [
            _earlier(at_noon, minutes, **week),
            _earlier(at_noon, 2 * minutes, **two_weeks),
            _earlier(at_noon, minutes - 60, **this_hour),
        ],
    }
    sources = sources_of(Frames(spark, at_noon.rows, history), config, at_noon.interval)
    assert has_traffic_to_fold(sources)
    found = {row["consumer_group"]: row for row in rows_of(sources, tables.TRAFFIC_BASELINES)}
    expected = {None: (2.0, Baseline(1.25, 0.375**0.5, 4)), "billing": (1.0, Baseline(1.0, 0.0, 1))}
    for group, (tps, baseline) in expected.items():
        row = found.pop(group)
        assert (row["topic"], row["hour_of_week"], row["hour_tps"]) == ("orders", 5 * 24 + 11, tps)
        assert Baseline(row["mean_tps"], row["spread_tps"], row["week_count"]) == baseline
    assert not found
    (group,) = rows_of(sources, tables.GROUP_FACTS)
    assert (group["baseline_tps"], group["baseline_spread_tps"], group["baseline_week_count"]) == (7.0, 0.5, 3)


def test_only_the_first_interval_of_an_hour_folds_traffic(spark: SparkSession, snapshot, config: Config) -> None:
    """Any other minute, or an hour whose beginning was not seen, costs nothing."""
    rows = [_earlier(snapshot, 60, topic="orders")]
    assert not has_traffic_to_fold(
        sources_of(Frames(spark, {}, {tables.TOPIC_FACTS.name: rows}), config, snapshot.interval)
    )
    on_the_hour = Interval(snapshot.interval.start.replace(minute=0))
    assert not has_traffic_to_fold(sources_of(Frames(spark), config, on_the_hour))


def test_a_small_snapshots_facts_are_one_job_each_whatever_they_join(
    spark: SparkSession, snapshot, config: Config, counted_jobs
) -> None:
    suit_row_count(spark, 0)
    snapshot.queue("billing", "orders", 0, (0, 40, 100))
    sources = sources_of(Frames(spark, snapshot.rows), config, snapshot.interval)
    for table in (tables.QUEUE_FACTS, tables.GROUP_FACTS, tables.TOPIC_FACTS):
        query = sources.query(table)  # makes what is kept for several facts
        with counted_jobs() as jobs:
            query.rows(spark).collect()
        assert len(jobs) == 1, table.name
