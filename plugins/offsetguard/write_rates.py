"""How fast a broker's commit log will be written: as yesterday at that hour, and as now.

A day has its rhythm, and a burst may last or end: the early rate is yesterday's plus what is written now beyond it, the
late one yesterday's less what is missing now. Without a day of history, it is what was seen, with more room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.byte_curve import DAY_MS, EARLY

if TYPE_CHECKING:
    from offsetguard.byte_curve import ByteCurve

_HOUR_MS = 3_600_000
_FASTER, _SLOWER = 1.25, 0.75
_FASTER_UNKNOWN, _SLOWER_UNKNOWN = 1.6, 0.4


@dataclass(frozen=True, slots=True)
class WriteRates:
    """Bytes per ms. `recent`: rates seen lately, over a minute and an hour."""

    log: ByteCurve
    recent: tuple[float, ...]

    def at(self, moment_ms: float, lean: int) -> float:
        """Return the rate at a coming moment, the highest (lean EARLY) or lowest that is to be expected."""
        usual = self._usual(moment_ms)
        if usual is None:
            seen = [*self.recent, *([] if (mean := self._mean) is None else [mean])] or [0.0]
            return max(seen) * _FASTER_UNKNOWN if lean == EARLY else min(seen) * _SLOWER_UNKNOWN
        usual_now = self._usual(self.log.now_ms)
        excess = [rate - usual_now for rate in self.recent] if usual_now is not None else []
        if lean == EARLY:
            return (usual + max(0.0, *excess, 0.0)) * _FASTER
        return max(0.0, usual + min(0.0, *excess, 0.0)) * _SLOWER

    def _usual(self, moment_ms: float) -> float | None:
        """Return the rate of the hour around the same time of the newest day that is known."""
        days_back = max(1, -int((self.log.now_ms - _HOUR_MS / 2 - moment_ms) // DAY_MS))
        before = moment_ms - days_back * DAY_MS
        return self.log.rate(before - _HOUR_MS / 2, before + _HOUR_MS / 2)

    @property
    def _mean(self) -> float | None:
        return self.log.rate(self.log.points[0][0], self.log.now_ms)
