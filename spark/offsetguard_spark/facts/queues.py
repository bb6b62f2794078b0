"""Every queue of the interval with its figures, and the suspects among them: `queue_facts`.

Queues come from `queue_state`, whose rows have the interval's snapshot and the folded window beside it: one scan, and
no join of as many rows with as many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS, QUEUE_FACTS, QUEUE_SNAPSHOTS
from offsetguard.tables.state import FOLDED_COLUMNS
from offsetguard_spark import queue_state
from offsetguard_spark.facts.clients import HOLDER_COLUMNS, differing_groups, queue_holders
from offsetguard_spark.facts.figures import as_rows_of, unknown
from offsetguard_spark.facts.time_lag import Curve, with_lags_in_time
from offsetguard_spark.invariants import mark
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

    from offsetguard_spark.fact_sources import FactSources

QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
RATES = ("produce_tps", "consume_tps")
NEVER_COMMITTED = "consumer_offset IS NULL AND consumer_offset_read_at IS NOT NULL"
"""The broker's table of committed offsets was seen and has no entry for the queue."""

_ORDER_BROKEN = (
    "min_offset > consumer_offset OR consumer_offset > pull_offset OR consumer_offset > max_offset"
    " OR pull_offset > max_offset OR min_offset > max_offset"
)
_IDLE = "consumer_offset IS NOT NULL AND max_offset = greatest(consumer_offset, min_offset)"
_UNUSED = f"{NEVER_COMMITTED} AND min_offset = max_offset"
SUSPECT_SAMPLE = f"coalesce({_ORDER_BROKEN}, false) OR NOT coalesce(({_IDLE}) OR ({_UNUSED}), false)"
"""A sample that is not provably healthy, never NULL; see `offsetguard.queue_sums.is_suspect`."""


def queue_facts(sources: FactSources) -> DataFrame:
    """Return the suspect queues, and all of groups whose clients subscribe differently, with who holds them."""
    queues, curve = _sampled(sources)
    if sources.row_count(CLIENT_SNAPSHOTS) > 1:
        queues = queues.join(F.broadcast(differing_groups(sources)), "consumer_group", "left")
        chosen = queues.where(is_suspect(sources) | F.coalesce("subscriptions_differ", F.lit(False)))
    else:
        chosen = queues.where(is_suspect(sources))
    figures = with_figures(mark(chosen, QUEUE_SNAPSHOTS), curve, sources.interval.end)
    if sources.row_count(CLIENT_QUEUE_SNAPSHOTS):
        figures = figures.join(F.broadcast(queue_holders(sources)), list(QUEUE), "left")
    else:
        figures = with_new(figures, unknown(QUEUE_FACTS, HOLDER_COLUMNS))
    return as_rows_of(QUEUE_FACTS, sources, figures)


def queues_of(sources: FactSources) -> DataFrame:
    """Return every queue of the interval with lags, rates and `suspect`; the columns that sums are made of."""
    queues, curve = _sampled(sources)
    own = {"suspect": is_suspect(sources), "never_committed": F.expr(NEVER_COMMITTED)}
    return with_figures(with_new(queues, own), curve, sources.interval.end)


def with_figures(queues: DataFrame, curve: Curve, interval_end: datetime) -> DataFrame:
    """Add lags in messages and in time, as seen at the interval's end, and rates.

    `queues`: rows with the columns of `queue_snapshots` and the folded columns of `queue_state`.
    """
    return with_lags_in_time(with_new(queues, lags() | _rates()), curve, interval_end)


def is_suspect(sources: FactSources) -> Column:
    """Return whether the sample or the window is not provably healthy, never NULL.

    See `offsetguard.queue_sums.is_suspect` and `offsetguard.queue_state.is_suspect`.
    """
    sample = F.expr(SUSPECT_SAMPLE)
    return sample if sources.folded_state is None else sample | queue_state.is_suspect(sources.interval.end)


def _sampled(sources: FactSources) -> tuple[DataFrame, Curve]:
    """Return the interval's samples with the folded window beside them, and their producers' curves."""
    if sources.folded_state is None:
        names = [column.name for column in FOLDED_COLUMNS]
        return with_new(sources.written.read(QUEUE_SNAPSHOTS), unknown(QUEUE_FACTS, names)), _own_curve()
    this = (F.col("cluster") == sources.cluster) & (F.col("interval_start") == F.lit(sources.interval.start))
    return sources.state().where(this), queue_state.curve_points()


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
