"""`group_facts`: one row per consumer group and topic."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.facts import GroupFacts
from offsetguard.tables import (
    BROKER_STATS,
    CLIENT_QUEUE_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    TOPIC_SETTINGS,
)
from offsetguard_spark.facts import clients
from offsetguard_spark.facts.baselines import with_baselines
from offsetguard_spark.facts.figures import as_rows_of, unknown
from offsetguard_spark.facts.pairs import committed_sums, pairs_of, sums_again
from offsetguard_spark.facts.rates import RATE_COLUMNS, group_rates, hit_ratio, with_broker_rates
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

_PAIR = ["consumer_group", "topic"]
_SETTINGS = (
    "violated_invariants",
    *sorted({one.name for one in fields(GroupFacts)} & {c.name for c in GROUP_SNAPSHOTS.columns}),
)
OF_GROUP = tuple(dict.fromkeys(name for name in _SETTINGS if name != "consumer_group"))
"""Columns of `group_snapshots` that stand on each row of the group's topics."""


def group_facts(sources: FactSources) -> DataFrame:
    """Return the groups' rows; what concerns the whole group stands on each of them."""
    groups = _added_up(sources)
    settings = sources.rows(GROUP_SNAPSHOTS).select("consumer_group", *OF_GROUP)
    kinds = sources.written.read(TOPIC_SETTINGS).groupBy("topic").agg(F.max("topic_kind").alias("topic_kind"))
    known = groups.join(F.broadcast(settings), "consumer_group", "left").join(F.broadcast(kinds), "topic", "left")
    told = _with_holdings(_with_clients(known, sources), sources)
    no_violations = F.array().cast("array<string>")
    figures = {
        "violated_invariants": F.coalesce(F.col("violated_invariants"), no_violations),
        "parallelism": clients.parallelism(),
        "hit_ratio": hit_ratio(),
        **_holding_counts(),
    }
    return as_rows_of(GROUP_FACTS, sources, with_baselines(told, sources, of_groups=True), figures)


def _added_up(sources: FactSources) -> DataFrame:
    """Return the sums over a group's brokers, and the rates that their replicas count."""
    sums = [F.count("*").cast("int").alias("broker_count"), *sums_again(), *committed_sums()]
    if not sources.row_count(BROKER_STATS):
        return with_new(pairs_of(sources).groupBy(*_PAIR).agg(*sums), unknown(GROUP_FACTS, RATE_COLUMNS))
    return with_broker_rates(pairs_of(sources), sources).groupBy(*_PAIR).agg(*sums, *group_rates())


def _with_clients(groups: DataFrame, sources: FactSources) -> DataFrame:
    """Add what connected clients say of themselves and of their subscriptions."""
    if not sources.row_count(CLIENT_SNAPSHOTS):
        return with_new(groups, unknown(GROUP_FACTS, (*clients.GROUP_COLUMNS, *clients.SUBSCRIPTION_COLUMNS)))
    joined = groups.join(F.broadcast(clients.group_clients(sources)), "consumer_group", "left")
    joined = joined.join(F.broadcast(clients.subscriptions(sources)), _PAIR, "left")
    nothing = F.array().cast("array<string>")
    expressions = F.when(F.col("own_count") > 0, F.coalesce(F.col("expressions"), nothing))
    return with_new(joined, {"subscription_expressions": expressions})


def _with_holdings(groups: DataFrame, sources: FactSources) -> DataFrame:
    """Add which queues the clients that told hold."""
    if sources.row_count(CLIENT_QUEUE_SNAPSHOTS):
        return groups.join(F.broadcast(clients.topic_clients(sources)), _PAIR, "left")
    nothing = unknown(GROUP_FACTS, clients.TOPIC_COLUMNS) | {"holding_thread_count": F.lit(None).cast("int")}
    return with_new(groups, nothing)


def _holding_counts() -> dict[str, Column]:
    """Return how many of each kind the clients hold, NULL when none told; those that told and hold none are idle."""
    counts = [name for name in clients.TOPIC_COLUMNS if name.endswith("_count") and name != "cached_message_count"]
    told = F.col("told_client_count")
    held = {name: F.coalesce(F.col(name), F.lit(0)) for name in counts}
    idle = F.greatest(told - held["holding_client_count"], F.lit(0))
    return {name: F.when(told.isNotNull(), count) for name, count in (held | {"idle_client_count": idle}).items()}
