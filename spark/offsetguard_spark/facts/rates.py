"""Rates that replicas count, per group, topic and broker: the formulas of `offsetguard.rate_facts` as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.rate_facts import LEAST_COMMITTED_TPS, POP, READ, SENT_BACK
from offsetguard.tables import BROKER_SNAPSHOTS, BROKER_STATS
from offsetguard_spark.facts.figures import any_of, rate_sum
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

RATE_COLUMNS = (
    "get_tps",
    "master_get_tps",
    "slave_get_tps",
    "unseen_rate_count",
    "reads_moved_to_slave",
    "slave_read_broker_names",
    "slave_read_since",
    "send_back_tps",
)
_PAIR = ["consumer_group", "topic", "broker_name"]


def with_broker_rates(pairs: DataFrame, sources: FactSources) -> DataFrame:
    """Add to (group, topic, broker) rows what the replicas of that broker said."""
    rated = pairs.join(F.broadcast(_by_broker(sources.written.read(BROKER_STATS))), _PAIR, "left")
    slaves = sources.written.read(BROKER_SNAPSHOTS).groupBy("broker_name")
    counts = slaves.agg(F.count_if(F.col("broker_id") != 0).alias("slave_count"))
    listed, seen = (F.coalesce(F.col(name), F.lit(0)) for name in ("slave_count", "seen_slave_count"))
    with_counts = rated.join(F.broadcast(counts), "broker_name", "left")
    unseen = with_new(with_counts, {"unseen_slave_count": F.greatest(listed - seen, F.lit(0))})
    return with_new(unseen, {"reads_moved": reads_moved()})


def reads_moved() -> Column:
    """Return whether slaves hand out more than the master; NULL = a replica that could tell was not seen."""
    return (
        F.when(F.col("master_tps").isNull(), F.lit(None))
        .when(F.col("slave_tps") > F.col("master_tps"), F.lit(True))
        .when(F.col("unseen_slave_count") > 0, F.lit(None))
        .otherwise(F.lit(False))
        .cast("boolean")
    )


def group_rates() -> list[Column]:
    """Return the aggregates over the brokers of a (group, topic): RATE_COLUMNS."""
    master, slave = rate_sum(F.col("master_tps")), rate_sum(F.col("slave_tps"))
    both = F.coalesce(master, F.lit(0.0)) + F.coalesce(slave, F.lit(0.0))
    seen = master.isNotNull() | slave.isNotNull()
    moved_to = F.collect_list(F.when(F.col("reads_moved"), F.col("broker_name")))
    unseen = F.col("master_tps").isNull().cast("int") + F.col("unseen_slave_count")
    return [
        F.when(seen, both).alias("get_tps"),
        master.alias("master_get_tps"),
        slave.alias("slave_get_tps"),
        F.when(seen, F.sum(unseen)).cast("int").alias("unseen_rate_count"),
        any_of(F.col("reads_moved")).alias("reads_moved_to_slave"),
        F.when(F.size(moved_to) > 0, F.array_sort(moved_to)).alias("slave_read_broker_names"),
        F.min(F.when(F.col("reads_moved"), F.col("slave_since"))).alias("slave_read_since"),
        rate_sum(F.col("send_back_tps")).alias("send_back_tps"),
    ]


def hit_ratio() -> Column:
    """Return the share of messages that match the filter; NULL = not filtered, or not known."""
    classic = F.coalesce(F.col("consumption") != POP, F.lit(True))
    known = F.col("filtered") & classic & (F.col("unseen_rate_count") == 0)
    enough = F.col("consume_tps") >= LEAST_COMMITTED_TPS
    share = F.try_divide(F.col("get_tps"), F.col("consume_tps"))
    return F.when(known & enough & F.col("get_tps").isNotNull(), F.least(F.lit(1.0), share))


def _by_broker(stats: DataFrame) -> DataFrame:
    """Return the rates of reading and sending back, one row per group, topic and broker."""
    tps, read = F.col("tps"), F.col("stats_name") == READ
    master, slave = read & (F.col("broker_id") == 0), read & (F.col("broker_id") != 0)
    return (
        stats.where(F.col("stats_name").isin(READ, SENT_BACK))
        .groupBy(*_PAIR)
        .agg(
            F.max(F.when(master, tps)).alias("master_tps"),
            rate_sum(F.when(slave, tps)).alias("slave_tps"),
            F.count_if(slave).alias("seen_slave_count"),
            F.min(F.when(slave, F.col("counting_since"))).alias("slave_since"),
            rate_sum(F.when(F.col("stats_name") == SENT_BACK, tps)).alias("send_back_tps"),
        )
    )
