"""All committed offsets of a broker (43), as columns, since it may have a million of them.

An offset costs 12 bytes here and some 200 in a dict of dicts. Who asks for one group reads a table like a dict,
`table[topic, group][queue_id]`.

Reading: maps in fastjson's form, `{0:7,1:9}`, are rewritten as lists, `[0,7,1,9]`, in one pass, and one `json.loads`
does the rest: a million offsets in 0.44 s of CPU instead of 1.3, and 90 MiB more at the peak instead of 170. Whatever
is not exactly so (other forms, names with escapes, ids that come twice, numbers out of range) is left to the general
reader, which judges: a property test and a fuzz target hold that both read the same.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import MalformedBytes, as_int64, as_object, int_key, object_field

TopicAtGroup = tuple[str, str]  # (topic, consumer group)

INT32 = "i"
INT64 = "q"
INT32_RANGE, INT64_RANGE = range(-(2**31), 2**31), range(-(2**63), 2**63)

BROADCAST_SUFFIX = "broadcast"
OFFSET_TABLES = ("offsetTable", "pullOffsetTable")

_STRING_OR_OFFSETS = re.compile(rb'("[^"]*+"\s*+:\s*+)\{([-0-9:,\s]++)\}|"[^"]*+"')  # strings are walked over whole
_LIST_OF_NUMBERS = re.compile(rb"\[\s*+[-0-9]")
_ALL_BUT_SEPARATORS = b"-0123456789 \t\r\n"


class OffsetTable(Mapping[TopicAtGroup, Mapping[int, int]]):
    """(topic, consumer group) -> queue id -> offset of the next message; pairs ascend, and queue ids of each.

    Found by halving: a dictionary of places would take as much memory as all the rest.
    """

    __slots__ = ("_by_group", "_groups", "_offsets", "_places", "_queue_ids", "_starts", "_topics")

    def __init__(self, table: KeyedOffsets, pairs: Sequence[TopicAtGroup], places: Sequence[int]) -> None:
        """`places`: of each of `pairs`, which are unique and come in any order, among the keys of `table`."""
        in_order = sorted(range(len(pairs)), key=pairs.__getitem__)
        self._topics, self._groups = ([pairs[one][part] for one in in_order] for part in (0, 1))
        self._places = array(INT32, [places[one] for one in in_order])
        self._starts, self._queue_ids, self._offsets = table.starts, table.queue_ids, table.offsets
        self._by_group: array[int] | None = None

    @classmethod
    def empty(cls) -> OffsetTable:
        """Return a table of nothing."""
        return cls(KeyedOffsets([], array(INT32, (0,)), array(INT32), array(INT64)), (), ())

    def queues_at(self, position: int) -> tuple[array[int], array[int]]:
        """Return queue ids (int32, ascending) and offsets (int64) of the pair at a position of the iteration."""
        place = self._places[position]
        start, end = self._starts[place], self._starts[place + 1]
        return self._queue_ids[start:end], self._offsets[start:end]

    def topics_of(self, group: str) -> list[str]:
        """Return the topics that a group has offsets for, ascending."""
        if self._by_group is None:
            self._by_group = array(INT32, sorted(range(len(self)), key=self._groups.__getitem__))
        first = bisect_left(self._by_group, group, key=self._groups.__getitem__)
        last = bisect_right(self._by_group, group, first, key=self._groups.__getitem__)
        return [self._topics[position] for position in self._by_group[first:last]]

    def __getitem__(self, pair: TopicAtGroup) -> dict[int, int]:
        position = bisect_left(range(len(self)), pair, key=self._pair_at)
        if position == len(self) or self._pair_at(position) != pair:
            raise KeyError(pair)
        return dict(zip(*self.queues_at(position), strict=True))

    def _pair_at(self, position: int) -> TopicAtGroup:
        return self._topics[position], self._groups[position]

    def __iter__(self) -> Iterator[TopicAtGroup]:
        return zip(self._topics, self._groups, strict=True)

    def __len__(self) -> int:
        return len(self._topics)

    def __repr__(self) -> str:
        return f"OffsetTable({dict(self)!r})" if len(self) <= 100 else f"<OffsetTable of {len(self)} pairs>"


@dataclass(frozen=True, slots=True)
class KeyedOffsets:
    """One offset table with its keys as they came: row `starts[n]` is the first of `keys[n]`."""

    keys: list[str]
    starts: array[int]
    queue_ids: array[int]
    offsets: array[int]
    unreadable: dict[str, str] = field(default_factory=dict)  # keys of rows that are left empty, and why


def by_topic_and_group(table: KeyedOffsets) -> tuple[OffsetTable, OffsetTable, tuple[str, ...]]:
    """Split keys at the first `@`: return the offsets, those of `topic@group@broadcast`, and the keys left over."""
    committed: tuple[list[TopicAtGroup], list[int]] = [], []
    broadcast: tuple[list[TopicAtGroup], list[int]] = [], []
    unreadable: list[str] = []
    for place, key in enumerate(table.keys):
        topic, _, rest = key.partition("@")
        group, separator, suffix = rest.partition("@")
        if not topic or not group or (separator and suffix != BROADCAST_SUFFIX):
            unreadable.append(key)
        else:
            pairs, places = broadcast if separator else committed
            pairs.append((intern(topic), intern(group)))  # a dozen brokers name the same topics and groups
            places.append(place)
    return OffsetTable(table, *committed), OffsetTable(table, *broadcast), tuple(unreadable)


@dataclass(frozen=True, slots=True)
class AllConsumerOffsets:
    """Answer of 43: every committed offset of one broker; a missing entry = never committed.

    Each table reads as (topic, group) -> queue id -> offset. They are kept apart: `broadcast_offsets` is what
    broadcasting clients *pulled* (5.1+, no commit). Of the pull offsets, which 5.5.0 has beside them, only keys that
    cannot be read are told. LMQ offsets (lite topics) are not read.
    """

    offsets: OffsetTable
    broadcast_offsets: OffsetTable
    unreadable_keys: tuple[str, ...] = ()  # keys that are not `topic@group`, kept so that nobody loses them silently
    unreadable: Mapping[str, str] = field(default_factory=dict)  # keys of rows that are no offsets, and why

    @property
    def unreadable_pairs(self) -> frozenset[TopicAtGroup]:
        """Pairs whose row cannot be read: they stand in `offsets` without queues, and may have committed in any."""
        split = ((key.partition("@")[0], key.partition("@")[2]) for key in self.unreadable)
        return frozenset(pair for pair in split if pair in self.offsets)


def all_consumer_offsets(body: bytes) -> AllConsumerOffsets:
    """43 GET_ALL_CONSUMER_OFFSET. Keys are split at the first `@`; `topic@group@broadcast` has a table of its own."""
    tables = offset_tables(body)
    committed, broadcast, unreadable = by_topic_and_group(tables["offsetTable"])
    _, _, unreadable_pulled = by_topic_and_group(tables["pullOffsetTable"])
    wrong = tables["offsetTable"].unreadable
    return AllConsumerOffsets(committed, broadcast, unreadable + unreadable_pulled, wrong)


def offset_tables(body: bytes) -> dict[str, KeyedOffsets]:
    """Return the tables `key -> {queue id: offset}` of a body; one that it does not have is empty."""
    as_lists = _with_lists(body)
    if as_lists is not None:
        try:
            return _read_tables(as_lists, has_lists=True)
        except (MalformedBytes, OverflowError):
            pass  # not as brokers write it: the general reader judges, and says what is wrong
    return _read_tables(body, has_lists=False)


def _with_lists(body: bytes) -> bytes | None:
    """Rewrite `"key":{0:7,1:9}` as `"key":[0,7,1,9]`; None where a list could be taken for what was no list before."""
    if b"\\" in body or len(body) > fastjson.MAX_DOCUMENT_BYTES or _LIST_OF_NUMBERS.search(body):
        return None
    return _STRING_OR_OFFSETS.sub(_with_list, body)


def _with_list(match: re.Match[bytes]) -> bytes:
    name, pairs = match.groups()
    if pairs is None:
        return match[0]
    separators = pairs.translate(None, _ALL_BUT_SEPARATORS)
    if separators + b"," != b":," * (len(separators) // 2 + 1):
        return match[0]
    return b"".join((name, b"[", pairs.replace(b":", b","), b"]"))


def _read_tables(body: bytes, *, has_lists: bool) -> dict[str, KeyedOffsets]:
    document = fastjson.decode_object(body)
    return {name: _keyed_offsets(object_field(document, name), has_lists=has_lists) for name in OFFSET_TABLES}


def _keyed_offsets(rows: Mapping[str, Any], *, has_lists: bool) -> KeyedOffsets:
    table = KeyedOffsets(list(rows), array(INT32, [0]), array(INT32), array(INT64))
    ascending: list[int] = []
    for key, row in rows.items():
        if has_lists and isinstance(row, list) and type(next(iter(row), None)) is int:
            queue_ids, offsets = row[::2], row[1::2]
            if queue_ids != ascending:  # most keys have the same few ids, in order
                queue_ids, offsets = _in_order(queue_ids, offsets)
                ascending = queue_ids
        else:
            try:
                queue_ids, offsets = _from_object(row, key)
            except MalformedBytes as error:
                if has_lists:
                    raise
                table.unreadable[key] = str(error)
                queue_ids, offsets = [], []
        table.queue_ids.extend(array(INT32, queue_ids))  # in one piece: a third quicker than a list
        table.offsets.extend(array(INT64, offsets))
        table.starts.append(len(table.offsets))
    return table


def _in_order(queue_ids: list[int], offsets: list[int]) -> tuple[list[int], list[int]]:
    by_queue_id = dict(zip(queue_ids, offsets, strict=True))
    if len(by_queue_id) < len(queue_ids):
        raise MalformedBytes("body: a queue id comes twice")
    in_order = sorted(by_queue_id)
    return in_order, [by_queue_id[queue_id] for queue_id in in_order]


def _from_object(row: object, key: str) -> tuple[list[int], list[int]]:
    by_queue_id = {int_key(queue_id, "queue id"): offset for queue_id, offset in as_object(row, key).items()}
    queue_ids = sorted(by_queue_id)
    return queue_ids, [as_int64(by_queue_id[queue_id], key) for queue_id in queue_ids]
