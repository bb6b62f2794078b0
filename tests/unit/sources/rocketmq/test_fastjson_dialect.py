"""fastjson's JSON, strict JSON, and what is neither."""

import contextlib
import json
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import MalformedBytes, message_queue_key

QUEUE = '{"brokerName":"broker-a","queueId":1,"topic":"T1"}'

CASES: list[tuple[str, Any, str]] = [
    ('{"a":{"0":1}}', {"a": {"0": 1}}, "strict JSON"),
    ("{0:1,1:3}", {"0": 1, "1": 3}, "numbers as keys"),
    ("{-1:1, 2 : 3}", {"-1": 1, "2": 3}, "negative numbers and blanks"),
    ("{1.5:1,null:2,true:3}", {"1.5": 1, "null": 2, "true": 3}, "other bare keys that fastjson can write"),
    (f'{{{QUEUE}:{{"maxOffset":3}}}}', {QUEUE: {"maxOffset": 3}}, "objects as keys"),
    (f"{{{QUEUE}:1,{QUEUE.replace('1', '2')}:2}}", {QUEUE: 1, QUEUE.replace("1", "2"): 2}, "several of them"),
    (
        '{"list":[{"a":{0:1}},{"b":2}],"n":[1,2]}',
        {"list": [{"a": {"0": 1}}, {"b": 2}], "n": [1, 2]},
        "lists of objects",
    ),
    ('{"x":{0:"{1:2}"},"y":",3:"}', {"x": {"0": "{1:2}"}, "y": ",3:"}, "strings that look like keys"),
    ('{"{":{0:1},"}:":{1:"}:{"}}', {"{": {"0": 1}, "}:": {"1": "}:{"}}, "braces in strings"),
    (r'{0:"a\"{1:",1:"\\"}', {"0": 'a"{1:', "1": "\\"}, "escaped quotes and backslashes"),
    ('{{"t":"a}b{c\\"d"}:1}', {'{"t":"a}b{c\\"d"}': 1}, "braces and quotes in a key object"),
    ("{0:123456789012345678901234567890}", {"0": 123456789012345678901234567890}, "numbers beyond 64 bits"),
    (
        '{0:"\\ud83d\\ude00",1:"\\ud800",2:"\\\\ud800"}',
        {"0": "😀", "1": "\ufffd", "2": "\\ud800"},
        "halves of surrogates",
    ),
    ("{0:NaN}", {"0": None}, "no number"),
    ("[]", [], "no object at all"),
]


@pytest.mark.parametrize(("text", "document", "why"), CASES)
def test_bodies_are_read(text: str, document: Any, why: str) -> None:
    assert fastjson.decode(text.encode()) == document, why


def test_a_key_object_is_a_message_queue() -> None:
    (key,) = fastjson.decode(f"{{{QUEUE}:1}}".encode())
    assert message_queue_key(key) == MessageQueue("T1", "broker-a", 1)


