"""The lag formulas of `offsetguard.offsets.QueueOffsets` and `offsetguard.snapshot_facts` as Spark columns.

Each figure is NULL when one of its positions is. A property test holds the two sides equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

LAG_SUMS = ("lag", "effective_lag", "inflight", "available", "lost")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def with_lags(queues: DataFrame, interval_end: datetime) -> DataFrame:
    """Add lag, effective_lag, inflight, available, lost (messages) and lag_ms (as seen at the interval's end)."""
    low, high = F.col("min_offset"), F.col("max_offset")
    consumer, pull = F.col("consumer_offset"), F.col("pull_offset")
    # greatest() skips NULLs, so an unknown min leaves consumer; an unknown consumer must stay unknown.
    first_readable = F.when(consumer.isNotNull(), F.greatest(consumer, low))
    figures = {
        "lag": high - consumer,
        "effective_lag": high - first_readable,
        "inflight": pull - consumer,
        "available": high - pull,
        "lost": F.when(low.isNotNull() & consumer.isNotNull(), F.greatest(low - consumer, F.lit(0))),
    }
    return queues.withColumns(figures).withColumn("lag_ms", _lag_ms(interval_end))


def sums_of_known() -> list[Column]:
    """Return the aggregates over queues: sums of what is known (NULL when nothing is), and the greatest lag_ms.

    A sum beyond int64 (offsets set to 2^63 - 1 do occur) stays at its end instead of failing the interval.
    """
    return [_bounded_sum(name).alias(name) for name in LAG_SUMS] + [F.max("lag_ms").alias("lag_ms")]


def _lag_ms(interval_end: datetime) -> Column:
    age = F.unix_millis(F.lit(interval_end)) - F.unix_millis("oldest_unconsumed_at")
    nothing_waits = F.col("effective_lag") <= 0
    return (
        F.when(F.col("effective_lag").isNull(), F.lit(None))
        .when(nothing_waits, F.lit(0))
        .when(F.col("oldest_unconsumed_at").isNotNull(), F.greatest(age, F.lit(0)))
        .cast("bigint")
    )


def _bounded_sum(name: str) -> Column:
    exact = F.sum(F.col(name).cast("decimal(20,0)"))
    bounded = F.least(F.greatest(exact, F.lit(_INT64_MIN)), F.lit(_INT64_MAX))
    return F.when(exact.isNotNull(), bounded).cast("bigint")
