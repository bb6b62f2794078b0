"""Of the messages of a queue that its broker has deleted and the group has not committed: who still has them."""

from __future__ import annotations

from offsetguard.facts.interval import QueueFacts


def not_handed_out(queue: QueueFacts, *, online: bool) -> int:
    """Return how many of the deleted messages no client has that is there."""
    low = queue.offsets.min_offset or 0
    handed_out = [queue.offsets.consumer_offset or 0]
    if online:
        handed_out.append(queue.offsets.pull_offset or 0)
    if queue.cached_min_offset is not None and queue.cached_min_offset < low:  # else it may have been sent beyond
        handed_out.append((queue.cached_max_offset or 0) + 1)
    return max(0, low - max(handed_out))


def in_process_of(queue: QueueFacts, lost: int) -> int:
    """Return how many of the deleted messages a client has and has not finished: no more than it says that it caches.

    Behind a message that hangs, all others may be finished, and are not committed.
    """
    handed_out = (queue.offsets.lost or 0) - lost
    first, low = queue.cached_min_offset, queue.offsets.min_offset or 0
    return handed_out if first is None or first >= low else min(handed_out, queue.cached_message_count or handed_out)
