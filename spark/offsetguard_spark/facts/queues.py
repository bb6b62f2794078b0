"""Every queue of the interval with its figures, and the suspects among them: `queue_facts`.

Queues come from `queue_state`, whose rows have the interval's snapshot and the folded window beside it: one scan, and
no join of as many rows with as many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS, QUEUE_FACTS, QUEUE_SNAPSHOTS
from offsetguard.tables.state import FOLDED_COLUMNS
from offsetguard_spark import queue_state
from offsetguard_spark.facts.clients import HOLDER_COLUMNS, queue_holders
from offsetguard_spark.facts.figures import as_rows_of, unknown
from offsetguard_spark.facts.time_lag import Curve, inflight_ms, lags_in_time
from offsetguard_spark.invariants import mark

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

_QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
RATES = ("produce_tps", "consume_tps")


def queue_facts(sources: FactSources) -> DataFrame:
    """Return the suspect queues, with who holds them."""
    suspects = queues_of(sources).where(F.col("suspect"))
    if sources.row_count(CLIENT_QUEUE_SNAPSHOTS):
        suspects = suspects.join(F.broadcast(queue_holders(sources)), list(_QUEUE), "left")
    else:
        suspects = suspects.withColumns(unknown(QUEUE_FACTS, HOLDER_COLUMNS))
    return as_rows_of(QUEUE_FACTS, sources, suspects)


def queues_of(sources: FactSources) -> DataFrame:
    """Return every queue of the interval with `violated_invariants`, lags, rates and `suspect`."""
    if sources.folded_state is None:
        rows = sources.rows(QUEUE_SNAPSHOTS).withColumns(unknown(QUEUE_FACTS, _folded_names()))
        return with_figures(rows, sources.interval.end, _own_curve())
    state = sources.state().where(
        (F.col("cluster") == sources.cluster) & (F.col("interval_start") == F.lit(sources.interval.start))
    )
    figures = with_figures(mark(state, QUEUE_SNAPSHOTS), sources.interval.end, queue_state.curve_points())
    suspect = F.col("suspect") | queue_state.is_suspect(sources.interval.end)
    return figures.withColumn("suspect", suspect)


def with_figures(queues: DataFrame, interval_end: datetime, curve: Curve) -> DataFrame:
    """Add lags in messages and in time, as seen at the interval's end, rates, and whether the sample is suspect.

    `queues`: rows with the columns of `queue_snapshots`, `violated_invariants` and the folded columns of `queue_state`.
    """
    now_ms = F.unix_millis(F.lit(interval_end))
    return (
        queues.withColumns(lags())
        .withColumns(lags_in_time(curve, now_ms))
        .withColumns({"inflight_ms": inflight_ms(), "suspect": is_suspect(), **_rates()})
    )


def lags() -> dict[str, Column]:
    """Return the formulas of `offsetguard.offsets.QueueOffsets` as columns; NULL when a position is."""
    low, high = F.col("min_offset"), F.col("max_offset")
    consumer, pull = F.col("consumer_offset"), F.col("pull_offset")
    # greatest() skips NULLs, so an unknown min leaves consumer; an unknown consumer must stay unknown.
    first_readable = F.when(consumer.isNotNull(), F.greatest(consumer, low))
    return {
        "lag": high - consumer,
        "effective_lag": high - first_readable,
        "inflight": pull - consumer,
        "available": high - pull,
        "lost": F.when(low.isNotNull() & consumer.isNotNull(), F.greatest(low - consumer, F.lit(0))),
    }


def is_suspect() -> Column:
    """Return whether the sample is not provably healthy, never NULL; see `offsetguard.queue_sums.is_suspect`."""
    consumer, low, high = F.col("consumer_offset"), F.col("min_offset"), F.col("max_offset")
    order_broken = _any_above(
        (low, consumer), (consumer, F.col("pull_offset")), (consumer, high), (F.col("pull_offset"), high), (low, high)
    )
    marked = F.size("violated_invariants") > 0
    nothing_waits = F.coalesce(F.col("effective_lag") == 0, F.lit(False))
    empty_queue = F.coalesce(low == high, F.lit(False))
    idle = consumer.isNotNull() & nothing_waits
    unused = never_committed() & empty_queue
    return order_broken | marked | ~(idle | unused)


def never_committed() -> Column:
    """Whether the broker's table of committed offsets was seen and has no entry for the queue."""
    return F.col("consumer_offset").isNull() & F.col("consumer_offset_read_at").isNotNull()


def _own_curve() -> Curve:
    """Return the producer curve of one sample: a point, if max offset and commits were both seen."""
    high, at = F.col("max_offset"), F.col("max_offset_read_at")
    seen = high.isNotNull() & at.isNotNull() & F.col("consumer_offset_read_at").isNotNull()
    return [(F.when(seen, high), F.when(seen, at))]


def _rates() -> dict[str, Column]:
    """Return the rates between the newest two samples; those of before say nothing when the newest was not seen."""
    seen = F.col("unknown_count") == 0
    return {
        "produce_tps": F.when(seen, queue_state.produce_tps()),
        "consume_tps": F.when(seen, queue_state.consume_tps()),
    }


def _any_above(*pairs: tuple[Column, Column]) -> Column:
    """Whether low > high in any pair; a pair with an unknown side is not."""
    any_above = F.lit(False)
    for low, high in pairs:
        any_above = any_above | F.coalesce(low > high, F.lit(False))
    return any_above


def _folded_names() -> list[str]:
    return [column.name for column in FOLDED_COLUMNS]
