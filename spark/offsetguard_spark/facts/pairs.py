"""What levels above groups make of `facts/pairs.sql`: 200,000 queues are the few thousand rows of their groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard_spark.facts.figures import AGES, LAG_SUMS, bounded, exact_sum, rate_sum

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

COUNTS = ("queue_count", "unknown_queue_count", "never_committed_queue_count", "suspect_queue_count")
RATES = ("produce_tps", "consume_tps")
SUMS = (*COUNTS, *LAG_SUMS, *AGES, *RATES)
"""Columns of `sums_again`."""
_COMMITTED = "committed_queue_count"  # queues whose consumer offset is known


def pairs_of(sources: FactSources) -> DataFrame:
    """Return the rows of `facts/pairs.sql`."""
    return sources.relation("pairs")


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
