"""What a broker will delete when: its cleaner, run ahead of time, once as early and once as late as may be.

The cleaner (DefaultMessageStore.CleanCommitLogService, 4.9.8 and 5.3.3) looks every 10 s and deletes whole commit-log
files, oldest first, at most ten a round, never the newest:

- a file is *expired* when nothing was written to it for `fileReservedTime` hours; expired files go in the hours of
  `deleteWhen` (in the time zone of the broker's host), or at any hour when the disk is fuller than
  `diskMaxUsedSpaceRatio`;
- above `diskSpaceCleanForciblyRatio` (85 %) files go whatever their age, unless `cleanFileForciblyEnable` is false.

So messages go in steps of a file over all topics: one on a quiet broker outlives its time, and a loud topic pushes out
the messages of others. What is not known is taken early for the one run and late for the other: how fast will be
written (as yesterday at that hour, and as now), when the bytes were written, the host's zone, the disk's size. Where a
broker does not tell how full its disk is, nobody can say when files go by force (`loss_ahead` names it).
A broker that was seen to delete younger messages than its settings explain may do so again.

At which hours a broker deletes expired files: `deleteWhen`, e.g. "04" or "04;16", in its host's time zone.

A broker does not tell its zone. The configuration may declare it; else a deletion of expired files that was seen tells
the hour; else they may go at any hour (early), or only a whole round of hours later (late).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import tee

from offsetguard.judge.forecasts.byte_curve import EARLY, LATE, ByteCurve, WriteRates
from offsetguard.model.verdicts import DAY_MS, FURTHEST_MS, Basis

_HOUR_MS = 3_600_000
_WHOLE_DAY = ((0, DAY_MS),)
ROUND_MS = 10_000
FILES_PER_ROUND = 10
_RATIO_SLACK = 0.01  # others write to the disk as well
_ROUNDED = 0.01  # brokers tell whole percents, rounded up
_OTHER_FILES = 1.06  # bytes on disk per byte of commit log, at the most: consume queues and indexes
_STEPS = ((3_600_000, 300_000), (6 * 3_600_000, 1_200_000), (FURTHEST_MS, 1_800_000))  # (up to, length), ms from now


@dataclass(frozen=True, slots=True)
class DeleteHours:
    """Spans of the day, (start, length) in ms UTC: those in which files may go, and those in which they surely do."""

    early: tuple[tuple[int, int], ...] = _WHOLE_DAY
    late: tuple[tuple[int, int], ...] = _WHOLE_DAY
    late_delay_ms: int = DAY_MS  # how much longer it may take

    def contain(self, begin_ms: float, end_ms: float, lean: int) -> bool:
        """Whether expired files are deleted between two moments: at some time (EARLY), or from first to last (LATE)."""
        if lean == EARLY:
            return any(_overlap(begin_ms, end_ms - begin_ms, *span) for span in self.early)
        return any((begin_ms - start) % DAY_MS + end_ms - begin_ms <= length for start, length in self.late)


def delete_hours(delete_when: str | None, zone: tzinfo | None, seen_at: datetime | None, now: datetime) -> DeleteHours:
    """Return the hours of a `deleteWhen`. `seen_at`: when expired files were last seen to have gone."""
    hours = _hours(delete_when)
    if not hours:
        return DeleteHours()
    if zone is not None:
        offset = now.astimezone(zone).utcoffset() or timedelta()
        spans = tuple(((hour * _HOUR_MS - offset // timedelta(milliseconds=1)) % DAY_MS, _HOUR_MS) for hour in hours)
        return DeleteHours(spans, spans, 0)
    if seen_at is not None:
        of_day = seen_at.astimezone(UTC) - seen_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        seen = of_day // timedelta(milliseconds=1)
        # seen within the hour or a minute after it, which began up to an hour before: of several hours one of them
        others = {(hour - hours[0]) * _HOUR_MS for hour in hours} | {(hour - hours[-1]) * _HOUR_MS for hour in hours}
        early = tuple(((seen - _HOUR_MS + shift) % DAY_MS, 2 * _HOUR_MS) for shift in sorted(others))
        if len(hours) == 1:
            return DeleteHours(early, ((seen, _HOUR_MS),), 0)
        return DeleteHours(early, late_delay_ms=_longest_gap_ms(hours))
    return DeleteHours(late_delay_ms=_longest_gap_ms(hours))


def _overlap(begin_ms: float, duration_ms: float, start: int, length: int) -> bool:
    return (begin_ms - start) % DAY_MS < length or (start - begin_ms) % DAY_MS < duration_ms


def _hours(delete_when: str | None) -> list[int]:
    words = (word.strip() for word in (delete_when or "").split(";"))
    return sorted({int(word) for word in words if word.isascii() and word.isdecimal() and int(word) < 24})


def _longest_gap_ms(hours: list[int]) -> int:
    following = [*hours[1:], hours[0] + 24]
    return max(later - hour for hour, later in zip(hours, following, strict=True)) * _HOUR_MS


def _steps() -> Iterator[tuple[int, int]]:
    begin = 0
    for until, length in _STEPS:
        while begin < until:
            yield begin, begin + length
            begin += length


_STEPS_AHEAD = tuple(_steps())


@dataclass(frozen=True, slots=True)
class Deletion:
    """So many ms from now, messages stored before a moment (ms since 1970) are gone."""

    after_ms: int
    gone_before_ms: float
    basis: Basis


class BrokerRetention:
    """What a broker deletes, oldest first: as early as may be, and as late.

    A run goes only as far as somebody asks: a loss that is near needs no look at next week.
    """

    def __init__(self, run: Callable[[int], Iterable[Deletion]], oldest_ms: int | None = None) -> None:
        """Take a run of the cleaner (argument: EARLY or LATE), and the store time of the oldest message kept."""
        self._runs = {lean: tee(run(lean), 1)[0] for lean in (EARLY, LATE)}
        self.oldest_ms = oldest_ms

    @property
    def early(self) -> Iterator[Deletion]:
        """The deletions as early as they may come."""
        return copy(self._runs[EARLY])  # of a `tee`: it begins anew, and what was run is not run again

    @property
    def late(self) -> Iterator[Deletion]:
        """The deletions at the latest."""
        return copy(self._runs[LATE])


@dataclass(frozen=True, slots=True)
class Cleaner:
    """A broker's settings and disk. None = not known, but for `forced_ratio`: None = it never deletes by force."""

    reserved_ms: int | None
    hours: DeleteHours
    file_bytes: int
    expired_ratio: float
    forced_ratio: float | None
    disk_ratio: float | None
    disk_bytes: int | None
    observed_age_ms: int | None = None  # at which it deleted messages that its settings do not explain


