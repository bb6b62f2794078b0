"""How old the oldest message is that a group has not consumed, queue by queue of one topic on one broker."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from offsetguard.collect.columns import microseconds
from offsetguard.records import record

if TYPE_CHECKING:
    from datetime import datetime

    from offsetguard.offsets import QueueOffsets
    from offsetguard.rocketmq.bodies import ConsumeTimeSpans

_US_PER_MS = 1_000
_NOTHING = 0


@record
class WaitingAges:
    """What QUERY_CONSUME_TIME_SPAN told, as columns; one entry per queue, 0 = nothing waits, or unknown."""

    at: datetime  # when the broker had answered
    queue_ids: array[int]
    delays_ms: array[int]  # age of the message at the consumer offset
    oldest_kept: array[int]  # store time of the oldest kept message, microseconds since 1970

    @classmethod
    def of(cls, spans: ConsumeTimeSpans | None, at: datetime) -> WaitingAges:
        """Take over an answer."""
        rows = [(queue.queue_id, span) for queue, span in spans.queues.items()] if spans else []
        return cls(
            at,
            array("q", (queue_id for queue_id, _ in rows)),
            array("q", (max(span.delay_ms or _NOTHING, _NOTHING) for _, span in rows)),
            array("q", (microseconds(span.min_timestamp) or _NOTHING for _, span in rows)),
        )

    def oldest_unconsumed(self, queue_id: int, offsets: QueueOffsets) -> int | None:
        """Store time of the oldest message that the group can still consume, microseconds since 1970.

        None: nothing waits, or unknown: consumed meanwhile, or a broker whose clock went back. The broker tells an age,
        not a time, so its wrong clock does not matter. Where the message at the consumer offset was deleted, the oldest
        kept one counts.
        """
        if queue_id not in self.queue_ids or (offsets.effective_lag or 0) <= 0:
            return None
        position = self.queue_ids.index(queue_id)
        if offsets.lost:
            return self.oldest_kept[position] or None
        delay_ms = self.delays_ms[position]
        return (microseconds(self.at) or 0) - delay_ms * _US_PER_MS if delay_ms else None
