"""Answers of GET_CONSUME_STATS (208) that are kept until the end of a round, in a fifth of their decoded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from offsetguard.collect.columns import microseconds, moment_of
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.offset_table import INT64_RANGE
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets

_NOTHING = INT64_RANGE.start  # stands for None
_FIELDS = 5  # queue id, broker offset, consumer offset, pull offset, last timestamp


class CompactQueues(Mapping[MessageQueue, ConsumeOffsets]):
    """The queues of an answer: one array for each topic; equal to the mapping that it was made of."""

    __slots__ = ("_of_topic",)

    def __init__(self, queues: Mapping[MessageQueue, ConsumeOffsets]) -> None:
        """Take over what was decoded."""
        self._of_topic: dict[tuple[str, str], array[int]] = {}  # by (topic, broker name)
        for queue, offsets in sorted(queues.items()):
            row = (
                queue.queue_id,
                offsets.broker_offset,
                offsets.consumer_offset,
                _NOTHING if offsets.pull_offset is None else offsets.pull_offset,
                _NOTHING if offsets.last_timestamp is None else microseconds(offsets.last_timestamp) or 0,
            )
            self._of_topic.setdefault((queue.topic, queue.broker_name), array("q")).extend(row)

    def __getitem__(self, queue: MessageQueue) -> ConsumeOffsets:
        rows = self._of_topic[queue.topic, queue.broker_name]
        try:
            start = rows[::_FIELDS].index(queue.queue_id) * _FIELDS
        except ValueError:
            raise KeyError(queue) from None
        return _offsets(*rows[start + 1 : start + _FIELDS])

    def of_topic(self, topic: str, broker_name: str) -> dict[int, ConsumeOffsets]:
        """Return the queues of one topic by their ids: for who wants all of them."""
        values = iter(self._of_topic.get((topic, broker_name), ()))
        return {queue_id: _offsets(*row) for queue_id, *row in zip(*[values] * _FIELDS, strict=True)}

    def __iter__(self) -> Iterator[MessageQueue]:
        for (topic, broker_name), rows in self._of_topic.items():
            for queue_id in rows[::_FIELDS]:
                yield MessageQueue(topic, broker_name, queue_id)

    def __len__(self) -> int:
        return sum(map(len, self._of_topic.values())) // _FIELDS


def _offsets(broker_offset: int, consumer_offset: int, pull_offset: int, last_timestamp: int) -> ConsumeOffsets:
    return ConsumeOffsets(
        broker_offset,
        consumer_offset,
        None if pull_offset == _NOTHING else pull_offset,
        None if last_timestamp == _NOTHING else moment_of(last_timestamp),
    )
