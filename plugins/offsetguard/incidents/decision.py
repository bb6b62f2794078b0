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
    """Why a message was, or was not, sent; the names of `explain notification` and of the delivery log."""

    FIRST = "first"  # nothing was ever sent, or the last message told of a resolution
    NEW_FIRING = "new_firing"  # something fires that the last message did not have
    REPEAT = "repeat"  # the repeat interval has passed
    RESOLVED = "resolved"  # something that was told has resolved
    ALL_RESOLVED = "all_resolved"  # nothing fires any more
    NOTHING_NEW = "nothing_new"  # not sent: the last message still says it all
    NOTHING_FIRING = "nothing_firing"  # not sent: nothing fires and nothing was told


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


_SENDS = frozenset(NotificationReason) - {NotificationReason.NOTHING_NEW, NotificationReason.NOTHING_FIRING}


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
    elif last_sent.at < now - timedelta(milliseconds=repeat_interval_ms):
        reason = NotificationReason.REPEAT
    else:
        reason = NotificationReason.NOTHING_NEW
    return Decision(reason in _SENDS, reason)
