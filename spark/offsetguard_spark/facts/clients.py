"""What clients say of themselves and their queues: the formulas of `offsetguard.client_facts` as columns.

The clients that are asked in a round are few (`collection.running_info_clients`), so nothing here is large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.client_facts import EVERYTHING
from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS
from offsetguard_spark.facts.figures import bounded, exact_sum, milliseconds_between, rate_sum

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

GROUP_COLUMNS = (
    "told_client_count",
    "thread_count",
    "orderly",
    "max_reconsume_times",
    "consume_ok_tps",
    "consume_failed_tps",
    "consume_rt_ms",
    "newest_client_start_at",
    "client_versions",
    "doubled_client_ids",
    "subscriptions_differ",
)
SUBSCRIPTION_COLUMNS = ("filtered", "subscription_expressions")
TOPIC_COLUMNS = (
    "holding_client_count",
    "held_queue_count",
    "locked_queue_count",
    "full_cache_queue_count",
    "cached_message_count",
    "renewal_gap_ms",
)
HOLDER_COLUMNS = (
    "holder_client_id",
    "holder_count",
    "locked",
    "cached_message_count",
    "cached_min_offset",
    "cached_max_offset",
    "cache_is_full",
    "last_lock_at",
    "last_pull_at",
    "last_consume_at",
)
_CLIENT = ["consumer_group", "client_id"]
_TOLD = (
    "running_info_read_at",
    "thread_count",
    "orderly",
    "max_reconsume_times",
    "consume_ok_tps",
    "consume_failed_tps",
    "consume_rt_ms",
    "consumer_start_at",
    "pull_threshold_for_queue",
    "pull_threshold_size_for_queue_mib",
    "own_subscriptions",
    "connection_count",
)


def clients_of(sources: FactSources) -> DataFrame:
    """Return one row per client of a group: the rows of the brokers that see it say the same of it."""
    version = F.concat_ws(" ", "language", F.col("version").cast("string"))
    return (
        sources.written.read(CLIENT_SNAPSHOTS)
        .repartition("consumer_group")
        .groupBy(*_CLIENT)
        .agg(*(F.max(name).alias(name) for name in _TOLD), F.max(version).alias("client_version"))
    )


def group_clients(sources: FactSources) -> DataFrame:
    """Return GROUP_COLUMNS per consumer group, and `own_count`: clients whose own subscriptions are known."""
    told = F.col("running_info_read_at").isNotNull()
    own_count = F.count("own_subscriptions")
    versions = F.array_sort(F.collect_set(F.when(F.col("client_version") != "", F.col("client_version"))))
    doubled = F.array_sort(F.collect_set(F.when(F.col("connection_count") > 1, F.col("client_id"))))
    return (
        clients_of(sources)
        .groupBy("consumer_group")
        .agg(
            F.nullif(F.count_if(told), F.lit(0)).cast("int").alias("told_client_count"),
            bounded(exact_sum(F.col("thread_count"))).cast("int").alias("thread_count"),
            F.max("orderly").alias("orderly"),
            F.max("max_reconsume_times").alias("max_reconsume_times"),
            rate_sum(F.col("consume_ok_tps")).alias("consume_ok_tps"),
            rate_sum(F.col("consume_failed_tps")).alias("consume_failed_tps"),
            F.max("consume_rt_ms").alias("consume_rt_ms"),
            F.max("consumer_start_at").alias("newest_client_start_at"),
            versions.alias("client_versions"),
            F.when(F.count("connection_count") > 0, doubled).alias("doubled_client_ids"),
            F.when(own_count > 1, F.size(F.collect_set("own_subscriptions")) > 1).alias("subscriptions_differ"),
            own_count.alias("own_count"),
        )
    )


def differing_groups(sources: FactSources) -> DataFrame:
    """Return `consumer_group` and `subscriptions_differ`, true, of the groups whose clients subscribe differently."""
    return group_clients(sources).where("subscriptions_differ").select("consumer_group", "subscriptions_differ")


def subscriptions(sources: FactSources) -> DataFrame:
    """Return `filtered` and the clients' own `expressions` per (group, topic)."""
    texts = F.concat(_texts("subscriptions", own=False), _texts("own_subscriptions", own=True))
    one = sources.written.read(CLIENT_SNAPSHOTS).select("consumer_group", F.explode(texts).alias("one"))
    topic = F.substring_index("one.text", " ", 1)
    expression = F.substr("one.text", F.length(topic) + 2)
    split = one.select(
        "consumer_group", topic.alias("topic"), expression.alias("expression"), F.col("one.own").alias("own")
    )
    return split.groupBy("consumer_group", "topic").agg(
        F.max(~F.col("expression").isin(*EVERYTHING)).alias("filtered"),
        F.array_sort(F.collect_set(F.when(F.col("own"), F.col("expression")))).alias("expressions"),
    )


