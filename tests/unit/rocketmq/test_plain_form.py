"""The quick readers of brokers' own text agree with the general reader, or leave the body to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.bodies import ConsumeOffsets, TopicOffsets
from offsetguard.sources.rocketmq.body_decoders import (
    OFFSET_TABLES,
    all_consumer_offsets,
    consumer_connections,
    topic_stats,
)
from offsetguard.sources.rocketmq.detail_decoders import consumer_running_info
from offsetguard.sources.rocketmq.json_fields import (
    MalformedBytes,
    int_field,
    int_key,
    message_queue_key,
    optional_int_field,
    timestamp_field,
)
from offsetguard.sources.rocketmq.offset_table import KeyedOffsets
from offsetguard.sources.rocketmq.plain_connections import plain_consumer_connections
from offsetguard.sources.rocketmq.plain_form import plain_consume_stats, plain_offset_tables, plain_topic_stats
from offsetguard.sources.rocketmq.plain_process_queues import plain_process_queues

BODIES = Path(__file__).parent / "bodies"

# what could make the two disagree: signs of the format in names, numbers at the edges, whatever lies around
NAMES = st.one_of(
    st.sampled_from(["orders", "%RETRY%billing", "offsetTable", "", "@", "}}", "a:{0:1},b", "名", "\u2028", "x\\"]),
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


def as_dict(table: KeyedOffsets) -> dict[str, dict[int, int]]:
    ends = zip(table.keys, table.starts, table.starts[1:], strict=False)
    return {
        key: dict(zip(table.queue_ids[start:end], table.offsets[start:end], strict=True)) for key, start, end in ends
    }


def read_generally(body: bytes, name: str) -> dict[str, dict[int, int]]:
    table = fastjson.decode_object(body).get(name) or {}
    return {key: {int_key(queue_id, ""): offset for queue_id, offset in row.items()} for key, row in table.items()}


@given(
    rows=st.lists(st.tuples(NAMES, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4)), max_size=4),
    around=AROUND,
    edits=EDITS,
)
@example(rows=[("t@g", [(0, 1), (0, 2)])], around=("", ""), edits=[])
@example(rows=[("t@g", [(1, 1), (0, 2)]), ("t@g", [])], around=("", ""), edits=[])
@example(rows=[("t@g", [(2, 7), (0, 5)])], around=("", ""), edits=[])
def test_offsets_that_are_read_quickly_are_the_same_as_read_generally(
    rows: list[tuple[str, list[tuple[int, int]]]], around: tuple[str, str], edits: list[tuple[float, int, str]]
) -> None:
    entries = (f"{written(key)}:{{{','.join(f'{a}:{b}' for a, b in numbers)}}}" for key, numbers in rows)
    body = edited(f'{{{around[0]}"offsetTable":{{{",".join(entries)}}}{around[1]}}}', edits)
    try:
        tables = plain_offset_tables(body, OFFSET_TABLES)
    except MalformedBytes:
        with pytest.raises(MalformedBytes):
            fastjson.decode(body)
        return
    for name, table in (tables or {}).items():
        assert as_dict(table) == read_generally(body, name)
        assert all(
            list(table.queue_ids[start:end]) == sorted(table.queue_ids[start:end])
            for start, end in zip(table.starts, table.starts[1:], strict=False)
        )


@given(
    names=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=2),
    rows=st.lists(st.tuples(st.integers(0, 1), NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=4),
    end=st.sampled_from(["", ',"topicPutTps":0.0', ',"topicPutTps":1.6E-4', ',"topicPutTps":"x"', ',"offsetTable":{}']),
    edits=EDITS,
)
def test_queue_ends_that_are_read_quickly_are_the_same_as_read_generally(
    names: list[tuple[str, str]],
    rows: list[tuple[int, int, int, int, int]],
    end: str,
    edits: list[tuple[float, int, str]],
) -> None:
    entries = []
    for which, queue_id, low, high, updated in rows:
        broker_name, topic = names[which % len(names)]
        key = f'{{"brokerName":{written(broker_name)},"queueId":{queue_id},"topic":{written(topic)}}}'
        entries.append(f'{key}:{{"lastUpdateTimestamp":{updated},"maxOffset":{high},"minOffset":{low}}}')
    body = edited(f'{{"offsetTable":{{{",".join(entries)}}}{end}}}', edits)
    stats = plain_topic_stats(body)
    if stats is None:
        return
    assert stats.queues == {
        message_queue_key(key): TopicOffsets(
            row["minOffset"], row["maxOffset"], timestamp_field(row, "lastUpdateTimestamp")
        )
        for key, row in fastjson.decode_object(body)["offsetTable"].items()
    }
    assert list(stats.queue_ids) == sorted(stats.queue_ids)


@given(
    names=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=2),
    rows=st.lists(st.tuples(st.integers(0, 1), NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.none() | NUMBERS), max_size=4),
    start=st.sampled_from(['"consumeTps":0.0,', '"consumeTps":12.75,', "", '"consumeTps":1.0E-4,', '"x":{},']),
    edits=EDITS,
)
@example(names=[("b", "t")], rows=[(0, 1, 2, 3, 4, 5), (0, 2, 2, 3, 4, None)], start='"consumeTps":1.5,', edits=[])
@example(names=[("b", "t")], rows=[(0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, None)], start='"consumeTps":1.5,', edits=[])
def test_consume_stats_that_are_read_quickly_are_the_same_as_read_generally(
    names: list[tuple[str, str]],
    rows: list[tuple[int, int, int, int, int, int | None]],
    start: str,
    edits: list[tuple[float, int, str]],
) -> None:
    entries = []
    for which, queue_id, broker_offset, consumer_offset, last, pull in rows:
        broker_name, topic = names[which % len(names)]
        key = f'{{"brokerName":{written(broker_name)},"queueId":{queue_id},"topic":{written(topic)}}}'
        more = "" if pull is None else f',"pullOffset":{pull}'
        figures = f'"brokerOffset":{broker_offset},"consumerOffset":{consumer_offset},"lastTimestamp":{last}{more}'
        entries.append(f"{key}:{{{figures}}}")
    body = edited(f'{{{start}"offsetTable":{{{",".join(entries)}}}}}', edits)
    stats = plain_consume_stats(body)
    if stats is None:
        return
    document = fastjson.decode_object(body)
    assert stats.consume_tps == document["consumeTps"]
    assert stats.queues == {
        message_queue_key(key): ConsumeOffsets(
            int_field(row, "brokerOffset"),
            int_field(row, "consumerOffset"),
            optional_int_field(row, "pullOffset"),
            timestamp_field(row, "lastTimestamp"),
        )
        for key, row in document["offsetTable"].items()
    }


@pytest.mark.parametrize("file", sorted(BODIES.glob("208_*")), ids=lambda file: file.name)
def test_what_brokers_write_as_consume_stats_is_read_quickly(file: Path) -> None:
    assert plain_consume_stats(file.read_bytes()) is not None


@pytest.mark.parametrize("file", sorted(BODIES.glob("43_*")), ids=lambda file: file.name)
def test_what_brokers_write_as_offsets_is_read_quickly(file: Path) -> None:
    tables = plain_offset_tables(file.read_bytes(), OFFSET_TABLES)
    assert tables is not None
    assert tables["offsetTable"].keys


@pytest.mark.parametrize("file", sorted(BODIES.glob("202_*")), ids=lambda file: file.name)
def test_what_brokers_write_as_queue_ends_is_read_quickly(file: Path) -> None:
    assert plain_topic_stats(file.read_bytes()) is not None


def test_more_keys_than_are_read_at_once_keep_their_order() -> None:
    keys = [f"t{number}@g" for number in range(10_000)]
    entries = ",".join(f'"{key}":{{0:{number}}}' for number, key in enumerate(keys))
    table = all_consumer_offsets(f'{{"offsetTable":{{{entries}}}}}'.encode()).offsets
    assert [table[f"t{number}", "g"][0] for number in range(10_000)] == list(range(10_000))


@pytest.mark.parametrize(
    "row", ["5", "0:7,", ",0:7", "0:7,1", "0,7", "0:7:1", "0::7", "0:", ":7", "0:07", "0:-", "0:7-", ","]
)
def test_what_is_not_pairs_of_numbers_is_left_to_the_general_reader(row: str) -> None:
    assert plain_offset_tables(f'{{"offsetTable":{{"t@g":{{{row}}}}}}}'.encode(), OFFSET_TABLES) is None
    around = f'"a@g":{{0:1}},"t@g":{{{row}}},"z@g":{{2:3}}'
    assert plain_offset_tables(f'{{"offsetTable":{{{around}}}}}'.encode(), OFFSET_TABLES) is None


QUICK_READERS: dict[str, Callable[[bytes], object]] = {
    "43": lambda body: plain_offset_tables(body, OFFSET_TABLES),
    "202": plain_topic_stats,
    "203": plain_consumer_connections,
    "208": plain_consume_stats,
    "307": plain_process_queues,
}


@pytest.mark.parametrize("sign", [b";", b"{", b" ", b"", b",,"])
@pytest.mark.parametrize("code", QUICK_READERS)
def test_entries_with_another_sign_between_them_than_a_comma_are_left_to_the_general_reader(
    code: str, sign: bytes
) -> None:
    bodies = [file.read_bytes() for file in BODIES.glob(f"{code}_*")]
    commas = [(body, comma) for body in bodies for comma in re.finditer(rb"(?<=\}),(?=[{\"])", body)]
    broken = [body[: comma.start()] + sign + body[comma.end() :] for body, comma in commas]
    assert broken
    for body in broken:
        with suppress(MalformedBytes):  # what stands around the table of 43 is read generally
            assert QUICK_READERS[code](body) is None


@pytest.mark.parametrize(
    ("codes", "tags"), [("1,", ""), (",", ""), ("1,-", ""), ("", '"a",'), ("", '"a""b"'), ("", '"a'), ("", ",")]
)
def test_lists_that_break_off_are_left_to_the_general_reader(codes: str, tags: str) -> None:
    """Python before 3.11.5 keeps half of a group that fails in a possessive repetition (CPython's issue 106052)."""
    body = (
        '{"connectionSet":[{"clientAddr":"a","clientId":"a","language":"JAVA","version":1}],"consumeFromWhere":"X",'
        '"consumeType":"X","messageModel":"X","subscriptionTable":{"t":{"classFilterMode":false,'
        f'"codeSet":[{codes}],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[{tags}],"topic":"t"}}}}}}'
    )
    assert plain_consumer_connections(body.encode()) is None
    assert plain_consumer_connections(body.replace(f"[{codes}]", "[]").replace(f"[{tags}]", "[]").encode()) is not None


def test_the_queues_of_several_topics_in_one_body_are_left_to_the_general_reader() -> None:
    row = '{"lastUpdateTimestamp":0,"maxOffset":2,"minOffset":1}'
    keys = [f'{{"brokerName":"b","queueId":0,"topic":"{topic}"}}' for topic in "ts"]
    body = f'{{"offsetTable":{{{",".join(f"{key}:{row}" for key in keys)}}}}}'.encode()
    assert plain_topic_stats(body) is None
    assert topic_stats(body).queues == {MessageQueue(topic, "b", 0): TopicOffsets(1, 2, None) for topic in "ts"}


@given(
    clients=st.lists(st.tuples(NAMES, NAMES, NAMES, NUMBERS), max_size=2),
    subscribed=st.lists(
        st.tuples(NAMES, st.lists(NUMBERS, max_size=2), NAMES, NAMES, NUMBERS, st.lists(NAMES, max_size=2)), max_size=3
    ),
    model=NAMES,
    edits=EDITS,
)
@example(clients=[("a:1", "a@1", "JAVA", 407)], subscribed=[("t", [], "TAG", "*", 1, [])], model="CLUSTERING", edits=[])
@example(clients=[("", "a", "", 1)] * 2, subscribed=[("t", [3, -1], "TAG", "a", 1, ["a", "b"])], model="", edits=[])
@example(clients=[("a", "a", "GO", 1)], subscribed=[("t", [], "TAG", "*", 1, [])] * 2, model="CLUSTERING", edits=[])
@example(clients=[("a", "a", "GO", 2**63)], subscribed=[("t", [], "", "", 2**63, [])], model="", edits=[])
def test_connections_that_are_read_quickly_are_the_same_as_read_generally(
    clients: list[tuple[str, str, str, int]],
    subscribed: list[tuple[str, list[int], str, str, int, list[str]]],
    model: str,
    edits: list[tuple[float, int, str]],
) -> None:
    listed = ",".join(
        f'{{"clientAddr":{written(address)},"clientId":{written(client)},"language":{written(language)},'
        f'"version":{version}}}'
        for address, client, language, version in clients
    )
    table = ",".join(
        f'{written(topic)}:{{"classFilterMode":false,"codeSet":[{",".join(map(str, codes))}],"expressionType":'
        f'{written(kind)},"subString":{written(expression)},"subVersion":{version},"tagsSet":'
        f'[{",".join(map(written, tags))}],"topic":{written(topic)}}}'
        for topic, codes, kind, expression, version, tags in subscribed
    )
    body = edited(
        f'{{"connectionSet":[{listed}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"X",'
        f'"messageModel":{written(model)},"subscriptionTable":{{{table}}}}}',
        edits,
    )
    quick = plain_consumer_connections(body)
    if quick is not None:
        assert quick == consumer_connections(b" " + body), "a space before it leaves it to the general reader"


@pytest.mark.parametrize("file", sorted(BODIES.glob("203_*")), ids=lambda file: str(file.name))
def test_connections_of_real_brokers_are_read_quickly(file: Path) -> None:
    assert plain_consumer_connections(file.read_bytes()) is not None


@given(
    names=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=2),
    rows=st.lists(st.tuples(st.integers(0, 1), st.lists(NUMBERS, min_size=12, max_size=12), st.booleans()), max_size=3),
    around=st.sampled_from(
        [("", ""), ('"mqPopTable":{},', ',"properties":{"a":"b"}'), ('"x":{', "}"), ("", ',"mqTable":{}'), ("", "]")]
    ),
    edits=EDITS,
)
@example(names=[("b", "t")], rows=[(0, [1, 2, 7, 0, -1, 5, 6, 7, 0, 0, 0, 0], True)], around=("", ""), edits=[])
@example(names=[("b", "t")], rows=[(0, [1, 0, 7, 0, 9, 0, -6, 7, 2**63, 0, 0, 0], True)], around=("", ""), edits=[])
@example(names=[("b", "t")], rows=[(0, [1] * 12, False)] * 2, around=('"x":{', "}"), edits=[])
def test_queues_of_a_client_that_are_read_quickly_are_the_same_as_read_generally(
    names: list[tuple[str, str]],
    rows: list[tuple[int, list[int], bool]],
    around: tuple[str, str],
    edits: list[tuple[float, int, str]],
) -> None:
    entries = []
    for which, numbers, truth in rows:
        broker_name, topic = names[which % len(names)]
        queue_id, cached, low, high, mib, commit, consumed, locked, pulled, count, top, tries = numbers
        entries.append(
            f'{{"brokerName":{written(broker_name)},"queueId":{queue_id},"topic":{written(topic)}}}:{{"cachedMsgCount":'
            f'{cached},"cachedMsgMaxOffset":{high},"cachedMsgMinOffset":{low},"cachedMsgSizeInMiB":{mib},"commitOffset":'
            f'{commit},"droped":{str(truth).lower()},"lastConsumeTimestamp":{consumed},"lastLockTimestamp":{locked},'
            f'"lastPullTimestamp":{pulled},"locked":{str(not truth).lower()},"transactionMsgCount":{count},'
            f'"transactionMsgMaxOffset":{top},"transactionMsgMinOffset":0,"tryUnlockTimes":{tries}}}'
        )
    body = edited(f'{{{around[0]}"mqTable":{{{",".join(entries)}}}{around[1]}}}', edits)
    try:
        quick = plain_process_queues(body)
    except MalformedBytes:
        with pytest.raises(MalformedBytes):
            fastjson.decode_object(body)
        return
    if quick is not None:
        spaced = body.replace(b'"cachedMsgCount":', b'"cachedMsgCount": ')  # leaves it to the general reader
        assert consumer_running_info(body) == consumer_running_info(spaced)
        assert consumer_running_info(body).queues == quick[0]


JAVA_CLIENTS = [file for file in sorted(BODIES.glob("307_*")) if b'"mqTable":{}' not in file.read_bytes()]


@pytest.mark.parametrize("file", JAVA_CLIENTS, ids=lambda file: str(file.name))
def test_what_java_clients_write_of_their_queues_is_read_quickly(file: Path) -> None:
    assert plain_process_queues(file.read_bytes()) is not None
