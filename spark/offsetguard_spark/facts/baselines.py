"""How usual traffic goes on from week to week: `offsetguard.traffic_baselines` as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import TRAFFIC_BASELINES
from offsetguard.traffic_baselines import REMEMBERED_WEEKS, earlier_rows, hour_of_week

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources


def newest_baselines(hour: datetime, sources: FactSources) -> DataFrame | None:
    """Return by `before_topic` and `before_group` what is known of the hour's earlier weeks; None = nothing is."""
    starts = earlier_rows(hour)
    if not sources.may_hold(TRAFFIC_BASELINES, starts[-1], starts[0]):
        return None
    rows = sources.history(TRAFFIC_BASELINES).where(
        (F.col("cluster") == sources.cluster)
        & F.col("interval_start").isin(*[F.lit(start) for start in starts])
        & (F.col("hour_of_week") == hour_of_week(hour))
    )
    newest = F.max_by(F.struct("mean_tps", "spread_tps", "week_count"), "interval_start")
    subject = (F.col("topic").alias("before_topic"), F.col("consumer_group").alias("before_group"))
    return rows.groupBy(*subject).agg(newest.alias("before"))


def folded() -> dict[str, Column]:
    """Return mean, spread and weeks of `before` (struct, or NULL) with one more week of `hour_tps`."""
    before, tps = F.col("before"), F.col("hour_tps")
    weight = F.greatest(F.lit(1.0) / (before.week_count + 1), F.lit(1.0 / REMEMBERED_WEEKS))
    difference = tps - before.mean_tps
    step = weight * difference
    variance = (F.lit(1.0) - weight) * (before.spread_tps * before.spread_tps + difference * step)
    return {
        "mean_tps": F.when(before.isNull(), tps).otherwise(before.mean_tps + step),
        "spread_tps": F.when(before.isNull(), F.lit(0.0)).otherwise(F.sqrt(variance)),
        "week_count": F.when(before.isNull(), F.lit(1)).otherwise(before.week_count + 1),
    }
