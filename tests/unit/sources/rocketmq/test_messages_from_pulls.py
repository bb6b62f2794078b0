"""Messages as brokers send them: layouts v1 and v2, properties, batches, compression, and records that are damaged."""

from __future__ import annotations

import struct
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.message import (
    MAGIC_V1,
    MAGIC_V2,
    MAX_BODY_BYTES,
    Message,
    decode_messages,
    decode_pull_result,
)
from offsetguard_peers.scripted.messages import batched
from offsetguard_peers.scripted.messages import message_record as record

LZ4, ZSTD = 1 << 8, 2 << 8


def only(data: bytes) -> Message:
    messages, undecodable = decode_messages(data)
    assert undecodable == []
    (message,) = messages
    return message


def test_every_field_of_a_message_is_read() -> None:
    assert only(record(properties=b"KEYS\x01k1 k2\x02TAGS\x01tagA\x02")) == Message(
        topic="T1",
        queue_id=3,
        queue_offset=7,
        physical_offset=695,
        flag=5,
        sys_flag=0,
        born_timestamp=datetime(2026, 11, 20, 22, 45, 30, 52000, UTC),
        born_host="127.0.0.1:20911",
        store_timestamp=datetime(2026, 11, 20, 22, 45, 30, 53000, UTC),
        store_host="127.0.0.1:20911",
        reconsume_times=2,
        prepared_transaction_offset=-1,
        body=b"hello",
        properties={"KEYS": "k1 k2", "TAGS": "tagA"},
    )
    message = only(record(properties=b"KEYS\x01k1 k2\x02TAGS\x01tagA"))
    assert (message.tags, message.keys) == ("tagA", ("k1", "k2"))
    assert (only(record()).tags, only(record()).keys) == (None, ())
    assert only(record(magic=MAGIC_V2, topic=b"T" * 300)).topic == "T" * 300


@pytest.mark.parametrize(
    ("sys_flag", "born", "stored"),
    [(0x10, "[::1]:20911", "127.0.0.1:20911"), (0x20, "127.0.0.1:20911", "[::1]:20911")],
)
def test_hosts_may_be_ipv6(sys_flag: int, born: str, stored: str) -> None:
    message = only(record(sys_flag=sys_flag))
    assert (message.born_host, message.store_host) == (born, stored)


@pytest.mark.parametrize(
    ("sys_flag", "stored"),
    [
        (0x1, zlib.compress(b"hello" * 100)),
        (0x1 | 3 << 8, zlib.compress(b"hello" * 100)),
        (0x1 | LZ4, pa.compress(b"hello" * 100, "lz4", asbytes=True)),
        (0x1 | ZSTD, pa.compress(b"hello" * 100, "zstd", asbytes=True)),
    ],
    ids=["zlib of 4.x", "zlib", "lz4", "zstd"],
)
def test_compressed_bodies_are_given_plain(sys_flag: int, stored: bytes) -> None:
    assert only(record(stored, sys_flag=sys_flag)).body == b"hello" * 100


def test_an_inner_batch_becomes_its_messages() -> None:
    inner = batched(b"one", flag=1, properties=b"TAGS\x01a\x02") + batched(b"", flag=2)
    inner += batched(b"three", flag=3, properties=b"KEYS\x01k")
    messages, undecodable = decode_messages(record(inner, sys_flag=0x40 | 0x80, queue_offset=100))
    assert undecodable == []
    assert [(m.queue_offset, m.flag, m.body, m.tags) for m in messages] == [
        (100, 1, b"one", "a"),
        (101, 2, b"", None),
        (102, 3, b"three", None),
    ]


BOMB = zlib.compress(bytes(MAX_BODY_BYTES + 1))


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (record(magic=0x12345678), "unknown magic 0x12345678"),
        (record(crc=1), "CRC"),
        (record(b"no zlib", sys_flag=0x1), "broken"),
        (record(zlib.compress(b"hello" * 100)[:-5], sys_flag=0x1), "cut off"),
        (record(b"no lz4 at all", sys_flag=0x1 | LZ4), "lz4 body is broken"),
        (record(b"no zstd at all", sys_flag=0x1 | ZSTD), "zstd body is broken"),
        (record(b"?", sys_flag=0x1 | 7 << 8), "compression type 7"),
        (record(BOMB, sys_flag=0x1), "larger than"),
        (record(b"short", sys_flag=0x40 | 0x80), "batched"),
        (struct.pack(">ii", 20, MAGIC_V1) + bytes(12), "does not fit"),
        (
            record()[:-4].replace(struct.pack(">i", len(record())), struct.pack(">i", len(record()) - 4), 1),
            "does not fit",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_record_is_kept_with_its_reason_and_its_neighbours_are_read(damaged: bytes, reason: str) -> None:
    messages, undecodable = decode_messages(record(b"before") + damaged + record(b"after"))
    assert [message.body for message in messages] == [b"before", b"after"]
    assert [item.raw for item in undecodable] == [damaged]
    assert reason in undecodable[0].reason


def test_compressed_messages_that_together_unfold_to_gigabytes_are_not_unfolded() -> None:
    """Each of them is within the limit of one body; a frame of 16 MiB holds hundreds of them."""
    large = record(zlib.compress(bytes(MAX_BODY_BYTES)), sys_flag=0x1)
    messages, undecodable = decode_messages(record(b"before") + large * 200)
    assert len(messages) == 2, "one large message fits beside the first"
    assert len(undecodable) == 1
    assert "unfold to more than" in undecodable[0].reason
    assert undecodable[0].raw == large * 199


def test_a_batch_of_very_many_messages_with_very_many_properties_is_not_unfolded() -> None:
    """Each message of a batch has all properties of the batch: 22 bytes become megabytes."""
    properties = b"".join(f"k{number}\x01\x02".encode() for number in range(4000))
    batch = record(batched(b"") * 100_000, sys_flag=0x40 | 0x80, properties=properties)
    messages, undecodable = decode_messages(record(b"before") + batch)
    assert [message.body for message in messages] == [b"before"]
    assert [item.raw for item in undecodable] == [batch]


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_broken_compressed_bodies_leave_no_memory_behind(codec: int) -> None:
    """pyarrow's stream keeps what it had allocated for a read that fails."""
    broken = record(
        pa.compress(b"hello" * 1000, "lz4" if codec == LZ4 else "zstd", asbytes=True)[:-4], sys_flag=1 | codec
    )
    decode_messages(broken)
    before = int(Path("/proc/self/statm").read_text().split()[0])
    for _ in range(50):
        assert len(decode_messages(broken)[1]) == 1
    pages = int(Path("/proc/self/statm").read_text().split()[0]) - before
    assert pages * 4096 < 5 * MAX_BODY_BYTES


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
def test_no_byte_of_a_pull_body_is_lost_and_nothing_is_raised(
    data: bytes, draw: st.DataObject, is_damaged: bool
) -> None:
    if is_damaged:
        position = draw.draw(st.integers(0, len(data)))
        data = data[:position] + draw.draw(st.binary(max_size=20)) + data[position + draw.draw(st.integers(0, 5)) :]
    messages, undecodable = decode_messages(data)
    if not is_damaged:
        assert undecodable == []
        assert b"".join(record(message.body) for message in messages) == data
    assert sum(len(item.raw) for item in undecodable) <= len(data)
    assert bool(data) <= bool(messages or undecodable)


def test_a_pull_without_offsets_is_malformed() -> None:
    with pytest.raises(MalformedBytes, match="nextBeginOffset"):
        decode_pull_result(RemotingCommand(21, 1))
