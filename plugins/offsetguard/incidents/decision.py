"""Whether to send a message about one group of incidents, and why: Alertmanager's decision as a pure function.

Source: prometheus/alertmanager, notify/dedup_stage.go, `needsUpdate` (0.34).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime


class NotificationReason(StrEnum):
    """Why a message was, or was not, sent; the names of `explain notification` and of the judge's log."""

    # sent
    FIRST = "first"  # nothing was ever told to the receiver, or the last message told of a resolution
    NEW_FIRING = "new_firing"  # something fires that the last message did not have
    WORSE = "worse"  # something got more severe than it was told: does not wait for group_interval
    ESCALATED = "escalated"  # first to a team that is told because another one did not acknowledge
    REPEAT = "repeat"  # the repeat interval has passed
    RESOLVED = "resolved"  # something that was told has resolved, and something else still fires
    ALL_RESOLVED = "all_resolved"  # nothing fires any more
    # not sent: there is nothing to tell
    NOTHING_NEW = "nothing_new"  # the last message still says it all
    NOTHING_FIRING = "nothing_firing"  # nothing fires and nothing was told
    RESOLVED_UNWANTED = "resolved_unwanted"  # nothing fires any more, and the route wants no resolve notices
    RECEIVER_REMOVED = "receiver_removed"  # the configuration names the receiver no more: it hears nothing further
    # not sent yet: a later interval will
    GROUP_WAIT = "group_wait"  # the first message waits for more to fit in
    GROUP_INTERVAL = "group_interval"  # there is news, and the last message is too young
    # not sent: all that fires is muted (`muting.MuteReason`); the worst incident's mute is named
    MUTED_BY_INHIBITION = "muted_by_inhibition"
    MUTED_UNTIL_SEEN = "muted_until_seen"
    MUTED_BY_MAINTENANCE = "muted_by_maintenance"
    MUTED_BY_SILENCE = "muted_by_silence"
    MUTED_BY_QUIET_HOURS = "muted_by_quiet_hours"
    ACKNOWLEDGED = "acknowledged"  # somebody looks after it, and it did not get worse

    @property
    def is_sent(self) -> bool:
        """Whether a message goes out for this reason."""
        return self in _SENDS


ALERTMANAGERS = frozenset(
    {
        NotificationReason.FIRST,
        NotificationReason.NEW_FIRING,
        NotificationReason.REPEAT,
        NotificationReason.RESOLVED,
        NotificationReason.ALL_RESOLVED,
        NotificationReason.NOTHING_NEW,
        NotificationReason.NOTHING_FIRING,
    }
)
"""What `decide` may answer; the other reasons come from severity, time and mutes (`timing.py`)."""


@dataclass(frozen=True, slots=True)
class LastSent:
    """What the newest message about the same group of incidents said."""

    at: datetime
    firing: frozenset[str]
    resolved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to send, and why or why not."""

    send: bool
    reason: NotificationReason


_SENDS = frozenset(
    {
        NotificationReason.FIRST,
        NotificationReason.NEW_FIRING,
        NotificationReason.WORSE,
        NotificationReason.ESCALATED,
        NotificationReason.REPEAT,
        NotificationReason.RESOLVED,
        NotificationReason.ALL_RESOLVED,
    }
)


def decide(
    *,
    now: datetime,
    last_sent: LastSent | None,
    firing: AbstractSet[str],
    resolved: AbstractSet[str],
    repeat_interval_ms: int,
    send_resolved: bool,
) -> Decision:
    """Compare what fires and what has resolved with what was last told.

    ALL_RESOLVED is decided even without `send_resolved`, as in Alertmanager: the spell is over, and the caller keeps
    silent about it.
    """
    if last_sent is None:
        reason = NotificationReason.FIRST if firing else NotificationReason.NOTHING_FIRING
    elif not firing <= last_sent.firing:
        reason = NotificationReason.NEW_FIRING if last_sent.firing else NotificationReason.FIRST
    elif not firing:
        reason = NotificationReason.ALL_RESOLVED if last_sent.firing else NotificationReason.NOTHING_FIRING
    elif send_resolved and not resolved <= last_sent.resolved:
        reason = NotificationReason.RESOLVED
    elif now - last_sent.at > timedelta(milliseconds=repeat_interval_ms):
        reason = NotificationReason.REPEAT
    else:
        reason = NotificationReason.NOTHING_NEW
    return Decision(reason.is_sent, reason)
