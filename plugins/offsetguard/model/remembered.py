"""What the judge remembers of earlier days: who was absent when, and how far commit logs reached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """How far a master's commit log reached at a moment of the last days: about one an hour (`store.broker_marks`)."""

    broker_name: str
    at: datetime
    commit_log_min_offset: int
    commit_log_max_offset: int
    earliest_message_at: datetime | None
    disk_ratio: float | None


@dataclass(frozen=True, slots=True)
class Absences:
    """How often and how long no client of a consumer group was online in the last days (`store.absences`)."""

    began_at: tuple[datetime, ...]  # starts of those that ended, oldest first
    longest: timedelta  # of these
    away_since: datetime | None = None  # start of the one that goes on
