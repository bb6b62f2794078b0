"""The queue state as of one interval: moved forward when the interval is the newest, only computed when it is not.

Written states only move forward, so that a backfill never touches what newer intervals made. Facts of an older interval
need the state as it was then: folded from the one published before it, or, when housekeeping has taken that away,
rebuilt from the snapshots of one window. Neither is written.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_spark.branches import Branches
from offsetguard_spark.queue_state import fold_snapshot, rebuild
from offsetguard_spark.tables import table_name

_EVER = datetime.max.replace(tzinfo=UTC)


def fold_interval(branches: Branches, row_count: int, previous: PublishedInterval | None) -> DataFrame:
    """Return the `queue_state` rows after this interval; writes them unless a newer interval's stand already.

    `row_count`: rows of `queue_snapshots` in this interval. `previous`: the newest interval published before it.
    """
    interval = branches.interval
    is_newest = not branches.may_hold(QUEUE_STATE, interval.end, _EVER)
    if branches.may_hold(QUEUE_STATE, interval.start, _EVER):  # this interval's own, of an earlier run, or newer ones
        before = _published_state(branches, previous)
    elif row_count:
        before = branches.of_cluster(QUEUE_STATE)
    else:
        return branches.of_cluster(QUEUE_STATE)
    if before is None:
        folded = rebuild(branches.of_cluster(QUEUE_SNAPSHOTS), interval)
    else:
        folded = fold_snapshot(before, branches.read(QUEUE_SNAPSHOTS), interval)
    if not is_newest:
        return folded
    branches.start([QUEUE_STATE])
    branches.write({QUEUE_STATE: (lambda: folded, row_count)})
    return branches.of_cluster(QUEUE_STATE)


def _published_state(branches: Branches, previous: PublishedInterval | None) -> DataFrame | None:
    """Return the rows of the snapshot that was published for the interval before; None when it is there no more."""
    snapshot_id = previous.snapshot_ids.get(QUEUE_STATE.name) if previous is not None else None
    if snapshot_id is None or branches.states[QUEUE_STATE].snapshot_by_id(snapshot_id) is None:
        return None
    if branches.may_hold(QUEUE_STATE, branches.interval.start, _EVER, snapshot_id):
        return None  # housekeeping lets old intervals share newer snapshots: right for all tables but this one
    rows = branches.spark.read.option("versionAsOf", snapshot_id).table(table_name(QUEUE_STATE))
    return rows.where(F.col("cluster") == branches.cluster)
