"""The log lines of a look-back window: what facts about locks and subscriptions are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard_spark.moves import oldest_interval

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from offsetguard.intervals import Interval


def in_window(
    events: DataFrame, kinds: Sequence[str], cluster: str, interval: Interval, window: timedelta
) -> DataFrame:
    """Return the `log_events` rows of some kinds whose lines lie in the window before the interval's end.

    Only rows of this interval and older ones count. A row's interval is the one that read the line, or, of whole files,
    the minute of the line: so a bounded range of intervals holds them all, and other files are not opened.
    """
    return events.where(
        (F.col("cluster") == cluster)
        & (F.col("interval_start") >= F.lit(oldest_interval(interval, window)))
        & (F.col("interval_start") <= F.lit(interval.start))
        & F.col("kind").isin(*kinds)
        & (F.col("at") >= F.lit(interval.end - window))
    )