def test_names_that_are_not_utf_8_stay_readable_and_different() -> None:
    document = fastjson.decode(b'{"a\xff":{0:1},"a\xfe":{0:2}}')
    assert document == {"a\ufffdff": {"0": 1}, "a\ufffdfe": {"0": 2}}
    json.dumps(document, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{0:1",
        b'{"a":"unterminated',
        b"{0:1}}",
        b"{{0:1}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{" * 100_000,
        b"[[]," * 65 + b"1" + b"]" * 65,
        b"{0:" + b"9" * 5000 + b"}",
        b" " * (fastjson.MAX_DOCUMENT_BYTES + 1),
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBytes):
        fastjson.decode(body)


@pytest.mark.parametrize(
    "key", ["", "T1", "{}", "[" * 100_000, QUEUE.replace('"T1"', "1"), QUEUE.replace("1,", "true,")], ids=repr
)
def test_what_is_no_message_queue_is_malformed(key: str) -> None:
    with pytest.raises(MalformedBytes):
        message_queue_key(key)


@pytest.mark.parametrize(
    "unit", [*rb'"\ "\" { {a {" {"a" {0: ,1:" }: [ \ud "{ {0 - {-e'.split(), b"{1 "], ids=lambda unit: unit.decode()
)
def test_nasty_repetitions_cost_linear_time(unit: bytes) -> None:
    """Each of these makes some regular expressions quadratic: 300 kB would then take many minutes."""
    body = unit * (300_000 // len(unit))
    started = time.process_time()
    for prefix in (b"", b"{0:1,", b'{0:"'):
        with contextlib.suppress(MalformedBytes):
            fastjson.decode(prefix + body)
    assert time.process_time() - started < 10


names = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | names | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_fastjson(table: dict[Any, Any]) -> str:
    """Write a map as fastjson does: numbers bare, beans as objects."""
    return "{" + ",".join(f"{key}:{to_json(value)}" for key, value in table.items()) + "}"


@given(values)
def test_strict_json_is_read_as_it_is(value: Any) -> None:
    assert fastjson.decode(json.dumps(value).encode()) == value


@given(
    st.dictionaries(st.builds(MessageQueue, names, names, st.integers(0, 99)), values, max_size=5),
    st.dictionaries(st.integers(-(2**31), 2**31 - 1), values, max_size=5),
)
def test_any_map_with_objects_or_numbers_as_keys_is_read(by_queue, by_number):
    beans = {to_json({"brokerName": one[1], "queueId": one[2], "topic": one[0]}): by_queue[one] for one in by_queue}
    document = fastjson.decode(f"[{as_fastjson(beans)},{as_fastjson(by_number)}]".encode())
    assert {message_queue_key(key): value for key, value in document[0].items()} == by_queue
    assert document[1] == {str(key): value for key, value in by_number.items()}


def test_81_000_offsets_are_read_well_within_a_second() -> None:
    tables = (
        f'"TP_order_event_{n % 200:03}@GID_svc_order_{n:04}":{as_fastjson({q: n * q for q in range(16)})}'
        for n in range(5100)
    )
    body = ('{"offsetTable":{' + ",".join(tables) + "}}").encode()
    started = time.process_time()
    document = fastjson.decode(body)
    assert time.process_time() - started < 5
    assert sum(map(len, document["offsetTable"].values())) == 81_600


@given(
    depth=st.integers(1, 80),
    opening=st.sampled_from(["[", '{"a":', '["[",', '["]",{"b":[]},']),
    filling=st.sampled_from(['"["', '"}"', '"\\""', "{}", "[[]]", '{0:"["}', "1"]),
)
def test_only_what_is_nested_too_deeply_is_refused(depth: int, opening: str, filling: str) -> None:
    """Brackets in strings count for nothing, and neither reader of the depth is mistaken."""
    body = (opening * depth + filling + ("}" if opening[0] == "{" else "]") * depth).encode()
    beyond = {"{}": 1, "[[]]": 2, '{0:"["}': 1}.get(filling, 0)
    deepest = depth + (max(beyond, 2) if "[]" in opening else beyond)
    if deepest > fastjson.MAX_DEPTH:
        with pytest.raises(MalformedBytes):
            fastjson.decode(body)
    else:
        fastjson.decode(body)


HOSTILE = {
    "no text at all": "b'\\xff' * N",
    "hardly any text": "b'\"' + b'\\xff\\xc3' * (N // 2 - 1) + b'\"'",
    "a million empty objects and more": "b'[' + b'{},' * (N // 3 - 1) + b'{}]'",
    "as many empty lists": "b'[' + b'[],' * (N // 3 - 1) + b'[]]'",
    "keys that are objects": "b'{' + b'{\"a\":1}:1,' * (N // 10 - 2) + b'{}:1}'",
    "keys that are numbers": "b'{' + b'1:2,' * (N // 4 - 2) + b'1:2}'",
    "as many as may be": "b'{' + b'12345:2,' * 1_999_999 + b'1:2}'",
    "short names": "b'[' + b'\"ab\",' * (N // 5 - 1) + b'1]'",
    "a string without an end": "b'\"' + b'a' * (N - 1)",
}
READ = """
import re
from offsetguard.sources.rocketmq import fastjson
N = 16 * 1024 * 1024
body = {body}
try:
    fastjson.decode(body)
    print("read")
except fastjson.MalformedBytes as error:
    print("refused", len(str(error)))
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)  # ru_maxrss is the parent's
"""


@pytest.mark.slow
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_body_of_16_mib_takes_a_bounded_memory_whatever_it_is(body: str) -> None:
    """16 MiB of 0xFF took 8.6 GiB once. What is refused is said in a line."""
    program = [sys.executable, "-c", READ.format(body=body)]
    said, peak_mib = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    assert int(peak_mib) < 400, "a small multiple of its size"
    assert said == "read" or int(said.removeprefix("refused ")) < 200
