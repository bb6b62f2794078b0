"""Clocks that would damage the tables: looked at before a run commits anything.

Iceberg keeps the times of a table's commits in its metadata, and refuses a table in which they go back by more than a
minute ("Expected sorted previous metadata log entries", TableMetadata 1.12). Commits carry the clock of whoever makes
them: Spark's server for rows, this process for branches. So a clock that differs by more than a minute from the other
one, or lies so far before the newest commit, stops the run before it writes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.utils import is_remote

from offsetguard.errors import PublishError
from offsetguard.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

    from offsetguard.tables import Table

TOLERATED = timedelta(minutes=1)  # Iceberg's own
_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1"})


def check_clocks(spark: SparkSession, states: Mapping[Table, IcebergTable]) -> None:
    """Raise PublishError, with both times, where a commit of now would not come after what is there."""
    here = server = datetime.now(UTC)
    if is_remote() and _host_of(spark) not in _THIS_HOST:  # else it has the same clock, and need not be asked
        (row,) = spark.sql("SELECT unix_millis(current_timestamp()) AS now_ms").collect()
        server = _moment(row["now_ms"])
    check_moments(here, server, {table.name: _last_commit(state) for table, state in states.items()})


def _host_of(spark: Any) -> str:  # PySpark types a Connect session's client as what a classic one has
    host: str = spark.client.host
    return host


def check_moments(here: datetime, server: datetime, last_commits: Mapping[str, datetime]) -> None:
    """Raise PublishError where the clocks of this host and of Spark's server differ, or one lies before a commit."""
    if abs(here - server) > TOLERATED:
        raise PublishError(
            f"the clock of this host says {format_moment(here)}, the Spark server {format_moment(server)}: both "
            "commit to the same tables, in which times must not go back; nothing was written; set both by NTP"
        )
    now = min(here, server)
    for name, at in sorted(last_commits.items(), key=lambda one: (-one[1].timestamp(), one[0])):
        if at - now > TOLERATED:
            raise PublishError(
                f"table {name} was changed at {format_moment(at)}, and the clock says {format_moment(now)}: one was "
                "ahead then, or is behind now; nothing was written. Set the clock of this host and of the Spark server "
                f"by NTP; if they are right, publishing goes on by itself at {format_moment(at - TOLERATED)}"
            )


def _last_commit(state: IcebergTable) -> datetime:
    log = state.metadata.metadata_log
    return _moment(max([state.metadata.last_updated_ms, *(entry.timestamp_ms for entry in log[-1:])]))


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
