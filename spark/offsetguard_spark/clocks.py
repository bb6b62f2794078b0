"""The time that this process and Spark's server agree on: both commit to the same tables.

Spark's server commits rows by its clock, this process commits branches by its own, and in a table's metadata times must
not go back (`offsetguard.lake.upkeep.commit_times`). So a difference of more than a minute stops a run before it
writes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from offsetguard.catalogue.text import format_moment
from offsetguard.lake.upkeep.commit_times import TOLERATED
from offsetguard.model.errors import PublishError

_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1"})


def agreed_time(spark: SparkSession) -> datetime:
    """Return the time by whichever clock is behind; raises PublishError, with both, where they differ by too much."""
    here = server = datetime.now(UTC)
    if is_remote() and _host_of(spark) not in _THIS_HOST:  # else it has the same clock, and need not be asked
        (row,) = spark.sql("SELECT unix_millis(current_timestamp()) AS now_ms").collect()
        server = datetime.fromtimestamp(row["now_ms"] / 1000, UTC)
    return agreed(here, server)


def _host_of(spark: Any) -> str:  # PySpark types a Connect session's client as what a classic one has
    host: str = spark.client.host
    return host


def agreed(here: datetime, server: datetime) -> datetime:
    """Return the earlier of two clocks' times; raises PublishError where they differ by more than a minute."""
    if abs(here - server) > TOLERATED:
        raise PublishError(
            f"the clock of this host says {format_moment(here)}, the Spark server {format_moment(server)}: both "
            "commit to the same tables, in which times must not go back; nothing was written; set both by NTP"
        )
    return min(here, server)
