"""How old is the message at an offset? `facts/time_lags.sql` over producer curves that are in memory, on DuckDB.

Facts have the ages of their own moment. Verdicts ask for those of other moments, and `explain` for those of samples
that somebody gives. A query costs as much for thousands of offsets as for one: who asks for many asks for all at once.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from offsetguard.facts.duckdb_engine import DuckDBEngine

Point = tuple[int, int]
"""(max offset, when it was read in ms since 1970)."""

_LATEST_MS = 253_402_300_799_999  # the end of the year 9999


class TimeLag(NamedTuple):
    """An age and how it is known, or why it is not; None = unknown."""

    lag_ms: int | None
    basis: str
    """end_reached, interpolated, extrapolated; offset_unknown, curve_unknown, before_curve (too old for it),
    rounds_missed (nobody looked for a while, about when it was written)."""


class CurvePlace(NamedTuple):
    """An offset on the producer curve of its queue, whose age is asked for; None = not known."""

    curve: Sequence[Point]  # oldest first, neither offsets nor times going back
    offset: int | None
    now_ms: int
    unbroken_since_ms: int | None = None  # the first look behind rounds that were missed; None = none were


def time_lags(places: Sequence[CurvePlace]) -> list[TimeLag]:
    """Return the age of the message at each place, ms, at least 0."""
    if not places:
        return []
    engine = DuckDBEngine()
    engine.add("queue_curves", _queue_curves(places))
    found = {row["number"]: row["ages"][0] for row in engine.rows("time_lags")}
    return [TimeLag(found[number]["lag_ms"], found[number]["basis"]) for number in range(len(places))]


def _queue_curves(places: Sequence[CurvePlace]) -> pa.Table:
    points = [point for one in places for point in one.curve]
    offsets = pa.array([offset for offset, _ in points], pa.int64())
    moments = pa.array([min(at_ms, _LATEST_MS) for _, at_ms in points], pa.int64())
    ends = accumulate((len(one.curve) for one in places), initial=0)
    return pa.table(
        {
            "number": pa.array(range(len(places)), pa.int64()),
            "places": pa.ListArray.from_arrays(
                pa.array(range(len(places) + 1), pa.int32()), pa.array([one.offset for one in places], pa.int64())
            ),
            "points": pa.ListArray.from_arrays(
                pa.array(ends, pa.int32()), pa.StructArray.from_arrays([offsets, moments], ["max_offset", "at_ms"])
            ),
            "as_of_ms": pa.array([one.now_ms for one in places], pa.int64()),
            "unbroken_since_ms": pa.array([one.unbroken_since_ms for one in places], pa.int64()),
        }
    )


def producer_curve(points: Iterable[tuple[int | None, int | None]]) -> list[Point]:
    """Return the usable points in order of time: those after the max offset last moved back (the queue was recreated).

    Of several points of one moment the highest counts. Points without an offset or a time are left out.
    """
    known = sorted((at_ms, offset) for offset, at_ms in points if offset is not None and at_ms is not None)
    curve: list[Point] = []
    for at_ms, offset in known:
        if curve and curve[-1][1] == at_ms:
            curve.pop()
        if curve and offset < curve[-1][0]:
            curve.clear()
        curve.append((offset, at_ms))
    return curve
