"""Committed offsets are read quickly in brokers' own form, and then the same as by the general reader.

As columns they read like a dictionary.
"""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.offset_table import all_consumer_offsets
from offsetguard_peers.fuzz.targets import same_offsets_both_ways

# what could make the two disagree: signs of the format in names, numbers at the edges, whatever lies around
NAMES = st.one_of(
    st.sampled_from(
        ["orders", "%RETRY%billing", "offsetTable", "", "@", "}}", "a:{0:1},b", ":{0:1}", "名", "\u2028", "x\\"]
    ),
    st.text(max_size=6),
)
NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 10**18, 10**19, 253_402_300_800_000]),
)
AROUND = st.sampled_from(
    [
        ("", ""),
        ('"dataVersion":{"counter":1},"groupTopicMap":{"g":["t"]},', ""),
        ('"offsetTable":{},', ""),
        ('"x":{', "}"),
        ("", ',"offsetTable":{"a@b":{0:9}}'),
        ("", ',"x":{"a":[1]}'),
        ("", ',"pullOffsetTable":{"a@b":{1:9},"c@d":{}}'),
        ('"pullOffsetTable":{},', ',"future":{1:2}'),
        ('"\\u006fffsetTable":{},', ""),
        ("", "]"),
    ]
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from([*'{}[]",:\\-0123e. @\x00', "00", '"":{}'])),
    max_size=2,
)


def written(name: str) -> str:
    """Quote a name as fastjson does in the cases that matter here: quotes and backslashes are escaped."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def edited(text: str, edits: list[tuple[float, int, str]]) -> bytes:
    """Replace some signs at some places: what was plain is plain no more, or is something else."""
    for place, count, replacement in edits:
        start = int(place * len(text))
        text = text[:start] + replacement + text[start + count :]
    return text.encode(errors="surrogatepass")


@given(
    rows=st.lists(st.tuples(NAMES, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4)), max_size=4),
    around=AROUND,
    edits=EDITS,
)
@example(rows=[("t@g", [(0, 1), (0, 2)])], around=("", ""), edits=[])
@example(rows=[("t@g", [(1, 1), (0, 2)]), ("t@g", [])], around=("", ""), edits=[])
@example(rows=[("t@g", [(2, 7), (0, 5)])], around=("", ""), edits=[])
@example(rows=[(":{0:1}", [(2, 7)]), ("t@g", [(0, 5)])], around=("", ""), edits=[])
def test_offsets_that_are_read_quickly_are_the_same_as_read_generally(rows, around, edits):
    entries = (f"{written(key)}:{{{','.join(f'{a}:{b}' for a, b in numbers)}}}" for key, numbers in rows)
    body = edited(f'{{{around[0]}"offsetTable":{{{",".join(entries)}}}{around[1]}}}', edits)
    with suppress(MalformedBytes):
        same_offsets_both_ways(body)
        for queues in all_consumer_offsets(body).offsets.values():
            assert list(queues) == sorted(queues)


@pytest.mark.parametrize("row", ["5", "0:7,", ",0:7", "0:7,1", "0,7", "0:7:1", "0::7", "0:", ":7", "0:-", "0:7-", ","])
def test_what_is_not_pairs_of_numbers_is_refused(row: str) -> None:
    for around in (f'"t@g":{{{row}}}', f'"a@g":{{0:1}},"t@g":{{{row}}},"z@g":{{2:3}}'):
        with pytest.raises(MalformedBytes):
            all_consumer_offsets(f'{{"offsetTable":{{{around}}}}}'.encode())


@pytest.mark.parametrize("row", ["[]", "[0,7]", '["a"]', "[null,1]", "[[0,7]]", "-1", "true"])
def test_a_list_is_not_taken_for_offsets(row: str) -> None:
    read = all_consumer_offsets(f'{{"offsetTable":{{"t@g":{row},"z@g":{{2:3}}}}}}'.encode())
    assert "expected an object" in read.unreadable["t@g"]
    assert read.unreadable_pairs == {("t", "g")}
    assert read.offsets == {("t", "g"): {}, ("z", "g"): {2: 3}}


PAIRS = st.tuples(st.sampled_from("stu"), st.sampled_from("ghi"))
TABLES = st.dictionaries(PAIRS, st.dictionaries(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), max_size=4))


def body_of(table: dict[str, dict[int, int]]) -> bytes:
    rows = (f'"{key}":{{{",".join(f"{a}:{b}" for a, b in by_id.items())}}}' for key, by_id in table.items())
    return f'{{"offsetTable":{{{",".join(rows)}}}}}'.encode()


@given(TABLES, TABLES)
def test_a_table_equals_the_dictionary_of_its_offsets(committed, broadcast):
    keys = {f"{topic}@{group}": row for (topic, group), row in committed.items()}
    keys["%RETRY%nobody"] = {0: 1}
    keys |= {f"{topic}@{group}@broadcast": row for (topic, group), row in broadcast.items()}

    read = all_consumer_offsets(body_of(keys))

    assert read.offsets == committed
    assert read.broadcast_offsets == broadcast
    assert read.unreadable_keys == ("%RETRY%nobody",)


def test_a_pair_that_never_committed_is_not_there() -> None:
    table = all_consumer_offsets(body_of({"t@g": {0: 5}})).offsets
    assert ("t", "h") not in table
    assert table.get(("t", "h")) is None
    with pytest.raises(KeyError):
        table["t", "h"]
