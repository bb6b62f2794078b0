"""The offsets of one consumer group in the queues of one topic on one broker, as columns."""

from __future__ import annotations

from array import array
from operator import le
from typing import TYPE_CHECKING, NamedTuple

from offsetguard.offsets import QueueOffsets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


class PairReading(NamedTuple):  # made for each pair of a cluster in every round: quicker than a dataclass
    """The offsets of one group in the queues of one topic on one broker: columns of equal length."""

    consumer_group: str
    topic: str
    queue_ids: array[int]  # ascending
    consumer_offsets: array[int] | list[int | None]
    min_offsets: array[int] | list[int | None]
    max_offsets: array[int] | list[int | None]
    consumer_at: datetime | None  # None: the committed offsets were not seen
    max_at: datetime | None  # None: the topic was not seen

    def offsets(self) -> Iterator[tuple[int, QueueOffsets]]:
        """Yield (queue id, offsets); pull offsets are not known here."""
        columns = (self.queue_ids, self.min_offsets, self.max_offsets, self.consumer_offsets)
        for queue_id, low, high, consumer in zip(*columns, strict=True):
            yield queue_id, QueueOffsets(low, high, consumer)

    @property
    def is_in_order(self) -> bool:
        """All offsets are known, and min <= consumer <= max holds in each queue."""
        low, consumer, high = self.min_offsets, self.consumer_offsets, self.max_offsets
        is_known = type(consumer) is array and type(low) is array and type(high) is array
        return is_known and all(map(le, low, consumer)) and all(map(le, consumer, high))  # type: ignore[arg-type]

    @property
    def waiting_count(self) -> int:
        """Messages that wait, over all queues; of columns that are in order."""
        return sum(self.max_offsets) - sum(self.consumer_offsets)  # type: ignore[arg-type]
