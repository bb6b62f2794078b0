"""`queue_state`: every queue's window, folded snapshot by snapshot.

`fold_snapshot` is the cycle: one join of what stands with what is new. `rebuild` makes the same rows of a history, for
operators and for backfills, whose facts must not see what came later.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame

from offsetguard.facts.parameters import fold_parameters
from offsetguard.facts.texts import QUEUE_WINDOWS
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_spark.sql_engine import SparkEngine

LOOK_BACK = timedelta(hours=2)  # what `rebuild` reads; of a queue seen each minute, point 5 is up to 73 min old


def fold_snapshot(previous: DataFrame, queues: DataFrame, interval: Interval) -> DataFrame:
    """Return the `queue_state` rows after an interval; nothing is read yet.

    `previous`: `queue_state` rows. `queues`: the interval's sound `queue_snapshots` rows, one per queue. Rows of
    `previous` that are as new as the interval or newer stay as they are.
    """
    engine = SparkEngine(queues.sparkSession)
    engine.add(f"{QUEUE_STATE.name}_before", previous)
    engine.add(QUEUE_SNAPSHOTS.name, queues)
    return engine.run(QUEUE_STATE.name, fold_parameters(interval.start))


def rebuild(history: DataFrame, interval: Interval) -> DataFrame:
    """Return the `queue_state` rows as of an interval, made of snapshots alone; nothing is read yet.

    `history`: `queue_snapshots` rows; those of intervals in [interval - LOOK_BACK, interval] are read. The rows are
    those that folding these intervals one by one would give: what happened before them is not in it, as a rewind that
    was never regained, when an idle queue last advanced, or a queue that has been missing since.
    """
    engine = SparkEngine(history.sparkSession)
    engine.add(f"{QUEUE_SNAPSHOTS.name}_history", history)
    return engine.run(QUEUE_WINDOWS, fold_parameters(interval.start, first_interval_start=interval.start - LOOK_BACK))
