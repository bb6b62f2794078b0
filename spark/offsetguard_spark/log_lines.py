"""Log lines about groups, counted: the Spark side.

What is done, step by step, stands in `offsetguard.log_lines`, which makes the same of a list of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from offsetguard.log_lines import (
    CLIENT_NOT_LATEST,
    FILE_NOT_WRITTEN,
    KINDS,
    MOST_CLIENTS,
    NOT_LATEST_CODE,
    OFFSET_FILE,
    PULL_REFUSED,
    SILENCE,
)
from offsetguard.tables import LOG_LINE_FACTS
from offsetguard_spark.log_window import in_window
from offsetguard_spark.tables import spark_type

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame

    from offsetguard.intervals import Interval

_KEY = ("consumer_group", "topic", "kind", "source", "broker_name", "queue_id")
_LINE = ("at", "position", "client", "fields_json")


def log_line_facts(events: DataFrame, cluster: str, interval: Interval, window: timedelta) -> DataFrame:
    """Return the rows of `log_line_facts`. `events`: the rows of `log_events`, with all their history."""
    spells = _spells(_lines(in_window(events, KINDS, cluster, interval, window)))
    newest = F.struct("spell_first_at", "count")
    facts = spells.groupBy(*_KEY).agg(
        F.lit(cluster).alias("cluster"),
        F.lit(interval.start).alias("interval_start"),
        F.sum("count").alias("line_count"),
        F.min("spell_first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.max(newest).alias("newest"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("clients")))).alias("clients"),
        F.max_by("fields_json", "spell_first_at").alias("newest_fields_json"),
    )
    figures = {
        "spell_line_count": F.col("newest.count"),
        "spell_first_at": F.col("newest.spell_first_at"),
        "client_ids": F.slice("clients", 1, MOST_CLIENTS),
    }
    typed = [F.col(one.name).cast(spark_type(one)).alias(one.name) for one in LOG_LINE_FACTS.columns]
    return facts.withColumns(figures).select(*typed)


def _lines(events: DataFrame) -> DataFrame:
    """Return each line once, with its kind and the group that it belongs to."""
    of_client = F.col("broker_name").isNull()
    own_groups = F.collect_set(F.when(of_client, F.col("consumer_group"))).over(Window.partitionBy("source"))
    only_group = F.when(of_client & (F.size(own_groups) == 1), own_groups[0])
    path = F.when(of_client & (F.col("kind") == FILE_NOT_WRITTEN), _field("path"))
    of_path = [F.nullif(F.regexp_extract(path, OFFSET_FILE, number), F.lit("")) for number in (1, 2)]
    client = F.when(F.col("consumer_group").isNull(), F.coalesce("client_id", of_path[0])).otherwise(F.col("client_id"))
    refused = F.col("kind") == PULL_REFUSED
    not_latest = refused & (_field("response_code") == str(NOT_LATEST_CODE))
    kind = F.when(not_latest, F.lit(CLIENT_NOT_LATEST)).when(~refused, F.col("kind"))
    lines = events.select(
        F.coalesce("consumer_group", of_path[1], only_group).alias("consumer_group"),
        "topic",
        kind.alias("kind"),
        "source",
        F.coalesce("broker_name", _field("broker_name")).alias("broker_name"),
        "queue_id",
        "at",
        "position",
        F.coalesce(client, F.lit("")).alias("client"),
        "fields_json",
    )
    return lines.dropna(subset=["consumer_group", "kind"]).distinct()


def _spells(lines: DataFrame) -> DataFrame:
    """Put lines together that no silence lies between."""
    in_order = Window.partitionBy(*_KEY).orderBy(*_LINE)
    begins = F.coalesce(F.col("at") > F.lag("at").over(in_order) + F.lit(SILENCE), F.lit(False))
    numbered = lines.withColumn("begins", begins.cast("int")).withColumn(
        "number", F.sum("begins").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    named = F.collect_set(F.nullif(F.col("client"), F.lit("")))
    return numbered.groupBy(*_KEY, "number").agg(
        F.count("*").alias("count"),
        F.min("at").alias("spell_first_at"),
        F.max("at").alias("last_at"),
        named.alias("clients"),
        F.max_by("fields_json", F.struct(*_LINE)).alias("fields_json"),
    )


def _field(name: str) -> Column:
    return F.get_json_object("fields_json", f"$.{name}")
