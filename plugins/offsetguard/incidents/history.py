"""What happened to an incident, one row each: its history for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class EventKind(StrEnum):
    """What may happen to an incident."""

    OPENED = "opened"
    WORSE = "worse"  # its severity rose
    BETTER = "better"  # its severity fell
    UNKNOWN = "unknown"  # its evidence could not be seen
    SEEN_AGAIN = "seen_again"  # its evidence could be seen again
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
