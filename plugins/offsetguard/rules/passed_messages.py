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
    """Return by queue that one of the clients holds about how far its committed offset moved since that moment.

    A window keeps few samples: between the last one before the moment and the newest the offset is taken to have moved
    evenly. Where no sample is as old, it is what the offset moved since the oldest.
    """
    passed: dict[MessageQueue, int] = {}
    for queue in queues:
        newest = queue.window.seen if queue.window else None
        if queue.window is None or newest is None or since is None or queue.holder_client_id not in client_ids:
            continue
        known = [point for point in queue.window.points if point.committed_offset is not None]
        earlier = next((point for point in known if point.at <= since), known[-1] if known else None)
        if earlier is not None and earlier.committed_offset is not None and newest.committed_offset is not None:
            share = min(1.0, (newest.at - since) / (newest.at - earlier.at))
            passed[queue.message_queue] = round(share * (newest.committed_offset - earlier.committed_offset))
    return {queue: count for queue, count in passed.items() if count > 0}


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
