"""Quiet hours that never end or mute nothing, and maintenance that cannot happen or is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, time

from offsetguard.config.file import ConfigFile, Problem
from offsetguard.config.routes import QuietHours, quiet_hours
from offsetguard.model.intervals import moment_in
from offsetguard.model.time_zones import zone_of
from offsetguard.model.verdicts import Severity

_DAY, _WEEK = 24 * 60, 7 * 24 * 60  # minutes


def wrong_windows(file: ConfigFile) -> Iterator[Problem]:
    """Yield the time windows of routes that cannot be meant."""
    for position, entry in enumerate(file.config.routes):
        windows = list(map(quiet_hours, entry.quiet_hours or ()))
        if _covers_the_week(windows):
            what = "cover the whole week: nothing that is less than critical would ever be told"
            yield file.problem(("routes", position, "quiet_hours"), what)
        for number, window in enumerate(windows):
            if window.severity_below is not Severity.CRITICAL:
                what = "mutes nothing: what is less than warning is never told; write critical, or leave it out"
                yield file.problem(("routes", position, "quiet_hours", number, "severity_below"), what)
        for number, (starts, ends) in enumerate(_maintenance(file, position)):
            if ends <= starts:
                where = ("routes", position, "maintenance", number, "to")
                yield file.problem(where, "is not after `from`: this maintenance never happens")


def windows_of_the_past(file: ConfigFile, now: datetime) -> Iterator[Problem]:
    """Yield maintenance that is over."""
    for position, _ in enumerate(file.config.routes):
        for number, (starts, ends) in enumerate(_maintenance(file, position)):
            if starts < ends <= now:
                yield file.problem(("routes", position, "maintenance", number), "is over; the entry can be removed")


def _maintenance(file: ConfigFile, position: int) -> Iterator[tuple[datetime, datetime]]:
    entry = file.config.routes[position]
    zone = zone_of(entry.time_zone or file.config.delivery.time_zone)
    for window in entry.maintenance or ():
        yield moment_in(window.from_, zone), moment_in(window.to, zone)


def _covers_the_week(windows: Iterable[QuietHours]) -> bool:
    quiet = {
        (weekday * _DAY + minute) % _WEEK
        for window in windows
        if window.severity_below is Severity.CRITICAL
        for weekday in window.weekdays
        for minute in range(_minute(window.starts), _minute(window.ends) + _DAY * (window.ends <= window.starts))
    }
    return len(quiet) == _WEEK


def _minute(at: time) -> int:
    return at.hour * 60 + at.minute
