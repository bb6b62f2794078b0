"""Usual traffic at an hour of the week, as facts take it: `offsetguard.traffic_baselines` as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import GROUP_FACTS, TOPIC_FACTS, TRAFFIC_BASELINES
from offsetguard.traffic_baselines import earlier_rows, hour_containing, hour_of_week
from offsetguard_spark.facts.figures import unknown
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from offsetguard_spark.fact_sources import FactSources

_COLUMNS = ("baseline_tps", "baseline_spread_tps", "baseline_week_count")


def with_baselines(facts: DataFrame, sources: FactSources, *, of_groups: bool) -> DataFrame:
    """Add what traffic was at this hour of the week: a topic's own, or a group's commits in a topic."""
    table = GROUP_FACTS if of_groups else TOPIC_FACTS
    baselines = newest_baselines(hour_containing(sources.interval.start), sources)
    if baselines is None:
        return with_new(facts, unknown(table, _COLUMNS))
    of_group = F.col("before_group").isNotNull()
    known = baselines.where(of_group if of_groups else ~of_group)
    on = F.col("topic") == F.col("before_topic")
    if of_groups:
        on = on & (F.col("consumer_group") == F.col("before_group"))
    figures = {f"baseline_{name}": F.col(f"before.{name}") for name in ("spread_tps", "week_count")}
    joined = facts.join(F.broadcast(known), on, "left")
    return with_new(joined, figures | {"baseline_tps": F.col("before.mean_tps")})


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
