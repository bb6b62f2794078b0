"""How a broker's commit log grew: byte positions and when they were written, from marks of the last days.

The curve is the oldest byte kept with its store time, the marks (`BrokerMark`, about one per hour), and now. Between
two points it is a straight line; whoever wants to be on the safe side leans: early or late by up to a quarter of what
lies between the points, most in their middle. Times are ms since 1970, positions bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY_MS = 86_400_000
EARLY, LATE = -1, 1
_BOW = 0.25  # of the way between two points


@dataclass(frozen=True, slots=True)
class ByteCurve:
    """Points (ms, position), neither going back; at least one. The last one is now."""

    points: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, points: Iterable[tuple[int | None, int | None]]) -> ByteCurve | None:
        """Return the curve through the known points; those before the position moved back (new disk) are left out."""
        kept: list[tuple[int, int]] = []
        for at_ms, position in sorted((at, where) for at, where in points if at is not None and where is not None):
            if kept and position < kept[-1][1]:
                kept.clear()
            if kept and kept[-1][0] == at_ms:
                kept.pop()
            kept.append((at_ms, position))
        return cls(tuple(kept)) if kept else None

    @property
    def now_ms(self) -> int:
        """When the last point was read."""
        return self.points[-1][0]

    @property
    def end(self) -> int:
        """The position of the last point."""
        return self.points[-1][1]

    def position(self, at_ms: float, lean: int = 0) -> float:
        """Return how far the log was written at a moment; before the first point 0, after the last one the end.

        `lean`: EARLY gives a position that was reached by then at the least, LATE one at the most.
        """
        following = bisect_right(self.points, at_ms, key=lambda point: point[0])
        if following == len(self.points):
            return self.end
        if following == 0:
            return 0.0
        (start_ms, low), (end_ms, high) = self.points[following - 1 : following + 1]
        share = (at_ms - start_ms) / (end_ms - start_ms)
        return low + (high - low) * min(1.0, max(0.0, share + lean * _bow(share)))

    def written_at(self, position: float, lean: int = 0) -> float:
        """Return when a position was written, at the latest the last point.

        Before the first point: the first point. `lean`: EARLY the earliest moment that may be, LATE the latest.
        """
        following = bisect_right(self.points, position, key=lambda point: point[1])
        if following == len(self.points):
            return self.now_ms
        if following == 0:
            return self.points[0][0]
        (start_ms, low), (end_ms, high) = self.points[following - 1 : following + 1]
        share = (position - low) / (high - low)
        return start_ms + (end_ms - start_ms) * min(1.0, max(0.0, share + lean * _bow(share)))

    def rate(self, start_ms: float, end_ms: float) -> float | None:
        """Return bytes per ms written between two moments; None where the curve does not reach."""
        if start_ms < self.points[0][0] or end_ms > self.now_ms or end_ms <= start_ms:
            return None
        return (self.position(end_ms) - self.position(start_ms)) / (end_ms - start_ms)


def _bow(share: float) -> float:
    return 4 * _BOW * share * (1 - share)
