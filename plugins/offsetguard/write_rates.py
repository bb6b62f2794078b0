"""How fast a broker's commit log will be written: as yesterday at that hour, and as now.

A day has its rhythm, and a burst may last or end: the early rate is yesterday's plus what is written now beyond it, the
late one the lower of the last two days' less what is missing now: a burst that one of them had may not come again.
Without a day of history, it is what was seen, with more room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.byte_curve import DAY_MS, EARLY, LATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.byte_curve import ByteCurve

_HOUR_MS = 3_600_000
_SLOT_MS = 1_800_000  # rates are those of an hour around each half an hour of the day
_DAYS_BACK = 2
_FASTER, _SLOWER = 1.3, 0.7
_FASTER_UNKNOWN, _SLOWER_UNKNOWN = 1.6, 0.4


class WriteRates:
    """Bytes per ms at coming moments."""

    def __init__(self, log: ByteCurve, recent: Sequence[float]) -> None:
        """Take the log, and the rates seen lately, over a minute and an hour."""
        self._log = log
        mean = log.rate(log.times[0], log.now_ms)
        seen = [*recent, *([] if mean is None else [mean])] or [0.0]
        self._unknown = {EARLY: max(seen) * _FASTER_UNKNOWN, LATE: min(seen) * _SLOWER_UNKNOWN}
        usual_now = self._usual(log.now_ms // _SLOT_MS * _SLOT_MS)[:1]
        excess = [0.0, *(rate - usual for usual in usual_now for rate in recent)]
        self._excess = {EARLY: max(excess), LATE: min(excess)}
        self._of_slot: dict[int, Sequence[float]] = {}

    def at(self, moment_ms: float, lean: int) -> float:
        """Return the rate at a coming moment, the highest (lean EARLY) or lowest that is to be expected."""
        slot = int(moment_ms // _SLOT_MS)
        of_day = slot % (DAY_MS // _SLOT_MS)
        if of_day not in self._of_slot:
            self._of_slot[of_day] = self._usual(slot * _SLOT_MS)
        usual = self._of_slot[of_day]
        if not usual:
            return self._unknown[lean]
        expected = (usual[0] if lean == EARLY else min(usual)) + self._excess[lean]
        return max(0.0, expected) * (_FASTER if lean == EARLY else _SLOWER)

    def _usual(self, moment_ms: int) -> Sequence[float]:
        """Return the rates of the hour around the same time of the newest days that have passed, newest first."""
        newest = max(1, -((self._log.now_ms - _HOUR_MS // 2 - moment_ms) // DAY_MS))
        half = _HOUR_MS // 2
        befores = (moment_ms - days * DAY_MS for days in range(newest, newest + _DAYS_BACK))
        rates = [self._log.rate(before - half, before + half) for before in befores]
        return [rate for rate in rates if rate is not None]
