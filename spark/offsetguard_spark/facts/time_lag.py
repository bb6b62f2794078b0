"""Lag in time as Spark columns: the formulas of `offsetguard.time_lag`.

The formula is written once and mapped over the offsets of a queue, in steps of SQL text: inlined for each offset and
point of the curve, it made plans of half a megabyte, which Spark analyses longer than it computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.known_figures import epoch_ms
from offsetguard.time_lag import Basis
from offsetguard_spark.new_columns import with_new

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame

Curve = list[tuple["Column", "Column"]]
"""(max offset, when it was read), oldest first, neither going back; a point that does not exist is NULL in both."""

_PLACES = "array(greatest(consumer_offset, min_offset), pull_offset, consumer_offset, min_offset)"
_READABLE, _PULL, _CONSUMER, _LOW = range(4)  # greatest() skips NULLs: an unknown min leaves consumer
# Points that are not above the place: it lies between the last of them and the next one. Without any it lies before
# the curve, on the line from the first point to the last.
_BELOW = f"transform({_PLACES}, x -> struct(x AS place, size(filter(points, p -> p.offset <= x)) AS below))"
_LINE = (
    f"transform({_BELOW}, x -> struct(x.place, x.below, get(points, greatest(x.below, 1) - 1) AS p1,"
    " get(points, if(x.below > 0, x.below, size(points) - 1)) AS p2))"
)
_SHARE = (
    f"transform({_LINE}, x -> struct(x.place, x.below, x.p1.at_ms AS from_ms, x.p2.at_ms - x.p1.at_ms AS span_ms,"
    " try_divide(double(x.place - x.p1.offset), double(x.p2.offset - x.p1.offset)) AS share))"
)


def with_lags_in_time(queues: DataFrame, curve: Curve, interval_end: datetime) -> DataFrame:
    """Add the columns of `offsetguard.time_lag.lag_in_time` to rows with offsets and lags, and `points` and `ages`."""
    now_ms = epoch_ms(interval_end)
    waits = F.expr("effective_lag > 0 OR available > 0 OR lost > 0")  # of all other queues, no curve is looked at
    points = F.array_compact(F.array(*[_point(high, at) for high, at in curve]))
    aged = with_new(with_new(queues, {"points": F.when(waits, points)}), {"ages": F.expr(_ages(now_ms))})
    lags = with_new(aged, {name: F.expr(text) for name, text in _columns(now_ms).items()})
    return with_new(lags, {"inflight_ms": F.expr(_span("inflight", "lag_ms", "available_ms"))})


def _ages(now_ms: int | None) -> str:
    """Return the ages of all places, each (lag_ms, basis); NULL = unknown."""
    age = f"greatest(0L, {now_ms}L - x.from_ms - floor(x.share * double(x.span_ms)))"
    basis = f"if(x.below > 0, '{Basis.INTERPOLATED.value}', '{Basis.EXTRAPOLATED.value}')"
    return (
        f"transform({_SHARE}, x -> CASE WHEN x.place IS NULL OR size(points) = 0 THEN NULL"
        f" WHEN x.below = size(points) THEN struct(0L AS lag_ms, '{Basis.END_REACHED.value}' AS basis)"
        f" WHEN x.below = 0 AND (x.share IS NULL OR x.share < -1) THEN NULL"
        f" ELSE struct({age} AS lag_ms, {basis} AS basis) END)"
    )


def _columns(now_ms: int | None) -> dict[str, str]:
    told = "oldest_unconsumed_at IS NOT NULL"
    age = f"greatest(0L, {now_ms}L - unix_millis(oldest_unconsumed_at))"
    waiting = f"get(ages, {_READABLE})"
    return {
        "lag_ms": f"CASE WHEN effective_lag <= 0 THEN 0L WHEN effective_lag > 0"
        f" THEN if({told}, {age}, {waiting}.lag_ms) END",
        "lag_ms_basis": f"CASE WHEN effective_lag <= 0 THEN '{Basis.END_REACHED.value}' WHEN effective_lag > 0"
        f" THEN if({told}, '{Basis.MEASURED.value}', {waiting}.basis) END",
        "available_ms": f"CASE WHEN available <= 0 THEN 0L WHEN available > 0 THEN get(ages, {_PULL}).lag_ms END",
        "lost_ms": _span("lost", f"get(ages, {_CONSUMER}).lag_ms", f"get(ages, {_LOW}).lag_ms"),
    }


def _span(count: str, older_ms: str, younger_ms: str) -> str:
    """Return the time that a number of messages spans: the difference of two ages, NULL when one is unknown."""
    difference = f"{older_ms} - {younger_ms}"
    at_least_0 = f"if({difference} IS NULL, NULL, greatest(0L, {difference}))"
    return f"CASE WHEN {count} <= 0 THEN 0L WHEN {count} > 0 THEN {at_least_0} END"


def _point(high: Column, at: Column) -> Column:
    return F.when(high.isNotNull(), F.struct(high.alias("offset"), F.unix_millis(at).alias("at_ms")))
