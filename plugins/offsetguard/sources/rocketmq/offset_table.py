"""Offsets of many queues as columns, since a broker may have a million of them.

An offset costs 12 bytes here and some 200 in a dict of dicts. Who asks for one group reads a table like a dict,
`table[topic, group][queue_id]`; who wants everything takes `columns()`, whose arrays pyarrow takes over as they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern

TopicAtGroup = tuple[str, str]  # (topic, consumer group)

INT32 = "i"
INT64 = "q"
INT32_RANGE, INT64_RANGE = range(-(2**31), 2**31), range(-(2**63), 2**63)

BROADCAST_SUFFIX = "broadcast"


@dataclass(frozen=True, slots=True)
class OffsetColumns:
    """One row for each (topic, group, queue). The arrays are equally long; names are positions in the two tuples."""

    topics: tuple[str, ...]  # each name once
    groups: tuple[str, ...]
    topic_index: array[int]  # int32
    group_index: array[int]  # int32
    queue_ids: array[int]  # int32
    offsets: array[int]  # int64; next message


class OffsetTable(Mapping[TopicAtGroup, Mapping[int, int]]):
    """(topic, consumer group) -> queue id -> offset of the next message; queue ids ascend."""

    __slots__ = ("_offsets", "_pairs", "_positions", "_queue_ids", "_starts")

    def __init__(
        self, pairs: Sequence[TopicAtGroup], starts: array[int], queue_ids: array[int], offsets: array[int]
    ) -> None:
        """Row `starts[n]` is the first of `pairs[n]`, row `starts[n + 1]` the first that is not; pairs are unique."""
        self._pairs = tuple(pairs)
        self._starts = starts
        self._queue_ids = queue_ids
        self._offsets = offsets
        self._positions: dict[TopicAtGroup, int] | None = None

    @classmethod
    def empty(cls) -> OffsetTable:
        """Return a table of nothing."""
        return cls((), array(INT32, (0,)), array(INT32), array(INT64))

    @property
    def row_count(self) -> int:
        """How many offsets there are."""
        return len(self._offsets)

    def columns(self, wanted: Callable[[str, str], bool] | None = None) -> OffsetColumns:
        """Return all offsets, or those of the pairs for which `wanted(topic, group)` is true, in the broker's order."""
        topics: dict[str, int] = {}
        groups: dict[str, int] = {}
        topic_index, group_index, queue_ids, offsets = array(INT32), array(INT32), array(INT32), array(INT64)
        for position, (topic, group) in enumerate(self._pairs):
            if wanted is not None and not wanted(topic, group):
                continue
            start, end = self._starts[position], self._starts[position + 1]
            topic_index.extend(array(INT32, [topics.setdefault(topic, len(topics))]) * (end - start))
            group_index.extend(array(INT32, [groups.setdefault(group, len(groups))]) * (end - start))
            queue_ids.extend(self._queue_ids[start:end])
            offsets.extend(self._offsets[start:end])
        return OffsetColumns(tuple(topics), tuple(groups), topic_index, group_index, queue_ids, offsets)

    def queues(self, pair: TopicAtGroup) -> tuple[array[int], array[int]]:
        """Return queue ids (int32, ascending) and their offsets (int64); raises KeyError for an unknown pair."""
        position = self._position_of()[pair]
        start, end = self._starts[position], self._starts[position + 1]
        return self._queue_ids[start:end], self._offsets[start:end]

    def queues_of(self, pair: TopicAtGroup) -> tuple[array[int], array[int]]:
        """Return the same; for an unknown pair no queues."""
        position = self._position_of().get(pair, -1)
        if position < 0:
            return array(INT32), array(INT64)
        start, end = self._starts[position], self._starts[position + 1]
        return self._queue_ids[start:end], self._offsets[start:end]

    def _position_of(self) -> dict[TopicAtGroup, int]:
        if self._positions is None:
            self._positions = {pair: position for position, pair in enumerate(self._pairs)}
        return self._positions

    def __contains__(self, pair: object) -> bool:
        return pair in self._position_of()

    def __getitem__(self, pair: TopicAtGroup) -> dict[int, int]:
        return dict(zip(*self.queues(pair), strict=True))

    def __iter__(self) -> Iterator[TopicAtGroup]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"OffsetTable({dict(self)!r})" if self.row_count <= 100 else f"<OffsetTable of {self.row_count} offsets>"


@dataclass(frozen=True, slots=True)
class KeyedOffsets:
    """One offset table with its keys as they came: row `starts[n]` is the first of `keys[n]`."""

    keys: list[str]
    starts: array[int]
    queue_ids: array[int]
    offsets: array[int]


def by_topic_and_group(table: KeyedOffsets) -> tuple[OffsetTable, OffsetTable, tuple[str, ...]]:
    """Split keys at the first `@`: return the offsets, those of `topic@group@broadcast`, and the keys left over."""
    committed: list[tuple[TopicAtGroup, int]] = []
    broadcast: list[tuple[TopicAtGroup, int]] = []
    unreadable: list[str] = []
    for position, key in enumerate(table.keys):
        topic, _, rest = key.partition("@")
        group, separator, suffix = rest.partition("@")
        if not topic or not group or (separator and suffix != BROADCAST_SUFFIX):
            unreadable.append(key)
        else:
            # interned: a dozen brokers name the same topics and groups
            (broadcast if separator else committed).append(((intern(topic), intern(group)), position))
    return _selected(table, committed), _selected(table, broadcast), tuple(unreadable)


def _selected(table: KeyedOffsets, chosen: list[tuple[TopicAtGroup, int]]) -> OffsetTable:
    pairs = [pair for pair, _ in chosen]
    if len(chosen) == len(table.keys):
        return OffsetTable(pairs, table.starts, table.queue_ids, table.offsets)
    starts, queue_ids, offsets = array(INT32, [0]), array(INT32), array(INT64)
    for _, position in chosen:
        start, end = table.starts[position], table.starts[position + 1]
        queue_ids.extend(table.queue_ids[start:end])
        offsets.extend(table.offsets[start:end])
        starts.append(len(offsets))
    return OffsetTable(pairs, starts, queue_ids, offsets)
