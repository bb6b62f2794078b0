"""Subscriptions that changed, and members of a group that subscribe differently: the Spark side.

What is done, step by step, stands in `offsetguard.subscription_changes`, which makes the same of lists of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.subscription_changes import (
    ADDED,
    CHANGED,
    EVERYTHING,
    KINDS,
    MOST_CLIENTS,
    REFRESHED,
    REMOVED,
    RETRY_PREFIX,
    TAG,
)
from offsetguard.tables import SUBSCRIPTION_FACTS
from offsetguard_spark.log_window import in_window
from offsetguard_spark.tables import spark_type

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame

    from offsetguard.intervals import Interval

_KEY = ("consumer_group", "topic")
_COUNTS = {
    "refreshed_count": REFRESHED,
    "changed_count": CHANGED,
    "added_count": ADDED,
    "removed_count": REMOVED,
}
_MEMBER_COLUMNS = ("member_expressions", "broker_expressions", "losing_client_ids", "unsubscribed_client_ids")


def subscription_facts(
    events: DataFrame, clients: DataFrame, cluster: str, interval: Interval, window: timedelta
) -> DataFrame:
    """Return the rows of `subscription_facts`.

    `events`: the rows of `log_events`, with all their history. `clients`: the interval's `client_snapshots`.
    """
    told = _told(_lines(in_window(events, KINDS, cluster, interval, window)))
    joined = told.join(_seen(clients), list(_KEY), "full").where(
        F.col("refreshed_count").isNotNull() | F.col("mismatch")
    )
    counts = (*_COUNTS, "member_count", "unsubscribed_member_count")
    filled = {
        "cluster": F.lit(cluster),
        "interval_start": F.lit(interval.start),
        **{name: F.coalesce(name, F.lit(0)) for name in counts},
        **{name: F.coalesce(name, _no_texts()) for name in ("changed_expressions", *_MEMBER_COLUMNS)},
        "mismatch": F.coalesce("mismatch", F.lit(False)),
    }
    typed = [F.col(one.name).cast(spark_type(one)).alias(one.name) for one in SUBSCRIPTION_FACTS.columns]
    return joined.withColumns(filled).select(*typed)


def expression(sub_string: Column, expression_type: Column | None = None) -> Column:
    """Return a subscription's expression as we compare and show it: see `subscription_changes.expression`."""
    parts = F.transform(F.split(sub_string, r"\|\|"), lambda part: F.trim(part))  # noqa: PLW0108 - the second argument of trim is no index
    tags = F.array_sort(F.array_distinct(F.filter(parts, lambda part: part != "")))
    text = F.coalesce(F.nullif(F.array_join(tags, " || "), F.lit("")), F.lit(EVERYTHING))
    known = F.when(sub_string.isNotNull(), text)
    if expression_type is None:
        return known
    is_tag = F.coalesce(expression_type == TAG, F.lit(True))
    return F.when(is_tag, known).otherwise(F.concat(expression_type, F.lit(": "), known))


def _lines(events: DataFrame) -> DataFrame:
    """Return each line once, with its true kind: a change to the same tags in another order is none."""
    is_change = F.col("kind") == CHANGED
    before, after = (
        F.when(is_change, expression(_field(f"{side}_sub_string"), _field(f"{side}_expression_type")))
        for side in ("old", "new")
    )
    read = (
        events.where(_is_counted())
        .dropna(subset=list(_KEY))
        .select(
            *_KEY, "broker_name", "broker_id", "position", "at", "kind", before.alias("before"), after.alias("after")
        )
    )
    same = F.coalesce(F.col("before") == F.col("after"), F.lit(False))
    sides = {name: F.when(~same, F.col(name)) for name in ("before", "after")}
    kind = F.when(same, F.lit(REFRESHED)).otherwise(F.col("kind"))
    return read.select(
        *_KEY,
        "broker_name",
        "broker_id",
        "position",
        "at",
        kind.alias("kind"),
        *[side.alias(name) for name, side in sides.items()],
    ).distinct()


