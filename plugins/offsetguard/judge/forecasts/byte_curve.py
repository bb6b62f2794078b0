"""How a broker's commit log grew, and how fast it will be written.

The curve is the oldest byte kept with its store time, the marks (`BrokerMark`, about one per hour), and now. Between
two points it is a straight line; whoever wants to be on the safe side leans: early or late by up to a quarter of what
lies between the points, most in their middle. Times are ms since 1970, positions bytes.

A day has its rhythm, and a burst may last or end: the early rate is yesterday's plus what is written now beyond it, the
late one the lower of the last two days' less what is missing now: a burst that one of them had may not come again.
Without a day of history, it is what was seen, with more room.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsetguard.model.verdicts import DAY_MS

EARLY, LATE = -1, 1
_BOW = 0.25  # of the way between two points
_HOUR_MS = 3_600_000
_SLOT_MS = 1_800_000  # rates are those of an hour around each half an hour of the day
_DAYS_BACK = 2


@dataclass(frozen=True, slots=True)
class ByteCurve:
    """Points, neither times nor positions going back; at least one. The last one is now."""

    times: Sequence[int]
    positions: Sequence[int]

    @classmethod
    def of(cls, points: Iterable[tuple[int | None, int | None]]) -> "ByteCurve | None":
        """Return the curve through the known points (ms, position).

        Those before the position moved back (another disk) are left out. None: no point is known.
        """
        times: list[int] = []
        positions: list[int] = []
        for at_ms, position in sorted((at, where) for at, where in points if at is not None and where is not None):
            if positions and position < positions[-1]:
                times.clear()
                positions.clear()
            if times and times[-1] == at_ms:
                positions[-1] = position
            else:
                times.append(at_ms)
                positions.append(position)
        return cls(tuple(times), tuple(positions)) if times else None

    @property
    def now_ms(self) -> int:
        """When the last point was read."""
        return self.times[-1]

    @property
    def end(self) -> int:
        """The position of the last point."""
        return self.positions[-1]

    def position(self, at_ms: float, lean: int = 0) -> float:
        """Return how far the log was written at a moment; before the first point 0, after the last one the end.

        `lean`: EARLY gives a position that was reached by then at the least, LATE one at the most.
        """
        return _between(self.times, self.positions, at_ms, lean, before=0.0)

    def written_at(self, position: float, lean: int = 0) -> float:
        """Return when a position was written; before the first point that point's time, after the last one its.

        `lean`: EARLY the earliest moment that may be, LATE the latest.
        """
        return _between(self.positions, self.times, position, lean, before=self.times[0])

    def rate(self, start_ms: float, end_ms: float) -> float | None:
        """Return bytes per ms written between two moments; None where the curve does not reach."""
        if start_ms < self.times[0] or end_ms > self.now_ms or end_ms <= start_ms:
            return None
        return (self.position(end_ms) - self.position(start_ms)) / (end_ms - start_ms)


def _between(given: Sequence[int], wanted: Sequence[int], value: float, lean: int, before: float) -> float:
    following = bisect_right(given, value)
    if following == len(given):
        return wanted[-1]
    if following == 0:
        return before
    share = (value - given[following - 1]) / (given[following] - given[following - 1])
    leaning = min(1.0, max(0.0, share + lean * 4 * _BOW * share * (1 - share)))
    return wanted[following - 1] + (wanted[following] - wanted[following - 1]) * leaning


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
