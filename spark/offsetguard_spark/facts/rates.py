"""What masters count as written to topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.rate_facts import WRITTEN
from offsetguard.tables import BROKER_STATS
from offsetguard_spark.facts.figures import rate_sum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from offsetguard_spark.fact_sources import FactSources


def put_rates(sources: FactSources) -> DataFrame:
    """Return per topic what masters count as written: `put_tps`, and how many masters were asked."""
    written = sources.written.read(BROKER_STATS).where((F.col("stats_name") == WRITTEN) & (F.col("broker_id") == 0))
    return written.groupBy("topic").agg(rate_sum(F.col("tps")).alias("put_tps"), F.count("*").alias("put_broker_count"))
