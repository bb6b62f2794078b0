"""Why a firing incident starts no message for a receiver: something above it, an operator's wish, or the hour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MuteReason(StrEnum):
    """What mutes; each value is also a NotificationReason. The first one that holds, in this order, is recorded."""

    INHIBITION = "muted_by_inhibition"  # trouble above it is told instead, and says how many it mutes
    UNTIL_SEEN = "muted_until_seen"  # that trouble has ended, and no interval has shown this one again since
    MAINTENANCE = "muted_by_maintenance"  # a maintenance window of the configuration
    SILENCE = "muted_by_silence"  # a silence that somebody added
    QUIET_HOURS = "muted_by_quiet_hours"  # not severe enough for the hour
    ACKNOWLEDGED = "acknowledged"  # somebody looks after it, and it did not get worse since


@dataclass(frozen=True, slots=True)
class Mute:
    """What mutes one incident for one receiver."""

    reason: MuteReason
    by: str  # incident id, silence id, or the window as it is written; never shown without `text`
    text: str  # a few words for people, a catalogue.Sentence mostly: "silence of alice: deployment"
