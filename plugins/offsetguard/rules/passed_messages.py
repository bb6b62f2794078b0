"""How many messages the offsets of some clients' queues have passed since a moment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offsetguard.rules.rule import QueueEvidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from offsetguard.facts import QueueFacts
    from offsetguard.offsets import MessageQueue


def passed_by(
    client_ids: Collection[str], queues: Iterable[QueueFacts], since: datetime | None
) -> Mapping[MessageQueue, int]:
    """Return by queue that one of the clients holds how far its committed offset moved since, by samples after that.

    Only of queues with such samples: the answer is a lower bound.
    """
    passed = {}
    for queue in queues:
        window = queue.window
        if queue.holder_client_id not in client_ids or window is None or since is None:
            continue
        points = [point for point in window.points if point.at >= since and point.committed_offset is not None]
        if points and window.committed_offset is not None and points[-1].committed_offset is not None:
            passed[queue.message_queue] = max(0, window.committed_offset - points[-1].committed_offset)
    return {queue: count for queue, count in passed.items() if count}


def skipped_at_most(passed: Mapping[MessageQueue, int], hit_ratio: float | None) -> int | None:
    """Return how many of the passed messages brokers kept back; what the clients wanted is among them.

    `hit_ratio`: share of all messages that brokers hand out by the expression that they hold; None = not known.
    """
    if hit_ratio is None or not passed:
        return None
    return math.ceil(sum(passed.values()) * (1.0 - hit_ratio))


def passed_evidence(passed: Mapping[MessageQueue, int]) -> tuple[QueueEvidence, ...]:
    """Return the queues, worst first."""
    worst_first = sorted(passed.items(), key=lambda one: (-one[1], one[0]))
    return tuple(QueueEvidence(queue, {"passed": count}) for queue, count in worst_first)
