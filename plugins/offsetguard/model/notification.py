"""Receivers, and what they were notified of: which incidents, and what was muted for them and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from offsetguard.model.verdicts import Severity

Channel = str  # how a receiver is reached, by the name that the channel's file declares
Receiver = tuple[Channel, str]


class MuteReason(StrEnum):
    """What mutes; each value is also a NotificationReason. The first one that holds, in this order, is recorded."""

    INHIBITION = "muted_by_inhibition"  # trouble above it is notified instead, and says how many it mutes
    UNTIL_SEEN = "muted_until_seen"  # that trouble has ended, and no interval has shown this one again since
    MAINTENANCE = "muted_by_maintenance"  # a maintenance window of the configuration
    SILENCE = "muted_by_silence"  # a silence that somebody added
    QUIET_HOURS = "muted_by_quiet_hours"  # not severe enough for the hour
    NEEDS_NOBODY = "needs_nobody"  # it is INFO by now, and goes on: who knows of it is notified of its end
    ACKNOWLEDGED = "acknowledged"  # somebody looks after it, and it did not get worse since


@dataclass(frozen=True, slots=True)
class Mute:
    """What mutes one incident for one receiver."""

    reason: MuteReason
    by: str  # incident id, silence id, or the window as it is written; never shown without `text`
    text: str  # a few words for people, a catalogue.Sentence mostly: "silence of alice: deployment"


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """What one message is about."""

    team: str  # that the incidents belong to; who hears of them may be another one (escalation)
    cluster: str
    rule_id: str


@dataclass(frozen=True, slots=True, order=True)
class NotificationKey:
    """What one message is about, and who gets it: as in Alertmanager's notification log."""

    group: GroupKey
    channel: Channel
    receiver: str


@dataclass(frozen=True, slots=True)
class NotifiedIncident:
    """How a receiver knows an incident that it was notified of, and not of its end."""

    severity: Severity  # as it was last notified
    first_notified_at: datetime  # start of an interval, as all moments here but the next
    severity_notified_at: datetime  # by the clock, when this severity was decided on: to compare with people's acts
    repeats: int = 0  # messages that repeated it without anything new
    stage: int = 0  # how far the trouble had come by then (`Evidence.stage`)

    def is_less_than(self, severity: Severity, stage: int) -> bool:
        """Whether something as bad as this, and come so far, is worse than the receiver knows."""
        return (severity.rank, stage) > (self.severity.rank, self.stage)


@dataclass(frozen=True, slots=True)
class Notified:
    """What one receiver was last notified of about one (team, cluster, rule), and what is muted for it."""

    at: datetime | None = None  # None: nothing yet
    thread_key: str = ""
    firing: Mapping[str, NotifiedIncident] = field(default_factory=dict)  # by incident id
    muted: Mapping[str, MuteReason] = field(default_factory=dict)  # firing incidents, known to it or not
    repeat_count: int = 0  # messages with nothing new, one after the other
    ended: Severity | None = None  # after a spell, for group_interval: the worst that it knew in the end

    @property
    def is_empty(self) -> bool:
        """Nothing is left that a later message could be about, or would have to wait for."""
        return self.at is None and not self.muted

    @property
    def worst(self) -> Severity | None:
        """The worst that it knows, or knew when the spell ended; None: there was nothing."""
        return max((one.severity for one in self.firing.values()), key=lambda one: one.rank, default=self.ended)
