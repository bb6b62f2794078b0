"""Offset moves of the look-back window as facts, each move once whatever told of it: the Spark side.

What is done, step by step, stands in `offsetguard.move_facts`, which makes the same of a list of rows.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from offsetguard.move_facts import CONTENT, EVENT, LOG, SNAPSHOT
from offsetguard.tables import OFFSET_MOVE_FACTS

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from offsetguard.intervals import Interval

# Events are landed by the round that reads them; a broker's clock may be ahead of ours by this much.
_CLOCK_SKEW = timedelta(minutes=10)
_PLACE = ("consumer_group", "topic", "broker_name")
_REQUEST = (*_PLACE, "requested_offset")
_FACT = ("origin", *_REQUEST, "client_id", "queue_id")
_FIGURES = ("corrected_offset", "move_count", "first_moved_at", "last_moved_at")


def oldest_interval(interval: Interval, window: timedelta) -> datetime:
    """Return the start of the oldest interval whose rows may lie in the window."""
    return interval.end - window - _CLOCK_SKEW


def offset_move_facts(moves: DataFrame, cluster: str, interval: Interval, window: timedelta) -> DataFrame:
    """Return the rows of `offset_move_facts`. `moves`: the rows of `offset_moves`, with all their history.

    Only rows of this interval and older ones count: the answer is the same when newer ones are there already.
    """
    in_window = moves.where(
        (F.col("cluster") == cluster)
        & (F.col("interval_start") >= F.lit(oldest_interval(interval, window)))
        & (F.col("interval_start") <= F.lit(interval.start))
        & (F.col("moved_at") >= F.lit(interval.end - window))
    )
    rows = in_window.select(*CONTENT).distinct()
    return (
        _without_traces(_aggregated(_told_once(rows)))
        .withColumns({"cluster": F.lit(cluster), "interval_start": F.lit(interval.start)})
        .select(*[column.name for column in OFFSET_MOVE_FACTS.columns])
    )


def _told_once(rows: DataFrame) -> DataFrame:
    """Drop log lines of events, and give the events the client that these lines name."""
    same_request = Window.partitionBy(*_REQUEST)
    origin, log_client = F.col("origin"), F.when(F.col("origin") == LOG, F.col("client_id"))
    seen = rows.withColumns(
        {
            "has_event": F.max(origin == EVENT).over(same_request),
            "first_client": F.min(log_client).over(same_request),
            "last_client": F.max(log_client).over(same_request),
        }
    )
    named = F.when((origin == EVENT) & (F.col("first_client") == F.col("last_client")), F.col("first_client"))
    return seen.where(~(F.col("has_event") & (origin == LOG))).withColumn("client_id", F.coalesce("client_id", named))


def _aggregated(rows: DataFrame) -> DataFrame:
    newest = F.max_by("corrected_offset", F.struct("moved_at", "position", "corrected_offset"))
    return rows.groupBy(*_FACT).agg(
        newest.alias("corrected_offset"),
        F.count("*").alias("move_count"),
        F.min("moved_at").alias("first_moved_at"),
        F.max("moved_at").alias("last_moved_at"),
    )


def _without_traces(facts: DataFrame) -> DataFrame:
    """Compare the facts of one group, topic and broker with each other, as arrays: they are few."""
    names = [name for name in (*_FACT, *_FIGURES) if name not in _PLACE]
    places = facts.groupBy(*_PLACE).agg(F.collect_list(F.struct(*names)).alias("facts"))
    told = F.filter("facts", lambda one: one["origin"] != SNAPSHOT)
    traces = F.filter("facts", lambda one: one["origin"] == SNAPSHOT)
    kept = F.filter("facts", lambda one: (one["origin"] != SNAPSHOT) | ~F.exists(told, lambda of: _is_trace(one, of)))
    exploded = places.select(*_PLACE, traces.alias("traces"), F.explode(kept).alias("fact"))
    others = [f"fact.{name}" for name in names if name != "queue_id"]
    return exploded.select(*_PLACE, *others, _queue().alias("queue_id"))


def _is_trace(snapshot: Column, told: Column) -> Column:
    same_queue = told["queue_id"].isNull() | (told["queue_id"] == snapshot["queue_id"])
    low, high = _span(snapshot)
    told_low, told_high = _span(told)
    return (
        same_queue & (_forwards(snapshot) == _forwards(told)) & (F.greatest(low, told_low) < F.least(high, told_high))
    )


def _queue() -> Column:
    """Return the queue of `fact`: its own, or the one that its `traces` agree on."""
    fact = F.col("fact")
    own = F.filter("traces", lambda trace: _is_trace(trace, fact))
    exact = F.filter(own, lambda trace: trace["corrected_offset"] == fact["corrected_offset"])
    chosen = F.when(F.size(exact) > 0, exact).otherwise(own)
    queues = F.array_distinct(F.transform(chosen, lambda trace: trace["queue_id"]))
    return F.coalesce(fact["queue_id"], F.when(F.size(queues) == 1, F.element_at(queues, 1)))


def _forwards(fact: Column) -> Column:
    return fact["corrected_offset"] > fact["requested_offset"]


def _span(fact: Column) -> tuple[Column, Column]:
    ends = (fact["requested_offset"], fact["corrected_offset"])
    return F.least(*ends), F.greatest(*ends)
