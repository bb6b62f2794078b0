"""Incidents that belong into one message: those of one (team, cluster, rule), each receiver by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetguard.receivers import Channel


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """What one message is about."""

    team: str  # that the incidents belong to; who hears of them may be another one (escalation)
    cluster: str
    rule_id: str


@dataclass(frozen=True, slots=True, order=True)
class ToldKey:
    """What one message is about, and who gets it: the key of what was told, as of Alertmanager's notification log."""

    group: GroupKey
    channel: Channel
    receiver: str