def run_ahead(cleaner: Cleaner, log: ByteCurve, log_start: int, rates: WriteRates) -> BrokerRetention:
    """Return what the cleaner does to a log whose oldest byte kept is `log_start`."""
    oldest = log.times[0] if log.positions[0] == log_start else None

    def deletions(lean: int) -> Iterator[Deletion]:
        yield from _Run(cleaner, log, log_start, rates, lean).deletions()

    return BrokerRetention(deletions, oldest)


class _Run:
    """One run of the cleaner: `lean` EARLY takes everything unknown so that messages go early, LATE the other way."""

    def __init__(self, cleaner: Cleaner, log: ByteCurve, log_start: int, rates: WriteRates, lean: int) -> None:
        self._cleaner, self._lean, self._start = cleaner, lean, log_start
        self._now_ms, self._end_now, self._rates = log.now_ms, log.end, rates
        self._times, self._positions = list(log.times), list(log.positions)
        self._log = ByteCurve(self._times, self._positions)  # grows with every step
        self._low = log_start  # the oldest byte kept
        self._disk_bytes = _disk_bytes(cleaner, log.end - log_start, lean)
        ratio = (cleaner.disk_ratio or 0.0) - (_ROUNDED if lean == LATE else 0.0)
        self._used = ratio * (self._disk_bytes or 0) if ratio > 0 else 0.0

    def deletions(self) -> Iterator[Deletion]:
        """Yield every deletion that takes messages which were there before."""
        gone_before = 0.0
        end = float(self._end_now)
        for begin_ms, end_ms in _STEPS_AHEAD:
            written = self._rates.at(self._now_ms + begin_ms, self._lean) * (end_ms - begin_ms)
            end += written
            self._times.append(self._now_ms + end_ms)
            self._positions.append(int(end))
            self._used += written * (_OTHER_FILES if self._lean == EARLY else 1.0)
            for basis, gone in (
                (Basis.RESERVED_TIME, self._expire(begin_ms, end_ms, end)),
                (Basis.DISK, self._force(end_ms - begin_ms, end)),
                (Basis.OBSERVED_AGE, self._observed(end_ms)),
            ):
                if gone is not None and gone > gone_before:
                    gone_before = gone
                    yield Deletion(begin_ms if self._lean == EARLY else end_ms, gone, basis)

    def _expire(self, begin_ms: int, end_ms: int, end: float) -> float | None:
        cleaner, lean = self._cleaner, self._lean
        if cleaner.reserved_ms is None:
            return None
        ratio = self._ratio
        at_any_hour = lean == EARLY if ratio is None else ratio > cleaner.expired_ratio + lean * _RATIO_SLACK
        if not (at_any_hour or cleaner.hours.contain(self._now_ms + begin_ms, self._now_ms + end_ms, lean)):
            return None
        delay_ms = cleaner.hours.late_delay_ms if lean == LATE and not at_any_hour else 0
        at_ms = self._now_ms + (end_ms if lean == EARLY else begin_ms)
        expired_at_ms = at_ms - cleaner.reserved_ms - delay_ms
        self._delete_to(self._log.position(expired_at_ms, lean=-lean), end)
        return min(self._gone_before(), expired_at_ms)

    def _force(self, length_ms: int, end: float) -> float | None:
        ratio = self._cleaner.forced_ratio
        if ratio is None:
            return None
        before = self._low
        for _ in range(length_ms // ROUND_MS):
            used = self._ratio
            if used is None or used <= ratio + self._lean * _RATIO_SLACK:
                break
            if not self._delete_to(self._low + FILES_PER_ROUND * self._cleaner.file_bytes, end):
                break
        return self._gone_before() if self._low > before else None

    def _observed(self, after_ms: int) -> float | None:
        age_ms = self._cleaner.observed_age_ms
        return None if age_ms is None or self._lean == LATE else self._now_ms + after_ms - age_ms

    def _delete_to(self, position: float, end: float) -> bool:
        """Delete whole files up to a position, but not the newest; whether there was one."""
        length = self._cleaner.file_bytes
        files = math.floor((min(position, end - 1) - self._low) / length)
        if files <= 0:
            return False
        self._low += files * length
        self._used -= files * length
        return True

    def _gone_before(self) -> float:
        """Return when the oldest byte kept was written: whatever was stored before is gone."""
        return self._log.written_at(self._low, lean=-self._lean) if self._low > self._start else 0.0

    @property
    def _ratio(self) -> float | None:
        return self._used / self._disk_bytes if self._disk_bytes else None


def _disk_bytes(cleaner: Cleaner, kept: int, lean: int) -> float | None:
    """Return the disk's size; where it is not told, the least that holds the log, which fills up earliest.

    None: not known, or not how full it is.
    """
    if cleaner.disk_ratio is None:
        return None
    if cleaner.disk_bytes is not None:
        return float(cleaner.disk_bytes)
    if cleaner.disk_ratio <= 0:
        return math.inf
    full = cleaner.forced_ratio is not None and cleaner.disk_ratio >= cleaner.forced_ratio - _RATIO_SLACK
    return kept / cleaner.disk_ratio if kept > 0 and (lean == EARLY or full) else None
