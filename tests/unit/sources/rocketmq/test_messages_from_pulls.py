"""Messages as brokers send them: layouts v1 and v2, hosts of both kinds, and records that are damaged."""

import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.message import MAGIC_V1, MAGIC_V2, Message, decode_messages, decode_pull_result
from offsetguard_peers.scripted.messages import message_record as record


@pytest.mark.parametrize(
    "stored",
    [
        record(),
        record(topic=b"T" * 300, magic=MAGIC_V2),
        record(properties=b"KEYS\x01k1 k2\x02TAGS\x01tagA\x02"),
        record(sys_flag=0x10),
        record(sys_flag=0x20),
        record(sys_flag=0x30),
        record(crc=0),
    ],
    ids=["v1", "v2", "properties", "born by IPv6", "stored by IPv6", "both by IPv6", "no CRC"],
)
def test_offset_store_time_and_body_are_read(stored: bytes) -> None:
    messages, undecodable = decode_messages(stored)
    assert messages == [Message(7, datetime(2026, 11, 20, 22, 45, 30, 53000, UTC), b"hello")]
    assert undecodable == []


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (record(magic=0x12345678), "unknown magic 0x12345678"),
        (record(crc=1), "CRC"),
        (record(zlib.compress(b"hello" * 100), sys_flag=0x1), "compressed"),
        (record(b"short", sys_flag=0x40 | 0x80), "batch"),
        (record(stored_ms=2**60), "a time in ms"),
        (struct.pack(">ii", 20, MAGIC_V1) + bytes(12), "does not fit the record of 20"),
        (struct.pack(">ii", 90, MAGIC_V1) + record()[8:90], "body of 5 bytes does not fit the record of 90"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_record_is_kept_with_its_reason_and_its_neighbours_are_read(damaged: bytes, reason: str) -> None:
    messages, undecodable = decode_messages(record(b"before") + damaged + record(b"after"))
    assert [message.body for message in messages] == [b"before", b"after"]
    assert [item.raw for item in undecodable] == [damaged]
    assert reason in undecodable[0].reason


@pytest.mark.parametrize("total", [0, 7, -1, 10_000])
def test_after_a_wrong_size_the_rest_is_kept(total: int) -> None:
    rest = record(total=total) + record(b"after")
    messages, undecodable = decode_messages(record(b"before") + rest)
    assert [message.body for message in messages] == [b"before"]
    assert [item.raw for item in undecodable] == [rest]


@given(
    st.lists(st.binary(max_size=40), max_size=4).map(lambda bodies: b"".join(map(record, bodies))),
    st.data(),
    st.booleans(),
)
def test_no_byte_of_a_pull_body_is_lost_and_nothing_is_raised(data, draw, is_damaged):
    if is_damaged:
        position = draw.draw(st.integers(0, len(data)))
        data = data[:position] + draw.draw(st.binary(max_size=20)) + data[position + draw.draw(st.integers(0, 5)) :]
    messages, undecodable = decode_messages(data)
    if not is_damaged:
        assert undecodable == []
        assert b"".join(record(message.body) for message in messages) == data
    bodies, raws = [message.body for message in messages], [item.raw for item in undecodable]
    for one in records_in(data):  # each is kept as it is, or is a message
        if raws[:1] == [one]:
            raws.pop(0)
        else:
            assert bodies.pop(0) in one
    assert bodies == raws == []


def records_in(data: bytes) -> Iterator[bytes]:
    """Yield the records by their own sizes; what stands behind a size that is none is the last."""
    while data:
        size = int.from_bytes(data[:4], "big", signed=True)
        size = size if 8 <= size <= len(data) else len(data)
        yield data[:size]
        data = data[size:]


def test_a_pull_without_offsets_is_malformed() -> None:
    with pytest.raises(MalformedBytes, match="nextBeginOffset"):
        decode_pull_result(RemotingCommand(21, 1))
