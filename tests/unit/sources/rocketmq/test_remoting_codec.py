"""Frames, headers and the connection: both directions from one list, however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.sources.rocketmq.codes import SerializeType, version_name
from offsetguard.sources.rocketmq.connection import (
    MAX_FRAME_BYTES,
    Broken,
    Closed,
    Connection,
    Frame,
    FrameReader,
    encode_frame,
)
from offsetguard.sources.rocketmq.header import RemotingCommand, decode_header, encode_header
from offsetguard.sources.rocketmq.json_fields import MalformedBytes

# (serialize type, header on the wire, the command that it is)
HEADERS = [
    (
        SerializeType.JSON,
        b'{"code":208,"language":"PYTHON","version":401,"opaque":7,"flag":0,"remark":null,'
        b'"extFields":{"consumerGroup":"G1","topic":"T1"}}',
        RemotingCommand(208, 7, ext_fields={"consumerGroup": "G1", "topic": "T1"}),
    ),
    (
        SerializeType.JSON,
        '{"code":1,"language":"JAVA","version":409,"opaque":-5,"flag":1,"remark":"größer\\n\\"","extFields":{}}'.encode(),
        RemotingCommand(1, -5, flag=1, remark='größer\n"', language="JAVA", version=409),
    ),
    (
        SerializeType.ROCKETMQ,
        bytes.fromhex("0000 00 0199 00000009 00000001 00000005")
        + b"FOUND"
        + bytes.fromhex("0000000d 0005")
        + b"topic"
        + bytes.fromhex("00000002")
        + b"T1",
        RemotingCommand(0, 9, flag=1, remark="FOUND", ext_fields={"topic": "T1"}, language="JAVA", version=409),
    ),
    (
        SerializeType.ROCKETMQ,
        bytes.fromhex("00d0 03 0191 00000007 00000000 00000000 00000000"),
        RemotingCommand(208, 7),
    ),
]

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
int32 = st.integers(-(2**31), 2**31 - 1)
commands = st.builds(
    RemotingCommand,
    code=st.integers(0, 0x7FFF),
    opaque=int32,
    flag=st.integers(0, 3),
    remark=st.none() | texts.filter(bool),  # the compact form cannot tell "" from null
    ext_fields=st.dictionaries(texts, texts, max_size=5),
    language=st.sampled_from(["JAVA", "PYTHON", "GO"]),
    version=st.integers(0, 0x7FFF),
)


@pytest.mark.parametrize(("serialize_type", "wire", "command"), HEADERS)
def test_headers_are_what_rocketmq_writes(serialize_type: SerializeType, wire: bytes, command: RemotingCommand) -> None:
    assert encode_header(command, serialize_type) == wire
    assert decode_header(serialize_type, wire) == command


@given(command=commands, serialize_type=st.sampled_from(SerializeType))
def test_a_header_survives_both_directions(command: RemotingCommand, serialize_type: SerializeType) -> None:
    assert decode_header(serialize_type, encode_header(command, serialize_type)) == command


def test_an_answer_with_unknown_fields_missing_fields_and_no_texts_is_read() -> None:
    header = (
        b'{"code":0,"extFields":{"offset":3,"force":true,"none":null},"flag":1,"opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","new":{"a":[1]}}'
    )
    assert decode_header(SerializeType.JSON, header) == RemotingCommand(
        0, 7, flag=1, ext_fields={"offset": "3", "force": "true"}, language="OTHER", version=0
    )
    unknown_language = bytes.fromhex("0000 63 0199 00000009 00000001 00000000 00000000")
    assert decode_header(SerializeType.ROCKETMQ, unknown_language).language == "OTHER"


def test_codes_above_32767_need_json() -> None:
    with pytest.raises(ValueError, match="200050"):
        encode_header(RemotingCommand(200050, 1), SerializeType.ROCKETMQ)


@pytest.mark.parametrize(
    ("serialize_type", "wire"),
    [
        (SerializeType.JSON, b""),
        (SerializeType.JSON, b"{}"),
        (SerializeType.JSON, b'{"code":"0","opaque":1}'),
        (SerializeType.JSON, b'{"code":true,"opaque":1}'),
        (SerializeType.JSON, b'{"code":0,"opaque":99999999999}'),
        (SerializeType.JSON, b'{"code":0,"opaque":1,"extFields":[]}x'),
        (SerializeType.JSON, b'{"code":0,"opaque":1,"extFields":[1]}'),
        (SerializeType.ROCKETMQ, b""),
        (SerializeType.ROCKETMQ, bytes.fromhex("0000 00 0199 00000009 00000001 000000ff") + b"cut"),
        (SerializeType.ROCKETMQ, bytes.fromhex("0000 00 0199 00000009 00000001 fffffffc")),
        (7, b"{}"),
    ],
)
def test_a_header_that_is_none_is_malformed(serialize_type: int, wire: bytes) -> None:
    with pytest.raises(MalformedBytes):
        decode_header(serialize_type, wire)


FRAMES = [
    (bytes.fromhex("00000006 00000002") + b"{}", Frame(0, b"{}", b"")),
    (bytes.fromhex("00000009 01000002") + b"{}abc", Frame(1, b"{}", b"abc")),
    (bytes.fromhex("00000004 00000000"), Frame(0, b"", b"")),
]
frames = st.builds(Frame, st.integers(0, 1), st.binary(max_size=50), st.binary(max_size=200))


def read_all(reader: FrameReader) -> list[Frame]:
    return list(iter(reader.next_frame, None))


@pytest.mark.parametrize(("wire", "frame"), FRAMES)
def test_a_frame_comes_with_its_last_byte_and_not_before(wire: bytes, frame: Frame) -> None:
    assert encode_frame(frame) == wire
    reader = FrameReader()
    for index, byte in enumerate(wire):
        assert reader.next_frame() is None
        reader.feed(bytes([byte]))
        assert reader.missing_bytes is not None
        assert reader.missing_bytes <= len(wire) - index - 1
    assert reader.next_frame() == frame
    assert reader.missing_bytes is None


@given(sent=st.lists(frames, max_size=5), trailing=st.binary(max_size=3), cuts=st.lists(st.integers(1, 60), min_size=1))
def test_frames_come_whole_and_in_order_however_they_are_cut(sent, trailing, cuts):
    wire = b"".join(map(encode_frame, sent)) + trailing
    reader = FrameReader()
    received: list[Frame] = []
    sizes = itertools.cycle(cuts)
    while wire:
        size = next(sizes)
        reader.feed(wire[:size])
        wire = wire[size:]
        received += read_all(reader)
    assert received == sent
    assert (reader.missing_bytes is not None) == bool(trailing)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(bytes.fromhex("00000003"), id="shorter than its own header word"),
        pytest.param(bytes.fromhex("ffffffff"), id="a negative length"),
        pytest.param(bytes.fromhex("00fffffd"), id="16 MiB and one byte, with the length itself"),
        pytest.param(bytes.fromhex("16030100"), id="TLS"),
        pytest.param(b"HTTP", id="HTTP"),
        pytest.param(bytes.fromhex("00000006 00000003") + b"{}", id="a header longer than the frame"),
        pytest.param(bytes.fromhex("00f00000 00e00000") + bytes(0xF00000 - 4), id="a header of 14 MiB"),
    ],
)
def test_a_frame_that_cannot_be_is_malformed(wire: bytes) -> None:
    reader = FrameReader()
    reader.feed(wire)
    with pytest.raises(MalformedBytes):
        reader.next_frame()


def test_the_largest_frame_passes() -> None:
    largest = Frame(0, b"{}", bytes(MAX_FRAME_BYTES - 10))
    reader = FrameReader()
    reader.feed(encode_frame(largest))
    assert reader.next_frame() == largest
    with pytest.raises(ValueError, match="limit"):
        encode_frame(Frame(0, b"{}", bytes(MAX_FRAME_BYTES - 9)))


def test_requests_with_fields_have_compact_headers_and_others_tell_that_they_have_none() -> None:
    connection = Connection()
    for fields, form in (({"consumerGroup": "billing"}, SerializeType.ROCKETMQ), ({}, SerializeType.JSON)):
        opaque, data = connection.request(203, fields)
        reader = FrameReader()
        reader.feed(data)
        frame = reader.next_frame()
        assert frame is not None
        assert frame.serialize_type == form
        assert decode_header(frame.serialize_type, frame.header) == RemotingCommand(203, opaque, ext_fields=fields)


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_any_bytes_give_events_and_after_broken_nothing(chunks: list[bytes]) -> None:
    connection = Connection()
    connection.request(28, {})
    events = [event for chunk in chunks for event in connection.receive(chunk)]
    ends = [index for index, event in enumerate(events) if isinstance(event, Broken | Closed)]
    assert ends in ([], [len(events) - 1])


@given(st.tuples(*[st.one_of(st.integers(0, 2**31 - 1), st.integers(0, 10**11))] * 4), st.sampled_from(["JAVA", "GO"]))
def test_the_usual_answer_is_read_at_once_as_any_other_is(numbers, language):
    code, flag, opaque, version = numbers
    usual = (
        f'{{"code":{code},"flag":{flag},"language":"{language}","opaque":{opaque},'
        f'"serializeTypeCurrentRPC":"JSON","version":{version}}}'
    )
    if max(numbers) >= 2**31:
        with pytest.raises(MalformedBytes, match="32-bit"):
            decode_header(SerializeType.JSON, usual.encode())
    else:
        read = decode_header(SerializeType.JSON, usual.encode(), b"body")
        assert read == decode_header(SerializeType.JSON, f" {usual}".encode(), b"body")
        assert (read.code, read.flag, read.opaque, read.version) == numbers


def test_an_ordinal_has_the_name_that_live_brokers_and_clients_give_it() -> None:
    released = {213: "4.0.0", 399: "4.9.3", 401: "4.9.4", 409: "4.9.8", 413: "5.0.0", 479: "5.3.3", 515: "5.5.1"}
    others = {412: "5.0.0-SNAPSHOT", 31: "31", -1: "-1"}
    assert {ordinal: version_name(ordinal) for ordinal in released | others} == released | others
