"""What happened to an incident, one row each: its history for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from offsetguard.incidents.incident import Incident
    from offsetguard.incidents.lifecycle import Changes
    from offsetguard.intervals import Interval


class EventKind(StrEnum):
    """What may happen to an incident."""

    OPENED = "opened"
    WORSE = "worse"  # its severity rose
    BETTER = "better"  # its severity fell
    UNKNOWN = "unknown"  # its evidence could not be seen
    VISIBLE = "visible"  # its evidence could be seen again
    ACKNOWLEDGED = "acknowledged"
    ESCALATED = "escalated"
    MUTED = "muted"
    UNMUTED = "unmuted"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One thing that happened; `at` is the start of the interval that showed it, or the moment that somebody acted."""

    incident_id: str
    at: datetime
    kind: EventKind
    text: str  # one sentence, as plain text
    by: str | None = None  # who did it, where a person did


def history_of(before: Iterable[Incident], changes: Changes, interval: Interval) -> tuple[IncidentEvent, ...]:
    """Return what an interval's judgement did to incidents, by what they were before; nothing changed = no event."""
    known = {incident.incident_id: incident for incident in before}
    opened = (IncidentEvent(one.incident_id, interval.start, EventKind.OPENED, _opened(one)) for one in changes.opened)
    later = (
        IncidentEvent(after.incident_id, interval.start, kind, text)
        for after in (*changes.seen_again, *changes.unknown, *changes.calm, *changes.resolved)
        if after.incident_id in known
        for kind, text in _differences(known[after.incident_id], after)
    )
    return (*opened, *later)


def _opened(incident: Incident) -> str:
    seen = f" (found in {incident.seen_count} intervals)" if incident.seen_count > 1 else ""
    return f"{incident.evidence.severity.value}: {incident.evidence.summary}{seen}"


def _differences(before: Incident, after: Incident) -> Iterator[tuple[EventKind, str]]:
    was, now = before.evidence.severity, after.evidence.severity
    if was is not now:
        kind = EventKind.WORSE if now.rank > was.rank else EventKind.BETTER
        yield kind, f"{was.value} to {now.value}: {after.evidence.summary}"
    if after.is_over:
        yield EventKind.RESOLVED, after.resolution or "resolved"
    elif before.unknown_since is None and after.unknown_since is not None:
        yield EventKind.UNKNOWN, after.unknown_because or "its evidence could not be seen"
    elif before.unknown_since is not None and after.unknown_since is None:
        yield EventKind.VISIBLE, "its evidence could be seen again"
