"""Lag in time: how old is the oldest message that a consumer group has not consumed?

A broker tells the age of the message at the committed offset only when it is asked queue by queue. For all other queues
the answer lies on the producer curve: the max offsets of the last samples, each with the time at which it was read.
A message that was written between two samples is taken to have been written where the straight line between them says.

- On a flat stretch, where nothing was written, the latest time counts: the message came after it.
- Whoever stands at the newest point, or beyond it, has nothing to wait for: 0.
- Before the curve there is one extrapolation, along the line from the first point to the last, and by no more than the
  time that the curve spans; what lies further back is unknown: None, never infinite.

Facts have it of `facts/time_lags.sql`; here it is for verdicts, which ask for other moments than that of the facts.
Times are whole milliseconds since 1970. The arithmetic on offsets and times is that of 64-bit floats in both.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetguard.offsets import QueueOffsets

Point = tuple[int, int]
"""(max offset, when it was read in ms)."""


class Basis(StrEnum):
    """How a lag in time is known, or why it is not; the values that have a lag are those of `lag_ms_basis`."""

    END_REACHED = "end_reached"  # nothing waits
    MEASURED = "measured"  # the broker told the store time
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    OFFSET_UNKNOWN = "offset_unknown"
    CURVE_UNKNOWN = "curve_unknown"  # no sample of the max offset
    BEFORE_CURVE = "before_curve"  # older than the curve and one curve's length before it


@dataclass(frozen=True, slots=True)
class TimeLag:
    """An age and how it is known; None = unknown."""

    lag_ms: int | None
    basis: Basis


def lag_ms(curve: Sequence[Point], offset: int | None, now_ms: int) -> TimeLag:
    """Return the age of the message at `offset`, ms, at least 0.

    `curve`: oldest point first, neither offsets nor times going back; `producer_curve` makes one of any points.
    """
    if offset is None:
        return TimeLag(None, Basis.OFFSET_UNKNOWN)
    if not curve:
        return TimeLag(None, Basis.CURVE_UNKNOWN)
    if offset >= curve[-1][0]:
        return TimeLag(0, Basis.END_REACHED)
    following = bisect_right(curve, offset, key=_offset_of)
    if following:
        return TimeLag(_age(_on_line(curve[following - 1], curve[following], offset), now_ms), Basis.INTERPOLATED)
    first, last = curve[0], curve[-1]
    if first[0] == last[0] or _share(first, last, offset) < -1:
        return TimeLag(None, Basis.BEFORE_CURVE)
    return TimeLag(_age(_on_line(first, last, offset), now_ms), Basis.EXTRAPOLATED)


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


@dataclass(frozen=True, slots=True)
class LagInTime:
    """The lags of `QueueOffsets` in time, ms; None = unknown. `lag_ms` is that of the effective lag."""

    lag_ms: int | None
    lag_ms_basis: Basis | None  # None: lag_ms is unknown
    inflight_ms: int | None
    available_ms: int | None
    lost_ms: int | None


def lag_in_time(
    offsets: QueueOffsets, oldest_unconsumed_at_ms: int | None, curve: Sequence[Point], now_ms: int
) -> LagInTime:
    """Return the lags of a queue in time. What the broker told of the oldest unconsumed message is preferred."""
    waits = _effective(offsets, oldest_unconsumed_at_ms, curve, now_ms)
    available_ms = _age_of_rest(offsets.available, curve, offsets.pull_offset, now_ms)
    return LagInTime(
        lag_ms=waits.lag_ms,
        lag_ms_basis=None if waits.lag_ms is None else waits.basis,
        inflight_ms=_inflight_ms(offsets.inflight, waits.lag_ms, available_ms),
        available_ms=available_ms,
        lost_ms=_lost_ms(offsets, curve, now_ms),
    )


def _effective(offsets: QueueOffsets, oldest_at_ms: int | None, curve: Sequence[Point], now_ms: int) -> TimeLag:
    if offsets.effective_lag is None or offsets.consumer_offset is None:
        return TimeLag(None, Basis.OFFSET_UNKNOWN)
    if offsets.effective_lag <= 0:
        return TimeLag(0, Basis.END_REACHED)
    if oldest_at_ms is not None:
        return TimeLag(_age(oldest_at_ms, now_ms), Basis.MEASURED)
    low = offsets.min_offset
    return lag_ms(curve, offsets.consumer_offset if low is None else max(offsets.consumer_offset, low), now_ms)


def _age_of_rest(count: int | None, curve: Sequence[Point], offset: int | None, now_ms: int) -> int | None:
    if count is None:
        return None
    return 0 if count <= 0 else lag_ms(curve, offset, now_ms).lag_ms


def _inflight_ms(inflight: int | None, waits_ms: int | None, available_ms: int | None) -> int | None:
    if inflight is None:
        return None
    if inflight <= 0:
        return 0
    return None if waits_ms is None or available_ms is None else max(0, waits_ms - available_ms)


def _lost_ms(offsets: QueueOffsets, curve: Sequence[Point], now_ms: int) -> int | None:
    if offsets.lost is None or offsets.lost == 0:
        return offsets.lost
    lost, kept = (lag_ms(curve, one, now_ms).lag_ms for one in (offsets.consumer_offset, offsets.min_offset))
    return None if lost is None or kept is None else max(0, lost - kept)


def _on_line(first: Point, last: Point, offset: int) -> int:
    """Return the time at which a straight line through two points reaches an offset; `last` is the higher one."""
    return first[1] + math.floor(_share(first, last, offset) * float(last[1] - first[1]))


def _share(first: Point, last: Point, offset: int) -> float:
    """Return where an offset lies between two points: 0 = at the first, 1 = at the last, below 0 = before both."""
    return float(offset - first[0]) / float(last[0] - first[0])


def _age(at_ms: int, now_ms: int) -> int:
    return max(0, now_ms - at_ms)


def _offset_of(point: Point) -> int:
    return point[0]
