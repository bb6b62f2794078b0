"""Offset moves of the look-back window, aggregated, so that one cause is one row however often it repeats."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import OFFSET_MOVE_FACTS, OFFSET_MOVES
from offsetguard_spark.landed import one_row_per_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from offsetguard.intervals import Interval

# Events are landed by the round that reads them; a broker's clock may be ahead of ours by this much.
_CLOCK_SKEW = timedelta(minutes=10)
_SAME_MOVE = ("consumer_group", "client_id", "topic", "broker_name", "queue_id", "requested_offset")


def offset_move_facts(moves: DataFrame, cluster: str, interval: Interval, window: timedelta) -> DataFrame:
    """Return one row per (group, client, queue, requested offset). `moves`: the table's rows, with all its history.

    Only rows of this interval and older ones count: the answer is the same when newer ones are there already.
    """
    since = interval.end - window
    in_window = moves.where(
        (F.col("cluster") == cluster)
        & (F.col("interval_start") >= F.lit(since - _CLOCK_SKEW))
        & (F.col("interval_start") <= F.lit(interval.start))
        & (F.col("moved_at") >= F.lit(since))
    )
    newest = F.max_by("corrected_offset", F.struct("moved_at", "position"))
    return (
        # An event that was read in two rounds is still one event. Its time belongs to its identity here: after the
        # event topic was recreated, offsets start again.
        one_row_per_key(in_window, OFFSET_MOVES, (*OFFSET_MOVES.key, "moved_at"))
        .groupBy(*_SAME_MOVE)
        .agg(
            newest.alias("corrected_offset"),
            F.count("*").alias("move_count"),
            F.min("moved_at").alias("first_moved_at"),
            F.max("moved_at").alias("last_moved_at"),
        )
        .withColumns({"cluster": F.lit(cluster), "interval_start": F.lit(interval.start)})
        .select(*[column.name for column in OFFSET_MOVE_FACTS.columns])
    )
