"""What kind of mismatch the subscriptions of one group and topic are, if they are one."""

from __future__ import annotations

from datetime import datetime

from offsetguard.judge.evidence.rebalance_spells import REBALANCE_ROUNDS
from offsetguard.tables.log_facts import SubscriptionFacts

LEAST_ALTERNATIONS = 3
"""To another expression, back, and again: one deployment changes it once."""


def mismatch_kind(one: SubscriptionFacts, now: datetime, *, counted: bool, broadcasting: bool) -> str | None:
    """Return the variant of `subscription_mismatch`; None = all that were seen agree, or nothing was seen.

    `counted`: whether it is known what the losing clients passed. `broadcasting`: each client reads all queues of its
    own topics, so a client that does not subscribe to one takes nothing from the others.
    """
    if not one.mismatch:
        return "alternating" if one.member_count == 0 and _alternates(one, now) else None
    differ = len(one.member_expressions) > 1
    if not differ and broadcasting:
        return None
    if one.newest_member_start_at is not None and now - one.newest_member_start_at <= REBALANCE_ROUNDS:
        return "rolling"
    if not differ:
        return "topics_differ"
    return "default" if counted else "uncounted"


def begun_at(one: SubscriptionFacts) -> datetime | None:
    """Return since when the members differ at least."""
    return one.newest_member_start_at or one.last_changed_at


def _alternates(one: SubscriptionFacts, now: datetime) -> bool:
    """Whether log lines alone show that it went on changing to and fro until a moment ago."""
    if one.first_changed_at is None or one.last_changed_at is None or len(one.changed_expressions) < 2:
        return False
    lasts = one.last_changed_at - one.first_changed_at > REBALANCE_ROUNDS
    return lasts and one.changed_count >= LEAST_ALTERNATIONS and now - one.last_changed_at <= 2 * REBALANCE_ROUNDS
