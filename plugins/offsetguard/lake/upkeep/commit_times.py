"""Times of commits: they go forward in each table's metadata, or Spark can no longer read the table.

A commit carries the clock of whoever makes it, and Iceberg keeps it in two logs of the table. Where one is more than a
minute before the one that came earlier, Spark tries for a minute and a half to load the table and then refuses it
("Expected sorted previous metadata log entries", "Invalid update timestamp": TableMetadata of Iceberg 1.12); pyiceberg
does not look, and writes such logs. So nothing is committed while the clock lies before the newest commit.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pyiceberg.table import Table as IcebergTable

from offsetguard.catalogue.text import format_moment
from offsetguard.model.errors import PublishError

TOLERATED = timedelta(minutes=1)  # Iceberg's own
_TOLERATED_MS = TOLERATED // timedelta(milliseconds=1)


def check_times(tables: Iterable[IcebergTable], now: datetime) -> None:
    """Look before anything is committed to tables whether a commit of now may be their next one.

    Raises PublishError for one whose times go back already, and where `now` lies before a table's newest commit.
    """
    tables = list(tables)
    for table in tables:
        if (file := _last_in_order(table)) is not None:
            raise PublishError(
                f"table {table.name()[-1]}: the times in its metadata go back, since a clock was ahead or behind, and"
                f" Spark refuses it; nothing was written. The newest metadata that Spark takes are {file}: bring them"
                " back as docs/publishing.md says (register_table)"
            )
    for table in sorted(tables, key=lambda one: -one.metadata.last_updated_ms):
        at = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC)
        if at - now > TOLERATED:
            raise PublishError(
                f"table {table.name()[-1]} was changed at {format_moment(at)}, and the clock says {format_moment(now)}:"
                " one was ahead then, or is behind now; nothing more was written. Set the clock of this host and of the"
                " Spark server by NTP; if they are right, publishing goes on by itself at"
                f" {format_moment(at - TOLERATED)}"
            )


def load_to_commit(table: IcebergTable) -> None:
    """Load the newest state of a table to commit to it; raises PublishError as `check_times` does."""
    table.refresh()
    check_times([table], datetime.now(UTC))  # which the commit will carry


def _last_in_order(table: IcebergTable) -> str | None:
    """Return the newest metadata file that Spark would take, as far as the log tells; None: the present one."""
    metadata = table.metadata
    snapshots = [entry.timestamp_ms for entry in metadata.snapshot_log]
    times = [entry.timestamp_ms for entry in metadata.metadata_log]
    ends = metadata.last_updated_ms
    backward = [place for place, (one, other) in enumerate(pairwise([*times, ends])) if other - one < -_TOLERATED_MS]
    if backward:
        return metadata.metadata_log[backward[0]].metadata_file
    if any(other - one < -_TOLERATED_MS for one, other in pairwise([*snapshots, ends])):
        return "not in its log any more, but in a backup"
    return None