def topic_clients(sources: FactSources) -> DataFrame:
    """Return TOPIC_COLUMNS and `holding_thread_count` per (group, topic), of the clients that told."""
    queue = F.struct("broker_name", "queue_id")
    holders = F.collect_set(F.struct("client_id", "thread_count"))
    threads = F.transform(holders, lambda one: one["thread_count"])
    known = F.filter(threads, lambda one: one.isNotNull())
    last_seen = F.greatest("last_pull_at", "last_consume_at")  # skips NULLs
    gap_ms = F.when(F.col("locked"), milliseconds_between(F.col("last_lock_at"), last_seen))
    return (
        _held(sources)
        .groupBy("consumer_group", "topic")
        .agg(
            F.size(holders).cast("int").alias("holding_client_count"),
            _distinct(queue).alias("held_queue_count"),
            _distinct(F.when(F.col("locked"), queue)).alias("locked_queue_count"),
            _distinct(F.when(F.col("cache_is_full"), queue)).alias("full_cache_queue_count"),
            bounded(exact_sum(F.col("cached_message_count"))).alias("cached_message_count"),
            F.max(gap_ms).alias("renewal_gap_ms"),
            F.when(F.size(known) > 0, F.aggregate(known, F.lit(0), lambda total, one: total + one)).alias(
                "holding_thread_count"
            ),
        )
    )


def queue_holders(sources: FactSources) -> DataFrame:
    """Return HOLDER_COLUMNS per queue of a group; of several clients the one that pulled last."""
    figures = [name for name in HOLDER_COLUMNS if name not in ("holder_client_id", "holder_count")]
    newest = F.struct(F.col("last_pull_at").isNotNull().alias("pulled"), "last_pull_at", "client_id")
    one = F.max_by(F.struct("client_id", *figures), newest)
    return (
        _held(sources)
        .groupBy("consumer_group", "topic", "broker_name", "queue_id")
        .agg(one.alias("one"), F.count("*").cast("int").alias("holder_count"))
        .select(
            *("consumer_group", "topic", "broker_name", "queue_id", "holder_count"),
            F.col("one.client_id").alias("holder_client_id"),
            *(F.col(f"one.{name}").alias(name) for name in figures),
        )
    )


def parallelism() -> Column:
    """Return how many messages can be consumed at once; NULL when not every connected client told."""
    all_told = F.coalesce(F.col("told_client_count"), F.lit(0)) >= F.col("online_client_count")
    threads = F.coalesce(F.col("holding_thread_count"), F.lit(0))
    at_once = F.when(F.col("orderly"), F.least(F.col("queue_count"), threads)).when(~F.col("orderly"), threads)
    return F.when(all_told, at_once).cast("int")


def _held(sources: FactSources) -> DataFrame:
    """Return the queues that clients say they hold, with the client's threads and whether its cache is full."""
    names = ("thread_count", "pull_threshold_for_queue", "pull_threshold_size_for_queue_mib")
    clients = clients_of(sources).select(*_CLIENT, *names)
    kept = sources.written.read(CLIENT_QUEUE_SNAPSHOTS).where(~F.coalesce(F.col("dropped"), F.lit(False)))
    by_count = _reaches(F.col("cached_message_count"), F.col("pull_threshold_for_queue"))
    by_size = _reaches(F.col("cached_message_mib"), F.col("pull_threshold_size_for_queue_mib"))
    # SQL's three-valued OR is `any_of` of two answers
    return kept.join(F.broadcast(clients), _CLIENT, "left").withColumn("cache_is_full", by_count | by_size)


def _reaches(amount: Column, limit: Column) -> Column:
    return F.when(limit <= 0, F.lit(False)).otherwise(amount >= limit)


def _texts(name: str, *, own: bool) -> Column:
    """Return the subscriptions of a column as (text, own) pairs; none where it is NULL."""
    pairs = F.transform(name, lambda text: F.struct(text.alias("text"), F.lit(own).alias("own")))
    return F.coalesce(pairs, F.array().cast("array<struct<text:string,own:boolean>>"))


def _distinct(queue: Column) -> Column:
    return F.size(F.collect_set(queue)).cast("int")
