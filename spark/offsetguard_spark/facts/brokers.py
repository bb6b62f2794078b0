"""`broker_facts` and `cluster_facts`: the formulas of `offsetguard.broker_facts` as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from offsetguard.intervals import INTERVAL_LENGTH
from offsetguard.tables import BROKER_FACTS, BROKER_SNAPSHOTS, CLUSTER_FACTS, GROUP_SNAPSHOTS
from offsetguard_spark.facts.figures import (
    AGES,
    LAG_SUMS,
    as_rows_of,
    bounded,
    exact_sum,
    growth,
    milliseconds_between,
    rate_sum,
    unknown,
)
from offsetguard_spark.facts.pairs import SUMS, pairs_of, sums_again
from offsetguard_spark.facts.topics import LAST_SEEN_WITHIN, kept_of, kept_sums, newest_within
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

_REPLICA = ["broker_name", "broker_id"]
_COUNTS = ("consumed_queue_count", "unknown_queue_count", "suspect_queue_count", "topic_queue_count")
_OTHER_SUMS = tuple(name for name in SUMS if name != "queue_count")
_OF_GROUPS = ("online_client_count", "retry_growth", "dead_letter_growth")
_GROWTH = ("commit_log_growth", "commit_log_growth_ms")


def broker_facts(sources: FactSources) -> DataFrame:
    """Return one row per replica; sums over queues stand on the master's."""
    return as_rows_of(BROKER_FACTS, sources, _with_growth(_replicas(sources), sources))


def cluster_facts(sources: FactSources) -> DataFrame:
    """Return the cluster's one row: the brokers' sums, and what its topics and groups have in all."""
    topics = kept_of(sources).select("topic")
    groups = sources.written.read(GROUP_SNAPSHOTS).select("consumer_group", *_OF_GROUPS)
    parts = _replicas(sources).unionByName(topics, allowMissingColumns=True)
    whole = parts.unionByName(groups, allowMissingColumns=True).agg(*_sums_over_brokers(), *_sums_over_groups())
    return as_rows_of(CLUSTER_FACTS, sources, whole)


def _replicas(sources: FactSources) -> DataFrame:
    """Return the listed replicas, and masters that have queues and are not listed; made once per publication."""
    return sources.once("replicas", lambda: _replicas_with_sums(sources))


def _replicas_with_sums(sources: FactSources) -> DataFrame:
    own = {"listed_name": F.col("broker_name"), "get_tps": F.col("get_transferred_tps")}
    listed = with_new(sources.written.read(BROKER_SNAPSHOTS), own)
    joined = listed.join(_queue_sums(sources), _REPLICA, "full")
    is_listed, is_master = F.col("listed_name").isNotNull(), F.col("broker_id") == 0
    slaves = F.count_if(~is_master).over(Window.partitionBy("broker_name")).cast("int")
    return with_new(joined, {"listed": is_listed, "slave_count": F.when(is_master, slaves)})


def _queue_sums(sources: FactSources) -> DataFrame:
    """Return the sums over a master's queues: those that groups consume, and those that topics have."""
    consumed = pairs_of(sources).groupBy("broker_name").agg(*sums_again())
    kept = kept_of(sources).groupBy("broker_name").agg(*kept_sums())
    both = consumed.select("broker_name", F.col("queue_count").alias("consumed_queue_count"), *_OTHER_SUMS).join(
        kept.select("broker_name", F.col("queue_count").alias("topic_queue_count"), "message_count"),
        "broker_name",
        "full",
    )
    return with_new(both, {"broker_id": F.lit(0).cast("bigint")})


def _with_growth(replicas: DataFrame, sources: FactSources) -> DataFrame:
    """Add how much was written to the commit log since the replica's newest facts of an earlier interval."""
    start = sources.interval.start
    if not sources.may_hold(BROKER_FACTS, start - LAST_SEEN_WITHIN, start - INTERVAL_LENGTH):
        return with_new(replicas, unknown(BROKER_FACTS, _GROWTH))
    before = newest_within(sources, sources.history(BROKER_FACTS), LAST_SEEN_WITHIN)
    counter = F.max_by(F.struct("commit_log_max_offset", "read_at"), "interval_start").alias("before")
    joined = replicas.join(F.broadcast(before.groupBy(*_REPLICA).agg(counter)), _REPLICA, "left")
    grown = growth(F.col("commit_log_max_offset"), F.col("before.commit_log_max_offset"))
    since_ms = milliseconds_between(F.col("before.read_at"), F.col("read_at"))
    grown_in = {"commit_log_growth": grown, "commit_log_growth_ms": F.when(grown.isNotNull(), since_ms)}
    return with_new(joined, grown_in)


def _sums_over_brokers() -> list[Column]:
    is_master = F.col("broker_id") == 0
    slave_reads = rate_sum(F.when(~is_master, F.col("get_tps")))
    return [
        F.size(F.collect_set("broker_name")).alias("broker_count"),
        F.count_if("listed").cast("int").alias("replica_count"),
        F.count_if("answered").cast("int").alias("answered_replica_count"),
        *(F.sum(name).cast("int").alias(name) for name in _COUNTS),
        *(bounded(exact_sum(F.col(name))).alias(name) for name in ("message_count", *LAG_SUMS)),
        *(F.max(name).alias(name) for name in AGES),
        rate_sum(F.when(is_master, F.col("put_tps"))).alias("put_tps"),
        rate_sum(F.col("get_tps")).alias("get_tps"),
        slave_reads.alias("slave_get_tps"),
        F.max("commit_log_disk_ratio").alias("max_disk_ratio"),
        F.max(F.when(~is_master, F.col("slave_behind_bytes"))).alias("max_slave_behind_bytes"),
    ]


def _sums_over_groups() -> list[Column]:
    online = (F.col("online_client_count") > 0).cast("int")
    return [
        F.size(F.collect_set("topic")).alias("topic_count"),
        F.count("consumer_group").cast("int").alias("consumer_group_count"),
        F.sum(online).cast("int").alias("online_group_count"),
        bounded(exact_sum(F.col("retry_growth"))).alias("retry_growth"),
        bounded(exact_sum(F.col("dead_letter_growth"))).alias("dead_letter_growth"),
    ]
