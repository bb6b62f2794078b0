"""`traffic_baselines`: when an hour has passed, its traffic joins the baselines of its hour of the week."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import GROUP_FACTS, TOPIC_FACTS, TRAFFIC_BASELINES, Table
from offsetguard.traffic_baselines import FIRST_MINUTES, HOUR, hour_of_week, hour_that_passed
from offsetguard_spark.facts.baselines import folded, newest_baselines
from offsetguard_spark.facts.figures import as_rows_of, bounded, exact_sum, growth, milliseconds_between, per_second
from offsetguard_spark.facts.pairs import committed_sums, pairs_of
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

_SUBJECT = ["topic", "consumer_group"]
_BASELINE = "struct<mean_tps:double,spread_tps:double,week_count:int>"


def has_traffic_to_fold(sources: FactSources) -> bool:
    """Whether an hour has just passed whose beginning was seen."""
    hour = hour_that_passed(sources.interval.start)
    return hour is not None and sources.may_hold(TOPIC_FACTS, hour, hour + FIRST_MINUTES)


def traffic_baselines(sources: FactSources) -> DataFrame:
    """Return the hour that has passed, folded into what earlier weeks knew of it."""
    hour = sources.interval.start - HOUR
    passed = _traffic(sources, hour).where(F.col("hour_tps").isNotNull())
    before = newest_baselines(hour, sources)
    if before is None:
        joined = with_new(passed, {"before": F.lit(None).cast(_BASELINE)})
    else:
        joined = passed.join(F.broadcast(before), _same_subject("before"), "left")
    constants = {"hour_of_week": F.lit(hour_of_week(hour)), "hour_start_at": F.lit(hour)}
    return as_rows_of(TRAFFIC_BASELINES, sources, joined, constants | folded())


def _traffic(sources: FactSources, hour: datetime) -> DataFrame:
    """Return `hour_tps` by topic and group: the growth of counters since the first minutes of the hour."""
    now = _totals(sources)
    first = _first_of(hour, sources, TOPIC_FACTS, "max_offset_total", _no_group()).unionByName(
        _first_of(hour, sources, GROUP_FACTS, "consumer_offset_total", F.col("consumer_group"))
    )
    grown = growth(F.col("total"), F.col("first.total"))
    since_ms = milliseconds_between(F.col("first.counted_at"), F.col("counted_at"))
    joined = now.join(first, _same_subject("first"))
    return joined.select(*_SUBJECT, per_second(grown, since_ms).alias("hour_tps"))


def _totals(sources: FactSources) -> DataFrame:
    """Return what was written to each topic, and committed by each group in each topic, up to now."""
    all_seen = F.sum("seen_queue_count") == F.sum("queue_count")
    total = F.when(all_seen, bounded(exact_sum(F.col("max_offset_total"))))
    kept = sources.relation("kept").groupBy("topic").agg(total.alias("total"), F.min("counted_at").alias("counted_at"))
    written = kept.select("topic", _no_group().alias("consumer_group"), "total", "counted_at")
    committed = pairs_of(sources).groupBy(*_SUBJECT).agg(*committed_sums())
    return written.unionByName(committed.select(*_SUBJECT, F.col("consumer_offset_total").alias("total"), "counted_at"))


def _first_of(hour: datetime, sources: FactSources, table: Table, total: str, group: Column) -> DataFrame:
    starts = F.col("interval_start")
    rows = sources.history(table).where(
        (F.col("cluster") == sources.cluster) & (starts >= F.lit(hour)) & (starts < F.lit(hour + FIRST_MINUTES))
    )
    first = F.min_by(F.struct(F.col(total).alias("total"), "counted_at"), "interval_start")
    return rows.groupBy(F.col("topic").alias("first_topic"), group.alias("first_group")).agg(first.alias("first"))


def _same_subject(side: str) -> Column:
    """Return the condition of a join; a topic's own traffic has no group: NULL equals NULL."""
    same_group = F.col("consumer_group").eqNullSafe(F.col(f"{side}_group"))
    return (F.col("topic") == F.col(f"{side}_topic")) & same_group


def _no_group() -> Column:
    return F.lit(None).cast("string")