def _told(lines: DataFrame) -> DataFrame:
    is_change = F.col("kind") == CHANGED
    sort_key = [F.coalesce(name, F.lit("")).alias(f"{name}_key") for name in ("before", "after")]
    change = F.struct("at", "position", *sort_key, "before", "after")
    per_replica = lines.groupBy(*_KEY, "broker_name", "broker_id").agg(
        *[F.count_if(F.col("kind") == kind).alias(name) for name, kind in _COUNTS.items()],
        F.min(F.when(is_change, F.col("at"))).alias("first_changed_at"),
        F.max(F.when(is_change, change)).alias("newest"),
        F.flatten(F.collect_list(F.array("before", "after"))).alias("expressions"),
    )
    named = F.array_compact(F.array_distinct(F.flatten(F.collect_list("expressions"))))
    return (
        per_replica.groupBy(*_KEY)
        .agg(
            *[F.max(name).alias(name) for name in _COUNTS],
            F.min("first_changed_at").alias("first_changed_at"),
            F.max("newest").alias("newest"),
            F.array_sort(named).alias("changed_expressions"),
        )
        .withColumns(
            {
                "last_changed_at": F.col("newest.at"),
                "changed_from": F.col("newest.before"),
                "changed_to": F.col("newest.after"),
            }
        )
        .drop("newest")
    )


def _seen(clients: DataFrame) -> DataFrame:
    """Return what members and brokers say of each topic that a member subscribes to."""
    newest = F.struct("running_info_read_at", "broker_name", "broker_id")
    members = (
        clients.where(F.col("own_subscriptions").isNotNull() & F.col("running_info_read_at").isNotNull())
        .groupBy("consumer_group", "client_id")
        .agg(
            F.max_by("own_subscriptions", newest).alias("own_subscriptions"),
            F.max_by("consumer_start_at", newest).alias("start_at"),
        )
    )
    groups = members.groupBy("consumer_group").agg(
        F.collect_list("client_id").alias("client_ids"), F.max("start_at").alias("newest_member_start_at")
    )
    own = (
        _per_topic(members, "own_subscriptions", "client_id")
        .groupBy(*_KEY, "client_id")
        .agg(F.max("expression").alias("expression"))
        .groupBy(*_KEY)
        .agg(F.collect_list(F.struct("client_id", "expression")).alias("own"))
    )
    held = _per_topic(clients, "subscriptions").groupBy(*_KEY).agg(F.collect_set("expression").alias("held"))
    return _compared(own.join(groups, "consumer_group").join(held, list(_KEY), "left"))


def _compared(topics: DataFrame) -> DataFrame:
    held = F.array_sort(F.coalesce("held", _no_texts()))
    losing = F.filter("own", lambda one: ~F.array_contains("held", one["expression"]))
    losing_ids = F.array_sort(F.transform(losing, lambda one: one["client_id"]))
    unsubscribed = F.array_sort(F.array_except("client_ids", F.col("own.client_id")))
    different = F.array_sort(F.array_distinct(F.col("own.expression")))
    return topics.select(
        *_KEY,
        F.size("client_ids").alias("member_count"),
        different.alias("member_expressions"),
        held.alias("broker_expressions"),
        F.when(F.col("held").isNotNull(), F.size(losing_ids)).alias("losing_member_count"),
        F.slice(F.coalesce(losing_ids, _no_texts()), 1, MOST_CLIENTS).alias("losing_client_ids"),
        F.size(unsubscribed).alias("unsubscribed_member_count"),
        F.slice(unsubscribed, 1, MOST_CLIENTS).alias("unsubscribed_client_ids"),
        "newest_member_start_at",
        ((F.size(different) > 1) | (F.size(unsubscribed) > 0)).alias("mismatch"),
    )


def _per_topic(clients: DataFrame, subscriptions: str, *others: str) -> DataFrame:
    """Return one row per text `topic expression`, retry topics left out."""
    texts = clients.select("consumer_group", *others, F.explode(subscriptions).alias("text"))
    topic = F.substring_index("text", " ", 1)
    sub_string = F.substr("text", F.length(topic) + 2)
    return texts.select(
        "consumer_group", *others, topic.alias("topic"), expression(sub_string).alias("expression")
    ).where(_is_counted())


def _is_counted() -> Column:
    return ~F.col("topic").startswith(RETRY_PREFIX)


def _field(name: str) -> Column:
    return F.get_json_object("fields_json", f"$.{name}")


def _no_texts() -> Column:
    return F.array().cast("array<string>")
