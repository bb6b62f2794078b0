"""Min and max offsets of a topic's queues on one broker, in flat arrays."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import lt
from typing import TYPE_CHECKING

from offsetguard.collect.columns import microseconds
from offsetguard.rocketmq.bodies import TopicOffsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.rocketmq.bodies import TopicStats


@dataclass(slots=True)
class QueueEnds:
    """What a broker said of a topic; no queues = the broker does not have the topic."""

    at: datetime  # when the broker had answered
    queue_ids: array[int]  # int32, ascending
    min_offsets: array[int]
    max_offsets: array[int]
    last_update_ms: array[int]  # store time of the newest message, 0 or less = unknown
    at_us: int | None = field(init=False)  # `at` as columns hold it
    dense: bool = field(init=False)  # the ids are 0, 1, 2, ...

    def __post_init__(self) -> None:
        self.at_us = microseconds(self.at)
        self.dense = is_dense(self.queue_ids)

    @classmethod
    def of(cls, stats: TopicStats | None, at: datetime) -> QueueEnds:
        """Take over an answer; brokers before 5.x list queues in any order."""
        if stats is None:
            return cls(at, array("i"), array("q"), array("q"), array("q"))
        ends = cls(at, stats.queue_ids, stats.min_offsets, stats.max_offsets, stats.last_update_ms)
        in_order = all(map(lt, ends.queue_ids, ends.queue_ids[1:]))
        return ends if in_order else ends.with_queues({})

    def with_queues(self, more: dict[int, TopicOffsets]) -> QueueEnds:
        """Return the same with further queues, all in order of their ids, each once."""
        rows = {
            queue_id: (low, high, updated_ms)
            for queue_id, low, high, updated_ms in zip(
                self.queue_ids, self.min_offsets, self.max_offsets, self.last_update_ms, strict=True
            )
        }
        rows |= {queue_id: (one.min_offset, one.max_offset, 0) for queue_id, one in more.items()}
        ids = sorted(rows)
        low, high, updated = (array("q", (rows[queue_id][place] for queue_id in ids)) for place in range(3))
        return QueueEnds(self.at, array("i", ids), low, high, updated)

    def get(self, queue_id: int) -> TopicOffsets | None:
        """Return one queue's ends; None = the broker does not have it."""
        if self.dense:
            position = queue_id if 0 <= queue_id < len(self.queue_ids) else -1
        else:
            position = self.queue_ids.index(queue_id) if queue_id in self.queue_ids else -1
        return self._at(position) if position >= 0 else None

    def items(self) -> Iterator[tuple[int, TopicOffsets]]:
        """Yield (queue id, ends) in ascending order."""
        for position, queue_id in enumerate(self.queue_ids):
            yield queue_id, self._at(position)

    def _at(self, position: int) -> TopicOffsets:
        updated_ms = self.last_update_ms[position]
        updated_at = datetime.fromtimestamp(updated_ms / 1000, UTC) if updated_ms > 0 else None
        return TopicOffsets(self.min_offsets[position], self.max_offsets[position], updated_at)


def is_dense(queue_ids: array[int]) -> bool:
    """Whether ascending queue ids are 0, 1, 2, ...: as of every topic but those that lost write queues."""
    return not queue_ids or (queue_ids[0] == 0 and queue_ids[-1] == len(queue_ids) - 1)
