"""Waits for rebalance locks, made of log lines: the Spark side.

What is done, step by step, stands in `offsetguard.lock_waits`, which makes the same of a list of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from offsetguard.lock_waits import BROKER, CLIENT, KINDS, OF_BROKERS, OF_CLIENTS, OUTCOMES, SILENCE, Said
from offsetguard.tables import LOCK_WAIT_FACTS
from offsetguard_spark.log_window import in_window

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame

    from offsetguard.intervals import Interval

_QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
_LINE = ("at", "position", "said", "holder", "client", "told_by")
_PAIR = (*_QUEUE, "got", "holder", "client")


def lock_wait_facts(events: DataFrame, cluster: str, interval: Interval, window: timedelta) -> DataFrame:
    """Return the rows of `lock_wait_facts`, but for the holders. `events`: the rows of `log_events`, with all history.

    Only rows of this interval and older ones count: the answer is the same when newer ones are there already.
    """
    lines = _lines(in_window(events, KINDS, cluster, interval, window))
    waits = _waits(_refusals(lines))
    end = F.when(F.col("got.at") <= F.col("last_refused_at") + F.lit(SILENCE), F.col("got"))
    ended = waits.withColumn("end", end)
    waited = F.unix_millis(F.coalesce("end.at", "last_refused_at")) - F.unix_millis("first_refused_at")
    figures = {
        "cluster": F.lit(cluster),
        "interval_start": F.lit(interval.start),
        "holder_client_id": _known("holder"),
        "waiter_client_id": _known("client"),
        "ended_at": F.col("end.at"),
        "ended_by": F.when(F.col("end.said") != Said.GRANTED.value, F.col("end.said")),
        "next_holder_client_id": _known("end.client"),
        "waited_ms": waited,
        "holder_online": F.lit(None).cast("boolean"),
        "holder_start_at": F.lit(None).cast("timestamp"),
    }
    return ended.withColumns(figures).select(*[column.name for column in LOCK_WAIT_FACTS.columns])


def with_holders(waits: DataFrame, clients: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the waits with what the clients of this interval tell of their holders.

    `clients`, `groups`: the interval's rows of `client_snapshots` and `group_snapshots`.
    """
    key = ["consumer_group", "holder_client_id"]
    started = clients.groupBy("consumer_group", F.col("client_id").alias("holder_client_id")).agg(
        F.max("consumer_start_at").alias("started_at"), F.lit(True).alias("online")
    )
    seen = groups.where(F.col("online_client_count").isNotNull()).select("consumer_group", F.lit(True).alias("seen"))
    joined = waits.join(F.broadcast(started), key, "left").join(F.broadcast(seen), "consumer_group", "left")
    known = F.col("seen") & F.col("holder_client_id").isNotNull()
    figures = {
        "holder_online": F.when(known, F.coalesce("online", F.lit(False))),
        "holder_start_at": F.when(known, F.col("started_at")),
    }
    return joined.withColumns(figures).select(*[column.name for column in LOCK_WAIT_FACTS.columns])


def _lines(events: DataFrame) -> DataFrame:
    """Return each line once, of queues that are named completely; a client's where no broker tells of a refusal."""
    by_client = F.col("kind").isin(*OF_CLIENTS)
    said = F.coalesce(
        *[F.when(F.col("kind") == kind, F.lit(said.value)) for kind, said in OF_BROKERS.items()],
        *[F.when(by_client & (_field("outcome") == text), F.lit(said.value)) for text, said in OUTCOMES.items()],
    )
    named = events.select(
        "consumer_group",
        "topic",
        _field("broker_name").alias("broker_name"),
        "queue_id",
        "at",
        "position",
        said.alias("said"),
        _of_broker(_field("holder_client_id")).alias("holder"),
        _of_broker(F.col("client_id")).alias("client"),
        F.when(by_client, F.lit(CLIENT)).otherwise(F.lit(BROKER)).alias("told_by"),
    )
    lines = named.dropna(subset=[*_QUEUE, "said"]).distinct()
    told_by_broker = (F.col("said") == Said.REFUSED.value) & (F.col("told_by") == BROKER)
    broker_tells = lines.withColumn("broker_tells", F.max(told_by_broker).over(Window.partitionBy(*_QUEUE)))
    return broker_tells.where(~(F.col("broker_tells") & (F.col("told_by") == CLIENT)))


def _refusals(lines: DataFrame) -> DataFrame:
    """Return the refusals with `got`: the line of the client that got the lock next, NULL when none did.

    And the lines by which a client got an expired lock without a refusal since somebody last got it.
    """
    is_refusal = F.col("said") == Said.REFUSED.value
    of_queue = Window.partitionBy(*_QUEUE).orderBy(*_LINE)
    line = F.struct("at", "position", "said", "client")
    from_here = of_queue.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    next_got = F.first(F.when(~is_refusal, line), ignorenulls=True).over(from_here)
    after_refusal = F.coalesce(F.lag(is_refusal).over(of_queue), F.lit(False))
    at_once = (F.col("said") == Said.EXPIRED.value) & ~after_refusal
    kept = lines.withColumns({"got": next_got, "at_once": at_once})
    return kept.where(is_refusal | F.col("at_once"))


def _waits(refusals: DataFrame) -> DataFrame:
    """Put the refusals of one pair together that nothing and no silence lies between."""
    of_pair = Window.partitionBy(*_PAIR).orderBy(*_LINE)
    begins = F.coalesce(F.col("at") > F.lag("at").over(of_pair) + F.lit(SILENCE), F.lit(False))
    numbered = refusals.withColumn("begins", begins.cast("int")).withColumn(
        "number", F.sum("begins").over(of_pair.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    return numbered.groupBy(*_PAIR, "told_by", "number").agg(
        F.count_if(~F.col("at_once")).alias("refusal_count"),
        F.min("at").alias("first_refused_at"),
        F.max("at").alias("last_refused_at"),
    )


def _field(name: str) -> Column:
    return F.get_json_object("fields_json", f"$.{name}")


def _of_broker(text: Column) -> Column:
    """Only brokers name clients."""
    return F.when(F.col("kind").isin(*OF_BROKERS), F.coalesce(text, F.lit(""))).otherwise(F.lit(""))


def _known(name: str) -> Column:
    return F.nullif(F.col(name), F.lit(""))
