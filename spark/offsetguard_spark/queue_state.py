"""`queue_state`: every queue's window, folded snapshot by snapshot; and what facts take from a row of it.

`fold_snapshot` is the cycle: one join of what stands with what is new. `rebuild` makes the same rows of a history, for
operators and for backfills, whose facts must not see what came later.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.queue_fold import KEPT_FOR
from offsetguard.queue_state import WINDOW
from offsetguard.tables import QUEUE_STATE
from offsetguard.tables.state import POINT_COUNT
from offsetguard_spark.queue_fold import SAMPLE, STATE, Step
from offsetguard_spark.tables import spark_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from offsetguard.intervals import Interval

LOOK_BACK = timedelta(hours=2)  # what `rebuild` reads; of a queue seen each minute, point 5 is up to 73 min old
_COUNTS = {"sample_count": 0, "unknown_count": 0}  # never NULL
_QUEUE = ("broker_name", "topic", "queue_id", "consumer_group")


def fold_snapshot(
    previous: DataFrame, queues: DataFrame, cluster: str, interval: Interval, window: timedelta = WINDOW
) -> DataFrame:
    """Return the `queue_state` rows of a cluster after an interval; nothing is read yet.

    `previous`: `queue_state` rows. `queues`: the interval's sound `queue_snapshots` rows, one per queue. Rows of
    `previous` that are as new as the interval or newer stay as they are.
    """
    dropped = F.lit(interval.start - KEPT_FOR)
    stands = previous.where((F.col("cluster") == cluster) & (F.col("interval_start") > dropped))
    stands = stands.select(*_QUEUE, *(F.col(name).alias(f"before_{name}") for name in STATE))
    new = queues.where(F.col("cluster") == cluster).select(*_QUEUE, *SAMPLE)
    step = Step("before_{}".format, str, window)
    flags = _named(step.flags(), "is_{}")
    columns = _named(step.folded("is_{}".format))
    joined = stands.join(new, list(_QUEUE), "full")
    return _as_table(joined.selectExpr("*", *flags).selectExpr(*_QUEUE, *columns), cluster)


def rebuild(history: DataFrame, cluster: str, interval: Interval, window: timedelta = WINDOW) -> DataFrame:
    """Return the `queue_state` rows of a cluster as of an interval, made of snapshots alone; nothing is read yet.

    `history`: `queue_snapshots` rows; those of intervals in [interval - LOOK_BACK, interval] are read. The rows are
    those that folding these intervals one by one would give: what happened before them is not in it, as a rewind that
    was never regained, when an idle queue last advanced, or a queue that has been missing since.
    """
    since, until = F.lit(interval.start - LOOK_BACK), F.lit(interval.start)
    read = history.where((F.col("cluster") == cluster) & F.col("interval_start").between(since, until))
    samples = read.groupBy(*_QUEUE).agg(F.array_sort(F.collect_list(F.struct(*SAMPLE))).alias("samples"))
    step = Step("before.{}".format, "sample.{}".format, window)
    types = {column.name: spark_type(column).simpleString() for column in QUEUE_STATE.columns}
    nothing = [f"CAST({_COUNTS.get(name, 'NULL')} AS {types[name]}) AS {name}" for name in STATE]
    columns = [f"CAST({text} AS {types[name]}) AS {name}" for name, text in step.folded("flag.{}".format).items()]
    # The inner transform evaluates the flags once for all columns.
    flags = f"array(struct({', '.join(_named(step.flags()))}))"
    after = f"transform({flags}, flag -> struct({', '.join(columns)}))[0]"
    state = f"aggregate(samples, struct({', '.join(nothing)}), (before, sample) -> {after}) AS state"
    return _as_table(samples.selectExpr(*_QUEUE, state).select(*_QUEUE, "state.*"), cluster)


def is_suspect(now: datetime, window: timedelta = WINDOW) -> Column:
    """Return whether a row's window holds anything that is not healthy, never NULL; see the pure function."""
    since = F.lit(now - window)
    recent = F.lit(False)
    for name in ("lost_at", "disordered_at", "recreated_at", "rewound_at"):
        recent = recent | F.coalesce(F.col(name) >= since, F.lit(False))
    not_regained = F.col("rewound_at").isNotNull() & F.col("regained_at").isNull()
    return recent | not_regained | (F.col("unknown_count") > 0)


def curve_points() -> list[tuple[Column, Column]]:
    """Return the producer curve of a row: (max offset, when it was read), oldest first, neither going back.

    Both are NULL where a row has no such point; what is there is what `offsetguard.queue_state.curve` has.
    """
    newest, at, since = F.col("seen_max_offset"), F.col("seen_at"), F.col("max_unchanged_since")
    points = []
    for number in range(POINT_COUNT, 0, -1):
        offset, read_at = F.col(f"point_{number}_max_offset"), F.col(f"point_{number}_at")
        points.append((F.when(offset < newest, offset), F.when(offset < newest, read_at)))
    return [*points, (F.when(since < at, newest), F.when(since < at, since)), (newest, at)]


def produce_tps() -> Column:
    """Return messages written per second between the two newest seen samples; NULL = there are no two."""
    return _per_second(F.col("seen_max_offset"), F.col("point_1_max_offset"))


def consume_tps() -> Column:
    """Return messages committed per second between the two newest seen samples; NULL = not two, or moved back."""
    committed, earlier = F.col("committed_offset"), F.col("point_1_committed_offset")
    return F.when(committed >= earlier, _per_second(committed, earlier))


def _per_second(newest: Column, earlier: Column) -> Column:
    time_us = F.unix_micros("seen_at") - F.unix_micros("point_1_at")
    return (newest - earlier).cast("double") * F.lit(1_000_000) / time_us.cast("double")


def _named(expressions: Mapping[str, str], as_name: str = "{}") -> list[str]:
    return [f"{text} AS {as_name.format(name)}" for name, text in expressions.items()]


def _as_table(states: DataFrame, cluster: str) -> DataFrame:
    return states.withColumn("cluster", F.lit(cluster)).select(*[column.name for column in QUEUE_STATE.columns])
