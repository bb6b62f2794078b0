"""Queues whose committed offset lies beyond their end, or whose end fell: figures and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from offsetguard.facts.interval import QueueFacts
from offsetguard.model.verdicts import Figure, QueueEvidence


def beyond(queue: QueueFacts) -> int:
    """Return how far the committed offset lies beyond the end, messages; 0 also where one of them is unknown."""
    consumer, end = queue.offsets.consumer_offset, queue.offsets.max_offset
    return 0 if consumer is None or end is None else max(0, consumer - end)


def was_beyond(queue: QueueFacts) -> bool:
    """Whether the committed offset lies beyond the end, or did since the end fell."""
    window = queue.window
    if beyond(queue) or window is None or window.recreated_at is None:
        return beyond(queue) > 0
    return window.disordered_at is not None and window.disordered_at >= window.recreated_at


def fallen_end(queues: Sequence[QueueFacts]) -> dict[str, Figure]:
    """Return the figures of the worst queue, and of all of them together; there is at least one."""
    worst = min(queues, key=worst_first)
    moments = [moment for queue in queues if (moment := _moment(queue)) is not None]
    return {
        "queue_count": len(queues),
        "worst_queue": f"{worst.message_queue.broker_name}/{worst.message_queue.queue_id}",
        "recreated_from": worst.window.recreated_from if worst.window else None,
        "max_offset": _fallen_to(worst),
        "consumer_offset": worst.offsets.consumer_offset,
        "beyond": sum(beyond(queue) for queue in queues),
        "first_moved_at": min(moments, default=None),
        "last_moved_at": max(moments, default=None),
        "clients": None,
    }


def beyond_evidence(queues: Iterable[QueueFacts]) -> tuple[QueueEvidence, ...]:
    """Return the queues, worst first."""
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "beyond": beyond(queue),
                "consumer_offset": queue.offsets.consumer_offset,
                "max_offset": queue.offsets.max_offset,
                "recreated_from": queue.window.recreated_from if queue.window else None,
            },
        )
        for queue in sorted(queues, key=worst_first)
    )


def worst_first(queue: QueueFacts) -> tuple[int, object]:
    """Order queues by how much will be skipped."""
    return -beyond(queue), queue.message_queue


def _fallen_to(queue: QueueFacts) -> int | None:
    """Return the end as it was first seen after it had fallen: it has grown since; else the present one."""
    window = queue.window
    if window is None or window.recreated_at is None or window.seen is None:
        return queue.offsets.max_offset
    return min(one.max_offset for one in (window.seen, *window.points) if one.at >= window.recreated_at)


def _moment(queue: QueueFacts) -> datetime | None:
    """When the end was seen to have fallen, else when the queue was last read."""
    return None if queue.window is None else queue.window.recreated_at or queue.window.seen_at
