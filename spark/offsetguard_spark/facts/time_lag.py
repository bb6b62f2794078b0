"""Lag in time as Spark columns: the formulas of `offsetguard.time_lag`, on a curve of a few columns.

A curve is a list of (max offset, when it was read) columns, oldest first, neither going back; a point that does not
exist is NULL in both. That is faster than arrays, which Spark does not compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.time_lag import Basis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

Curve = list[tuple["Column", "Column"]]


def lag_ms(curve: Curve, offset: Column, now_ms: Column) -> Column:
    """Return the age of the message at `offset`, ms; NULL = unknown."""
    reached, before, share = _place(curve, offset)
    first_ms, last_ms = _first(_times(curve)), _last(_times(curve))
    lower_ms = _at_or_below(curve, offset, _times(curve))
    upper_ms = _above(curve, offset, _times(curve))
    lower, upper = (
        _at_or_below(curve, offset, [high for high, _ in curve]),
        _above(curve, offset, [high for high, _ in curve]),
    )
    between_ms = _on_line(lower_ms, upper_ms, _share(lower, upper, offset))
    return (
        F.when(offset.isNull() | F.coalesce(*(high for high, _ in curve)).isNull(), F.lit(None))
        .when(reached, F.lit(0))
        .when(lower.isNotNull(), F.greatest(F.lit(0), now_ms - between_ms))
        .when(before, F.lit(None))
        .otherwise(F.greatest(F.lit(0), now_ms - _on_line(first_ms, last_ms, share)))
        .cast("bigint")
    )


def lag_ms_basis(curve: Curve, offset: Column) -> Column:
    """Return how `lag_ms` is known; NULL where it is not."""
    reached, before, _ = _place(curve, offset)
    lower = _at_or_below(curve, offset, [high for high, _ in curve])
    return (
        F.when(offset.isNull() | F.coalesce(*(high for high, _ in curve)).isNull(), F.lit(None))
        .when(reached, F.lit(Basis.END_REACHED.value))
        .when(lower.isNotNull(), F.lit(Basis.INTERPOLATED.value))
        .when(~before, F.lit(Basis.EXTRAPOLATED.value))
    )


def lags_in_time(curve: Curve, now_ms: Column) -> dict[str, Column]:
    """Return the columns of `offsetguard.time_lag.lag_in_time`, on rows with offsets and lags; in two steps.

    The second step, `lags_from_ages`, needs the columns of this one.
    """
    consumer, low = F.col("consumer_offset"), F.col("min_offset")
    waits = F.col("effective_lag") > 0
    # greatest() skips NULLs, so an unknown min leaves consumer; an unknown consumer has no effective lag
    first_readable = F.greatest(consumer, low)
    told = F.col("oldest_unconsumed_at").isNotNull()
    age = F.greatest(F.lit(0), now_ms - F.unix_millis("oldest_unconsumed_at"))
    return {
        "lag_ms": F.when(F.col("effective_lag") <= 0, F.lit(0))
        .when(waits & told, age)
        .when(waits, lag_ms(curve, first_readable, now_ms))
        .cast("bigint"),
        "lag_ms_basis": F.when(F.col("effective_lag") <= 0, F.lit(Basis.END_REACHED.value))
        .when(waits & told, F.lit(Basis.MEASURED.value))
        .when(waits, lag_ms_basis(curve, first_readable)),
        "available_ms": F.when(F.col("available") <= 0, F.lit(0))
        .when(F.col("available") > 0, lag_ms(curve, F.col("pull_offset"), now_ms))
        .cast("bigint"),
        "lost_ms": F.when(F.col("lost") == 0, F.lit(0))
        .when(F.col("lost") > 0, _span(lag_ms(curve, consumer, now_ms), lag_ms(curve, low, now_ms)))
        .cast("bigint"),
    }


def inflight_ms() -> Column:
    """Return the time over which the messages in flight were written, of the columns that `lags_in_time` adds."""
    return (
        F.when(F.col("inflight") <= 0, F.lit(0))
        .when(F.col("inflight") > 0, _span(F.col("lag_ms"), F.col("available_ms")))
        .cast("bigint")
    )


def _span(older_ms: Column, younger_ms: Column) -> Column:
    """Return the difference of two ages, at least 0; NULL when one is unknown."""
    difference = older_ms - younger_ms
    return F.when(difference.isNotNull(), F.greatest(F.lit(0), difference))


def _place(curve: Curve, offset: Column) -> tuple[Column, Column, Column]:
    """Return whether the offset has reached the end, whether it is too far before the curve, and how far (share)."""
    offsets = [high for high, _ in curve]
    first, last = _first(offsets), _last(offsets)
    share = _share(first, last, offset)
    return offset >= last, (first == last) | (share < -1), share


def _share(first: Column, last: Column, offset: Column) -> Column:
    return F.try_divide((offset - first).cast("double"), (last - first).cast("double"))


def _on_line(first_ms: Column, last_ms: Column, share: Column) -> Column:
    return first_ms + F.floor(share * (last_ms - first_ms).cast("double"))


def _first(values: Sequence[Column]) -> Column:
    return F.coalesce(*values)


def _last(values: Sequence[Column]) -> Column:
    return F.coalesce(*reversed(values))


def _at_or_below(curve: Curve, offset: Column, values: Sequence[Column]) -> Column:
    """Return the value of the last point that is not above the offset."""
    pairs = zip(curve, values, strict=True)
    return F.coalesce(*reversed([F.when(high <= offset, value) for (high, _), value in pairs]))


def _above(curve: Curve, offset: Column, values: Sequence[Column]) -> Column:
    """Return the value of the first point above the offset."""
    return F.coalesce(*[F.when(high > offset, value) for (high, _), value in zip(curve, values, strict=True)])


def _times(curve: Curve) -> list[Column]:
    return [F.unix_millis(at) for _, at in curve]
