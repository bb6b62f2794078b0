"""Sums per consumer group, topic and broker: what every level above adds up again, in place of the queues themselves.

Made once per publication and kept until its facts are written (`FactSources.once`): 200,000 queues become the few
thousand rows of their groups and brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard_spark.facts.figures import AGES, LAG_SUMS, bounded, exact_sum, rate_sum
from offsetguard_spark.facts.queues import NEVER_COMMITTED, RATES, queues_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

PAIR = ("consumer_group", "topic", "broker_name")
COUNTS = ("queue_count", "unknown_queue_count", "never_committed_queue_count", "suspect_queue_count")
SUMS = (*COUNTS, *LAG_SUMS, *AGES, *RATES)
"""Columns of `sums_again`."""
_COMMITTED = "committed_queue_count"  # queues whose consumer offset is known


def pairs_of(sources: FactSources) -> DataFrame:
    """Return the sums of the interval's queues, exact: whoever writes them bounds them."""
    return sources.once("pairs", lambda: queues_of(sources).groupBy(*PAIR).agg(*_first_sums()))


def sums_again() -> list[Column]:
    """Return the aggregates over pairs that are the columns of a level: SUMS."""
    counts = [F.sum(name).cast("int").alias(name) for name in COUNTS]
    lags = [bounded(exact_sum(F.col(name))).alias(name) for name in LAG_SUMS]
    ages = [F.max(name).alias(name) for name in AGES]
    rates = [rate_sum(F.col(name)).alias(name) for name in RATES]
    return [*counts, *lags, *ages, *rates]


def committed_sums() -> list[Column]:
    """Return the aggregates over pairs that make `consumer_offset_total` and `counted_at`."""
    total = bounded(exact_sum(F.col("consumer_offset_total")))
    all_known = F.sum(_COMMITTED) == F.sum("queue_count")
    return [F.when(all_known, total).alias("consumer_offset_total"), F.min("counted_at").alias("counted_at")]


def _first_sums() -> list[Column]:
    return [
        F.count("*").alias("queue_count"),
        F.count_if(F.col("max_offset").isNull()).alias("unknown_queue_count"),
        F.count_if(F.expr(NEVER_COMMITTED)).alias("never_committed_queue_count"),
        F.count_if("suspect").alias("suspect_queue_count"),
        F.count("consumer_offset").alias(_COMMITTED),
        exact_sum(F.col("consumer_offset")).alias("consumer_offset_total"),
        F.min("consumer_offset_read_at").alias("counted_at"),
        *(exact_sum(F.col(name)).alias(name) for name in LAG_SUMS),
        *(F.max(name).alias(name) for name in AGES),
        *(rate_sum(F.col(name)).alias(name) for name in RATES),
    ]
