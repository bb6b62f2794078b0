"""The state of a cluster's queues made again from the published snapshots, when the folded one is doubted."""

from __future__ import annotations

import uuid
from dataclasses import replace

from offsetguard.model.errors import PublishError
from offsetguard.store import published_intervals
from offsetguard.store.locks import only_publisher
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_spark.branches import Branches, drop_left_over
from offsetguard_spark.publish import Publisher
from offsetguard_spark.queue_state import rebuild
from offsetguard_spark.tables import prepare_tables


def rebuild_state(publisher: Publisher, cluster: str) -> int:
    """Replace `queue_state` by what `queue_snapshots` say as of the newest published interval; returns the rows.

    Raises PublishError when nothing was published.
    """
    say = publisher.progress.say
    with only_publisher(publisher.engine, say):
        newest = published_intervals.newest(publisher.engine, cluster)
        if newest is None:
            raise PublishError(f"cluster {cluster}: nothing was published, so there is no state to rebuild")
        spark = publisher.start_spark()
        states = prepare_tables(spark, publisher.workspace, say)
        if drop_left_over(publisher.workspace, states):
            states = prepare_tables(spark, publisher.workspace, say)
        run_id = f"rebuild_{uuid.uuid4().hex[:12]}"
        branches = Branches(spark, publisher.workspace, cluster, newest.interval, run_id, states)
        branches.start([QUEUE_STATE])
        rows = rebuild(branches.of_cluster(QUEUE_SNAPSHOTS), newest.interval)
        branches.write({QUEUE_STATE: (lambda: rows, 0)})
        count = branches.added_row_counts()[QUEUE_STATE]
        snapshot_ids = branches.snapshot_ids()
        branches.forward(snapshot_ids)
        ids = newest.snapshot_ids | {QUEUE_STATE.name: snapshot_ids[QUEUE_STATE.name]}
        published_intervals.record(publisher.engine, replace(newest, snapshot_ids=ids))
    return count
