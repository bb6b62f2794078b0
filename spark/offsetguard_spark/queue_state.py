"""`queue_state`: every queue's window, folded snapshot by snapshot; moved forward when the interval is the newest.

`fold_snapshot` is the cycle: one join of what stands with what is new. `rebuild` makes the same rows of a history, for
operators and for backfills, whose facts must not see what came later.

Written states only move forward, so that a backfill never touches what newer intervals made. Facts of an older interval
need the state as it was then: folded from the one published before it, or, when housekeeping has taken that away,
rebuilt from the snapshots of one window. Neither is written.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from offsetguard.facts.parameters import fold_parameters
from offsetguard.facts.texts import QUEUE_WINDOWS
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_spark.branches import Branches, TableRows
from offsetguard_spark.facts import query_of
from offsetguard_spark.tables import Query, table_name

LOOK_BACK = timedelta(hours=2)  # what `rebuild` reads; of a queue seen each minute, point 5 is up to 73 min old


def fold_snapshot(previous: DataFrame, queues: DataFrame, interval: Interval) -> Query:
    """Return the query of the `queue_state` rows after an interval.

    `previous`: `queue_state` rows. `queues`: the interval's sound `queue_snapshots` rows, one per queue. Rows of
    `previous` that are as new as the interval or newer stay as they are.
    """
    previous.createOrReplaceTempView(f"{QUEUE_STATE.name}_before")
    queues.createOrReplaceTempView(QUEUE_SNAPSHOTS.name)
    return query_of(QUEUE_STATE.name, fold_parameters(interval.start))


def rebuild(history: DataFrame, interval: Interval) -> Query:
    """Return the query of the `queue_state` rows as of an interval, made of snapshots alone.

    `history`: `queue_snapshots` rows; those of intervals in [interval - LOOK_BACK, interval] are read. The rows are
    those that folding these intervals one by one would give: what happened before them is not in it, as a rewind that
    was never regained, when an idle queue last advanced, or a queue that has been missing since.
    """
    history.createOrReplaceTempView(f"{QUEUE_SNAPSHOTS.name}_history")
    parameters = fold_parameters(interval.start, first_interval_start=interval.start - LOOK_BACK)
    return query_of(QUEUE_WINDOWS, parameters)


_EVER = datetime.max.replace(tzinfo=UTC)


class StateInMain(Enum):
    """What main has of the state of a cluster's queues, beside the intervals that are published."""

    BEFORE_THEM = "that of an earlier interval: the usual case"
    OF_THEM = "that of one of them: an earlier run has written it"
    AFTER_THEM = "that of a newer interval: they leave it alone"


def state_in_main(branches: Branches, cluster: str) -> StateInMain:
    """Return how the intervals stand to what main has."""
    minutes = branches.minutes
    if not branches.may_hold(QUEUE_STATE, minutes.first, _EVER, cluster=cluster):
        return StateInMain.BEFORE_THEM
    is_newer = branches.may_hold(QUEUE_STATE, minutes.intervals[-1].end, _EVER, cluster=cluster)
    return StateInMain.AFTER_THEM if is_newer else StateInMain.OF_THEM


def fold_intervals(
    branches: Branches, row_count: int, previous: Mapping[str, PublishedInterval | None], in_main: StateInMain
) -> DataFrame:
    """Return the `queue_state` rows after each interval, of the queues that it saw.

    Writes those after the last one, of all queues, unless a newer interval's stand already.

    `row_count`: rows of `queue_snapshots` in the intervals. `previous`: of each cluster the newest interval published
    before them. `in_main`: of all of these clusters.
    """
    intervals = branches.minutes.intervals
    if in_main is StateInMain.BEFORE_THEM:
        if not row_count:
            return branches.read(QUEUE_STATE)
        state: DataFrame | None = branches.of_clusters(QUEUE_STATE)
    else:
        state = _published_state(branches, previous)
    states: list[DataFrame] = []
    for interval in intervals:
        if state is None:
            query = rebuild(branches.of_clusters(QUEUE_SNAPSHOTS), interval)
        else:
            query = fold_snapshot(state, branches.read(QUEUE_SNAPSHOTS, interval), interval)
        if interval != intervals[-1]:
            state = query.rows(branches.spark).localCheckpoint(eager=True)
            states.append(state.where(F.col("interval_start") == F.lit(interval.start)))
    if in_main is not StateInMain.AFTER_THEM:
        branches.write([TableRows(QUEUE_STATE, lambda: query, row_count)])
        folded = branches.read(QUEUE_STATE, intervals[-1])
    else:
        folded = query.rows(branches.spark)
        if states:  # the facts' views take the place of those that it is made of
            folded = folded.localCheckpoint(eager=True)
    for one in states:
        folded = folded.unionByName(one)
    return folded


def _published_state(branches: Branches, previous: Mapping[str, PublishedInterval | None]) -> DataFrame | None:
    """Return the rows of the snapshots that were published for the intervals before; None when one is there no more."""
    clusters_of: dict[int, list[str]] = {}
    for cluster, published in previous.items():
        snapshot_id = published.snapshot_ids.get(QUEUE_STATE.name) if published is not None else None
        if snapshot_id is None or branches.states[QUEUE_STATE].snapshot_by_id(snapshot_id) is None:
            return None
        if branches.may_hold(QUEUE_STATE, branches.minutes.first, _EVER, snapshot_id, cluster=cluster):
            return None  # housekeeping lets old intervals share newer snapshots: right for all tables but this one
        clusters_of.setdefault(snapshot_id, []).append(cluster)
    read = branches.spark.read
    parts = [
        read.option("versionAsOf", snapshot_id).table(table_name(QUEUE_STATE)).where(F.col("cluster").isin(*clusters))
        for snapshot_id, clusters in clusters_of.items()
    ]
    return reduce(lambda left, right: left.unionAll(right), parts)
