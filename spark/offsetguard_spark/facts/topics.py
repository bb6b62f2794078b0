"""`topic_facts`: one row per topic; and what brokers keep of each, which brokers and the cluster add up again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.intervals import INTERVAL_LENGTH
from offsetguard.tables import BROKER_STATS, TOPIC_FACTS, TOPIC_QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard_spark.facts.figures import (
    AGES,
    LAG_SUMS,
    as_rows_of,
    bounded,
    exact_sum,
    growth,
    milliseconds_between,
    per_second,
    unknown,
)
from offsetguard_spark.facts.pairs import pairs_of, sums_again
from offsetguard_spark.facts.rates import put_rates
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

LAST_SEEN_WITHIN = timedelta(minutes=10)  # a counter that is older is not compared with
_QUEUE_NUMS = ("read_queue_nums", "write_queue_nums")
_LEVEL = (*LAG_SUMS, *AGES, "suspect_queue_count")


def topic_facts(sources: FactSources) -> DataFrame:
    """Return one row per topic that has a queue or that a group has a row for."""
    written = written_by_topic(sources)  # first: it is made while another table's thread makes the sums of pairs
    consumed = (
        pairs_of(sources)
        .groupBy("topic")
        .agg(F.countDistinct("consumer_group").cast("int").alias("consumer_group_count"), *sums_again())
        .select("topic", "consumer_group_count", *_LEVEL)
    )
    joined = written.join(consumed, "topic", "full")
    joined = joined.join(F.broadcast(_settings_by_topic(sources)), "topic", "left")
    counts = {name: F.coalesce(F.col(name), F.lit(0)) for name in ("queue_count", "consumer_group_count")}
    seen_settings = F.col("broker_count").isNotNull()
    unreadable = F.when(seen_settings, F.col("unreadable_queue_count"))
    rated = _with_put_rates(_with_produce_rate(joined, sources), sources)
    all_told = F.col("put_broker_count") >= F.col("broker_count")
    figures = counts | {"unreadable_queue_count": unreadable, "put_tps": F.when(all_told, F.col("put_tps"))}
    usual = sources.relation("baselines").where("consumer_group IS NULL").drop("cluster", "consumer_group")
    return as_rows_of(TOPIC_FACTS, sources, rated.join(F.broadcast(usual), "topic", "left"), figures)


def kept_of(sources: FactSources) -> DataFrame:
    """Return what each broker keeps of each topic, exact sums; made once per publication."""
    return sources.once("kept", lambda: _kept(sources))


def kept_sums() -> list[Column]:
    """Return the aggregates over rows of `kept_of` that topics, brokers and the cluster have."""
    return [
        F.sum("queue_count").cast("int").alias("queue_count"),
        bounded(exact_sum(F.col("message_count"))).alias("message_count"),
    ]


def newest_within(sources: FactSources, history: DataFrame, span: timedelta) -> DataFrame:
    """Return the rows of earlier intervals that started within a span before this one."""
    since, until = sources.interval.start - span, sources.interval.start - INTERVAL_LENGTH
    starts = F.col("interval_start")
    return history.where((F.col("cluster") == sources.cluster) & starts.between(F.lit(since), F.lit(until)))


def _kept(sources: FactSources) -> DataFrame:
    settings = sources.written.read(TOPIC_SETTINGS).select("topic", "broker_name", *_QUEUE_NUMS)
    rows = sources.written.read(TOPIC_QUEUE_SNAPSHOTS).join(F.broadcast(settings), ["topic", "broker_name"], "left")
    messages = F.col("max_offset") - F.col("min_offset")
    unreadable = F.coalesce(F.col("queue_id") >= F.col("read_queue_nums"), F.lit(False))
    beyond_written = F.coalesce(F.col("queue_id") >= F.col("write_queue_nums"), F.lit(False))
    unwritten = beyond_written & ~unreadable
    return rows.groupBy("topic", "broker_name").agg(
        F.count("*").alias("queue_count"),
        exact_sum(messages).alias("message_count"),
        F.count("max_offset").alias("seen_queue_count"),
        exact_sum(F.col("max_offset")).alias("max_offset_total"),
        F.min("read_at").alias("counted_at"),
        F.max("last_update_at").alias("last_update_at"),
        F.count_if(unreadable).alias("unreadable_queue_count"),
        exact_sum(F.when(unreadable, messages)).alias("unreadable_message_count"),
        exact_sum(F.when(unwritten, messages)).alias("unwritten_message_count"),
        F.count_if(unwritten & F.col("max_offset").isNull()).alias("unseen_unwritten_count"),
        F.max(F.when(unwritten, F.col("max_offset") > 0)).alias("unwritten_queues_used"),
    )


def written_by_topic(sources: FactSources) -> DataFrame:
    """Return what all brokers together keep of each topic."""
    all_seen = F.sum("seen_queue_count") == F.sum("queue_count")
    total = bounded(exact_sum(F.col("max_offset_total")))
    return (
        kept_of(sources)
        .groupBy("topic")
        .agg(
            *kept_sums(),
            F.when(all_seen, total).alias("max_offset_total"),
            F.min("counted_at").alias("counted_at"),
            F.max("last_update_at").alias("last_update_at"),
            F.sum("unreadable_queue_count").cast("int").alias("unreadable_queue_count"),
            bounded(exact_sum(F.col("unreadable_message_count"))).alias("unreadable_message_count"),
            bounded(exact_sum(F.col("unwritten_message_count"))).alias("unwritten_message_count"),
            F.when(F.max("unwritten_queues_used"), F.lit(True))
            .when(F.sum("unseen_unwritten_count") == 0, F.max("unwritten_queues_used"))
            .alias("unwritten_queues_used"),
        )
    )


def _settings_by_topic(sources: FactSources) -> DataFrame:
    """Return what all masters together say of a topic; its kind follows from the name, so all say the same."""
    return (
        sources.written.read(TOPIC_SETTINGS)
        .groupBy("topic")
        .agg(
            F.max("topic_kind").alias("topic_kind"),
            F.count("*").cast("int").alias("broker_count"),
            F.sum("read_queue_nums").cast("int").alias("read_queue_count"),
            F.sum("write_queue_nums").cast("int").alias("write_queue_count"),
            F.max(F.col("read_queue_nums") != F.col("write_queue_nums")).alias("read_write_differ"),
            F.sum(F.greatest(F.col("read_queue_nums") - F.col("write_queue_nums"), F.lit(0)))
            .cast("int")
            .alias("unwritten_queue_count"),
            F.bit_and("perm").alias("perm"),
        )
    )


def _with_put_rates(topics: DataFrame, sources: FactSources) -> DataFrame:
    """Add what masters count as written, and how many told."""
    if not sources.row_count(BROKER_STATS):
        return with_new(topics, unknown(TOPIC_FACTS, ("put_tps",)) | {"put_broker_count": F.lit(0)})
    return topics.join(F.broadcast(put_rates(sources)), "topic", "left")


def _with_produce_rate(topics: DataFrame, sources: FactSources) -> DataFrame:
    """Add how fast the topic grew since its newest earlier facts; nothing is known when its queue count changed."""
    start = sources.interval.start
    if not sources.may_hold(TOPIC_FACTS, start - LAST_SEEN_WITHIN, start - INTERVAL_LENGTH):
        return with_new(topics, unknown(TOPIC_FACTS, ("produce_tps",)))
    counters = F.struct("max_offset_total", "counted_at", "queue_count")
    before = newest_within(sources, sources.history(TOPIC_FACTS), LAST_SEEN_WITHIN)
    newest = before.groupBy("topic").agg(F.max_by(counters, "interval_start").alias("last_counted"))
    same_queues = F.col("last_counted.queue_count") == F.col("queue_count")
    grown = F.when(same_queues, growth(F.col("max_offset_total"), F.col("last_counted.max_offset_total")))
    since_ms = milliseconds_between(F.col("last_counted.counted_at"), F.col("counted_at"))
    return with_new(topics.join(F.broadcast(newest), "topic", "left"), {"produce_tps": per_second(grown, since_ms)})
