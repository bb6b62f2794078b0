"""Facts of one interval: suspect queues, groups per topic, topics.

Each function takes rows as they were written (after quarantine) and gives the rows of one published table; its last
`select` is the table's column list. NULL is unknown and stays NULL: no figure turns it into 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import GROUP_FACTS, QUEUE_FACTS, TOPIC_FACTS, Table
from offsetguard_spark.lag import sums_of_known, with_lags
from offsetguard_spark.tables import spark_type

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

_INTERVAL = ("cluster", "interval_start")


def queue_facts(queues: DataFrame, interval_end: datetime) -> DataFrame:
    """Return the suspect queues. `queues`: `queue_snapshots` rows with `violated_invariants`.

    Suspect is everything that is not provably healthy: see `offsetguard.snapshot_facts.is_suspect`.
    """
    suspects = with_lags(queues, interval_end).where(is_suspect())
    return as_table(suspects, QUEUE_FACTS)


def is_suspect() -> Column:
    """Return the condition, never NULL, on rows with lags and `violated_invariants`."""
    consumer, low, high = F.col("consumer_offset"), F.col("min_offset"), F.col("max_offset")
    order_broken = _any_above(
        (low, consumer), (consumer, F.col("pull_offset")), (consumer, high), (F.col("pull_offset"), high), (low, high)
    )
    marked = F.size("violated_invariants") > 0
    nothing_waits = F.coalesce(F.col("effective_lag") == 0, F.lit(False))
    empty_queue = F.coalesce(low == high, F.lit(False))
    idle = consumer.isNotNull() & nothing_waits
    unused = _never_committed() & empty_queue
    return order_broken | marked | ~(idle | unused)


def group_facts(queues: DataFrame, groups: DataFrame, topic_settings: DataFrame, interval_end: datetime) -> DataFrame:
    """Return one row per (consumer group, topic). `groups`: `group_snapshots` rows with `violated_invariants`."""
    counts = [
        F.count("*").cast("int").alias("queue_count"),
        F.count_if(F.col("max_offset").isNull()).cast("int").alias("unknown_queue_count"),
        F.count_if(_never_committed()).cast("int").alias("never_committed_queue_count"),
    ]
    per_topic = (
        with_lags(queues, interval_end).groupBy(*_INTERVAL, "consumer_group", "topic").agg(*counts, *sums_of_known())
    )
    joined = per_topic.join(F.broadcast(groups), [*_INTERVAL, "consumer_group"], "left").join(
        F.broadcast(_topic_kinds(topic_settings)), [*_INTERVAL, "topic"], "left"
    )
    no_violations = F.array().cast("array<string>")
    known = joined.withColumn("violated_invariants", F.coalesce(F.col("violated_invariants"), no_violations))
    return as_table(known, GROUP_FACTS)


def topic_facts(
    queues: DataFrame, topic_queues: DataFrame, topic_settings: DataFrame, interval_end: datetime
) -> DataFrame:
    """Return one row per topic that has a queue or that a group has a row for."""
    kept = topic_queues.groupBy(*_INTERVAL, "topic").agg(
        F.count("*").cast("int").alias("queue_count"),
        F.sum(F.col("max_offset") - F.col("min_offset")).alias("message_count"),
    )
    consumed = (
        with_lags(queues, interval_end)
        .groupBy(*_INTERVAL, "topic")
        .agg(F.countDistinct("consumer_group").cast("int").alias("consumer_group_count"), *sums_of_known())
    )
    joined = kept.join(consumed, [*_INTERVAL, "topic"], "full").join(
        F.broadcast(_topic_kinds(topic_settings)), [*_INTERVAL, "topic"], "left"
    )
    counts = {name: F.coalesce(F.col(name), F.lit(0)) for name in ("queue_count", "consumer_group_count")}
    return as_table(joined.withColumns(counts), TOPIC_FACTS)


def _topic_kinds(topic_settings: DataFrame) -> DataFrame:
    """One kind per topic: it follows from the name, so all brokers say the same."""
    return topic_settings.groupBy(*_INTERVAL, "topic").agg(F.max("topic_kind").alias("topic_kind"))


def _never_committed() -> Column:
    """Whether the broker's table of committed offsets was seen and has no entry for the queue."""
    return F.col("consumer_offset").isNull() & F.col("consumer_offset_read_at").isNotNull()


def _any_above(*pairs: tuple[Column, Column]) -> Column:
    """Whether low > high in any pair; a pair with an unknown side is not."""
    any_above = F.lit(False)
    for low, high in pairs:
        any_above = any_above | F.coalesce(low > high, F.lit(False))
    return any_above


def as_table(rows: DataFrame, table: Table) -> DataFrame:
    """Return the table's columns in their order; what `rows` does not have is NULL: unknown."""
    return rows.select(
        *(
            F.col(column.name)
            if column.name in rows.columns
            else F.lit(None).cast(spark_type(column)).alias(column.name)
            for column in table.columns
        )
    )
