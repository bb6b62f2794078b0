"""Offsets as columns read like a dictionary, and come out as columns again."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.sources.rocketmq.offset_table import KeyedOffsets, OffsetTable, by_topic_and_group

PAIRS = st.tuples(st.sampled_from("stu"), st.sampled_from("ghi"))
TABLES = st.dictionaries(PAIRS, st.dictionaries(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), max_size=4))


def keyed(table: dict[str, dict[int, int]]) -> KeyedOffsets:
    made = KeyedOffsets(list(table), array("i", [0]), array("i"), array("q"))
    for by_queue_id in table.values():
        for queue_id in sorted(by_queue_id):
            made.queue_ids.append(queue_id)
            made.offsets.append(by_queue_id[queue_id])
        made.starts.append(len(made.offsets))
    return made


@given(TABLES, TABLES)
def test_a_table_equals_the_dictionary_of_its_offsets(
    committed: dict[tuple[str, str], dict[int, int]], broadcast: dict[tuple[str, str], dict[int, int]]
) -> None:
    keys = {f"{topic}@{group}": row for (topic, group), row in committed.items()}
    keys["%RETRY%nobody"] = {0: 1}
    keys |= {f"{topic}@{group}@broadcast": row for (topic, group), row in broadcast.items()}

    read, read_broadcast, unreadable = by_topic_and_group(keyed(keys))

    assert read == committed
    assert read_broadcast == broadcast
    assert unreadable == ("%RETRY%nobody",)


@given(TABLES, st.sampled_from("stu"))
def test_columns_hold_every_offset_of_the_wanted_pairs_once(
    table: dict[tuple[str, str], dict[int, int]], unwanted: str
) -> None:
    read, _, _ = by_topic_and_group(keyed({f"{topic}@{group}": row for (topic, group), row in table.items()}))
    columns = read.columns(lambda topic, _: topic != unwanted)

    rows = zip(columns.topic_index, columns.group_index, columns.queue_ids, columns.offsets, strict=True)
    assert [
        (columns.topics[topic], columns.groups[group], queue_id, offset) for topic, group, queue_id, offset in rows
    ] == [
        (topic, group, queue_id, row[queue_id])
        for (topic, group), row in table.items()
        if topic != unwanted
        for queue_id in sorted(row)
    ]
    assert len(read.columns().offsets) == read.row_count == sum(map(len, table.values()))


def test_a_pair_that_never_committed_is_not_there() -> None:
    table, _, _ = by_topic_and_group(keyed({"t@g": {0: 5}}))
    assert ("t", "h") not in table
    assert table.get(("t", "h")) is None
    with pytest.raises(KeyError):
        table.queues(("t", "h"))


def test_an_offset_costs_twelve_bytes() -> None:
    table = OffsetTable([("t", "g")], array("i", [0, 1000]), array("i", range(1000)), array("q", range(1000)))
    assert sum(len(column) * column.itemsize for column in table.queues(("t", "g"))) == 12_000


def test_a_large_table_is_not_shown_in_full() -> None:
    table = OffsetTable([("t", "g")], array("i", [0, 1000]), array("i", range(1000)), array("q", range(1000)))
    assert repr(table) == "<OffsetTable of 1000 offsets>"
