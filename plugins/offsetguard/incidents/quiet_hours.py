"""Time windows of a route: quiet hours by the clock on its wall, and maintenance between two moments. Pure.

Quiet hours are spans between two instants. Each begins on one of its days at `from` and ends at the next `to` on the
clock of the zone, so a night over midnight belongs to the evening on which it began. Where clocks are put back and a
time comes twice, the first of the two counts for both ends; a time that is left out when they are put forward lies as
much later as the clocks were moved.
Source: Alertmanager's timeinterval/timeinterval.go has neither spans over midnight nor a word on clock changes.
"""

from __future__ import annotations

import fnmatch
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence
from offsetguard.incidents.muting import Mute, MuteReason

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, time, tzinfo

    from offsetguard.config.routes import Maintenance, QuietHours
    from offsetguard.incidents.incident import Incident
    from offsetguard.severity import Severity

_ONE_DAY = timedelta(days=1)


def quiet_until(windows: Iterable[QuietHours], zone: tzinfo, severity: Severity, now: datetime) -> datetime | None:
    """Return until when (UTC) a severity waits; None when it may be told at `now` (aware)."""
    ends = [
        end
        for window in windows
        if severity.rank < window.severity_below.rank
        for end in (_end_of(window, zone, now),)
        if end is not None
    ]
    return max(ends, default=None)


def quiet_mute(incident: Incident, windows: Iterable[QuietHours], zone: tzinfo, now: datetime) -> Mute | None:
    """Return the mute of quiet hours at `now`."""
    until = quiet_until(windows, zone, incident.evidence.severity, now)
    if until is None:
        return None
    return Mute(MuteReason.QUIET_HOURS, until.isoformat(), Sentence("muted_by_quiet_hours", until=until))


def maintenance_mute(incident: Incident, windows: Iterable[Maintenance], at: datetime) -> Mute | None:
    """Return the mute of the first maintenance window that covers `at`: the start of the interval that is judged.

    A window with the pattern `*` for groups also covers what is about no group in particular.
    """
    subject = incident.subject
    for window in windows:
        if not window.starts_at <= at < window.ends_at:
            continue
        group = subject.consumer_group
        fits = window.consumer_group == "*" if group is None else fnmatch.fnmatchcase(group, window.consumer_group)
        if fits and fnmatch.fnmatchcase(subject.cluster, window.cluster):
            why = window.comment
            text = Sentence("muted_by_maintenance_for", comment=why) if why else Sentence("muted_by_maintenance")
            return Mute(MuteReason.MAINTENANCE, window.starts_at.isoformat(), text)
    return None


def _end_of(window: QuietHours, zone: tzinfo, now: datetime) -> datetime | None:
    """Return the end of the span that `now` lies in."""
    today = now.astimezone(zone).date()
    for day in (today - _ONE_DAY, today):
        if day.weekday() not in window.weekdays:
            continue
        ends_on = day if window.ends > window.starts else day + _ONE_DAY
        starts, ends = _instant(day, window.starts, zone), _instant(ends_on, window.ends, zone)
        if starts <= now < ends:
            return ends
    return None


def _instant(day: date, at: time, zone: tzinfo) -> datetime:
    # through UTC: two moments of one zone would be compared by their clocks, whatever the offset
    return datetime.combine(day, at, zone).astimezone(UTC)
