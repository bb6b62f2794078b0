"""Groups and queues for tests of what is made of them: whatever is not named is of no importance there."""

from __future__ import annotations

from typing import Any

from offsetguard.facts.interval import QueueFacts
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.tables.group_facts import GroupFacts


def a_group(name: str, lag: int | None = 0, **more: Any) -> GroupFacts:
    """Return a group without clients on 4 queues of `orders`, where `lag` messages wait; `more`: further fields.

    It is in trouble when more than 10,000 messages wait.
    """
    fields = {
        "topic": "orders",
        "topic_kind": "normal",
        "queue_count": 4,
        "unknown_queue_count": 0,
        "never_committed_queue_count": 0,
        "lag": lag,
        "effective_lag": lag,
        "lost": 0,
        "lag_ms": 0,
        "online_client_count": 0,
        "message_model": None,
        **more,
    }
    return GroupFacts(consumer_group=name, **fields)


def a_queue(consumer_group: str, queue: MessageQueue, offsets: QueueOffsets, **more: Any) -> QueueFacts:
    """Return a suspect queue of a group; `more`: further fields."""
    return QueueFacts(consumer_group=consumer_group, message_queue=queue, offsets=offsets, **more)
