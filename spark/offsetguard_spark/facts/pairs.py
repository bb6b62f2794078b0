"""What traffic makes of `facts/pairs.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard_spark.facts.figures import bounded, exact_sum

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources


def pairs_of(sources: FactSources) -> DataFrame:
    """Return the rows of `facts/pairs.sql`."""
    return sources.relation("pairs")


def committed_sums() -> list[Column]:
    """Return the aggregates over pairs that make `consumer_offset_total` and `counted_at`."""
    total = bounded(exact_sum(F.col("consumer_offset_total")))
    all_known = F.sum("committed_queue_count") == F.sum("queue_count")
    return [F.when(all_known, total).alias("consumer_offset_total"), F.min("counted_at").alias("counted_at")]
