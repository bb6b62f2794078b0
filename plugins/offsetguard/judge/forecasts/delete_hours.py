"""At which hours a broker deletes expired files: `deleteWhen`, e.g. "04" or "04;16", in its host's time zone.

A broker does not tell its zone. The configuration may declare it; else a deletion of expired files that was seen tells
the hour; else they may go at any hour (early), or only a whole round of hours later (late).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from offsetguard.judge.forecasts.byte_curve import EARLY
from offsetguard.model.forecast import DAY_MS

_HOUR_MS = 3_600_000
_WHOLE_DAY = ((0, DAY_MS),)


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
