"""What a pull brings: status, offsets, and messages as brokers store them -> typed messages.

Status by response code (`PullMessageProcessor`, `MQClientAPIImpl.processPullResponse`): 0, 19, 20, 21.

Layout, big-endian (`MessageDecoder`, `CommitLog` of apache/rocketmq 4.9.8 and 5.3.3): int32 total size | int32 magic |
int32 body CRC | int32 queue id | int32 flag | int64 queue offset | int64 physical offset | int32 sys flag |
int64 born time | born host | int64 store time | store host | int32 reconsume times | int64 prepared transaction
offset | int32 n + body | int8 (v2: int16) n + topic | int16 n + properties.
A record that cannot be decoded is kept with its bytes and the reason; the records around it are still given.
A pull of a few kilobytes can unfold to gigabytes (compressed bodies, batches whose messages share all properties): what
all its messages together may take is limited, and what lies behind the limit is kept as it came.
How a body is compressed stands in bits 8-10 of the sys flag (5.x, `CompressionType`); 4.x knows only zlib and writes 0.
LZ4 and zstd are read by pyarrow.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import pyarrow as pa

from offsetguard.sources.rocketmq.codes import ResponseCode
from offsetguard.sources.rocketmq.fastjson import decode_text
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes, timestamp_of
from offsetguard.sources.rocketmq.offsets import offset_field


class PullStatus(StrEnum):
    """RocketMQ's client-side `PullStatus`."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"  # at the end of the queue
    NO_MATCHED_MSG = "NO_MATCHED_MSG"  # go on at next_begin_offset
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"  # outside of min..max; go on at next_begin_offset


_STATUS_BY_CODE = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """The outcome of one PullMessage."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: tuple[Message, ...]
    undecodable: tuple[UndecodableMessage, ...] = ()


def decode_pull_result(answer: RemotingCommand) -> PullResult:
    """Decode an answer to 11 with one of the four codes; raises MalformedBytes when the offsets are missing."""
    status = _STATUS_BY_CODE[ResponseCode(answer.code)]
    messages, undecodable = decode_messages(answer.body) if status is PullStatus.FOUND else ([], [])
    return PullResult(
        status=status,
        next_begin_offset=offset_field(answer.ext_fields, "nextBeginOffset"),
        min_offset=offset_field(answer.ext_fields, "minOffset"),
        max_offset=offset_field(answer.ext_fields, "maxOffset"),
        messages=tuple(messages),
        undecodable=tuple(undecodable),
    )


MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB, 5.x: topics longer than 127 bytes
COMPRESSED_FLAG = 0x1
BORN_HOST_V6_FLAG = 0x10
STORE_HOST_V6_FLAG = 0x20
INNER_BATCH_FLAGS = 0x40 | 0x80  # need unwrap, inner batch
COMPRESSION_TYPE_SHIFT = 8
COMPRESSION_TYPE_MASK = 0x7

MAX_UNFOLDED_BYTES = 128 * 1024 * 1024  # of one pull; a frame holds 16 MiB, bodies are rarely compressed 8 to 1
MAX_BODY_BYTES = 64 * 1024 * 1024  # brokers take 4 MiB by default; more than this is a bomb

_PIECE_BYTES = 256 * 1024
_ZLIB_TYPES = (0, 3)
_PYARROW_CODECS = {1: "lz4", 2: "zstd"}  # pyarrow's "lz4" is the LZ4 frame format
_RECORD_HEAD = struct.Struct(">ii")
_FIXED = struct.Struct(">iiiiiqqiq")  # up to the born time
_MIN_RECORD_BYTES = _RECORD_HEAD.size
_INNER_HEAD = struct.Struct(">iiiii")
_MESSAGE_BYTES, _PROPERTY_BYTES = 1000, 200  # what a Message and one property take in memory, about


@dataclass(frozen=True, slots=True)
class Message:
    """One message; body and properties as the producer gave them (the body is decompressed)."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    flag: int
    sys_flag: int
    born_timestamp: datetime
    born_host: str  # "ip:port"
    store_timestamp: datetime
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    properties: Mapping[str, str]

    @property
    def tags(self) -> str | None:
        """The message's tag."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """The message's keys."""
        return tuple(self.properties.get("KEYS", "").split())


@dataclass(frozen=True, slots=True)
class UndecodableMessage:
    """The bytes of a record that could not be decoded, and why."""

    raw: bytes
    reason: str


class _Cursor:
    """Reads fields in turn; never beyond the record."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, size: int, name: str) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedBytes(f"message: {name} of {size} bytes does not fit the record of {len(self.data)}")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def integer(self, size: int, name: str) -> int:
        return int.from_bytes(self.take(size, name), "big", signed=True)


def decode_messages(data: bytes) -> tuple[list[Message], list[UndecodableMessage]]:
    """Return the messages of a pull body in order, and what of it could not be decoded."""
    messages: list[Message] = []
    undecodable: list[UndecodableMessage] = []
    left = MAX_UNFOLDED_BYTES
    position = 0
    while position < len(data):
        total = int.from_bytes(data[position : position + 4], "big", signed=True)
        if not _MIN_RECORD_BYTES <= total <= len(data) - position:
            reason = f"message: a total size of {total} at byte {position} of {len(data)}; the rest cannot be read"
            undecodable.append(UndecodableMessage(data[position:], reason))
            break
        record = data[position : position + total]
        of_record: list[Message] = []
        try:
            for message in _decode_record(record):
                left -= _unfolded_bytes(message)
                if left < 0:
                    reason = (
                        f"message: those of this pull unfold to more than {MAX_UNFOLDED_BYTES} bytes; the rest is kept"
                    )
                    return messages, [*undecodable, UndecodableMessage(data[position:], reason)]
                of_record.append(message)
            messages += of_record
        except MalformedBytes as error:
            undecodable.append(UndecodableMessage(record, str(error)))
        position += total
    return messages, undecodable


def _unfolded_bytes(message: Message) -> int:
    return len(message.body) + _MESSAGE_BYTES + _PROPERTY_BYTES * len(message.properties)


def _decode_record(record: bytes) -> Iterator[Message]:
    magic = _RECORD_HEAD.unpack_from(record)[1]
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise MalformedBytes(f"message: unknown magic {magic & 0xFFFFFFFF:#x}")
    cursor = _Cursor(record)
    fixed = _FIXED.unpack(cursor.take(_FIXED.size, "fixed fields"))
    _, _, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms = fixed
    born_host = _host(cursor, "born host", is_v6=bool(sys_flag & BORN_HOST_V6_FLAG))
    store_ms = cursor.integer(8, "store time")
    store_host = _host(cursor, "store host", is_v6=bool(sys_flag & STORE_HOST_V6_FLAG))
    reconsume_times = cursor.integer(4, "reconsume times")
    prepared_transaction_offset = cursor.integer(8, "prepared transaction offset")
    stored_body = cursor.take(cursor.integer(4, "body length"), "body")
    topic_length = int.from_bytes(cursor.take(2 if magic == MAGIC_V2 else 1, "topic length"), "big")
    topic = decode_text(cursor.take(topic_length, "topic"))
    properties = _properties(cursor.take(int.from_bytes(cursor.take(2, "properties length"), "big"), "properties"))
    message = Message(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp=timestamp_of(born_ms, "born time"),
        born_host=born_host,
        store_timestamp=timestamp_of(store_ms, "store time"),
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        body=_plain_body(stored_body, sys_flag, body_crc),
        properties=properties,
    )
    if sys_flag & INNER_BATCH_FLAGS == INNER_BATCH_FLAGS:
        yield from _inner_messages(message)
    else:
        yield message


def _plain_body(stored_body: bytes, sys_flag: int, body_crc: int) -> bytes:
    """Return the body decompressed. The CRC is over the stored bytes (`UtilAll.crc32`, 31 bits; 0 = not set)."""
    if body_crc and body_crc != zlib.crc32(stored_body) & 0x7FFFFFFF:
        raise MalformedBytes("message: the body does not match its CRC")
    if not sys_flag & COMPRESSED_FLAG:
        return stored_body
    return decompress(stored_body, sys_flag >> COMPRESSION_TYPE_SHIFT & COMPRESSION_TYPE_MASK)


def _inner_messages(batch: Message) -> Iterator[Message]:
    """Unwrap a 5.x batch: repeated int32 total, magic, CRC, flag, n + body, int16 n + properties."""
    cursor = _Cursor(batch.body)
    index = 0
    while cursor.position < len(batch.body):
        *_, flag, body_length = _INNER_HEAD.unpack(cursor.take(_INNER_HEAD.size, "batched message"))
        body = cursor.take(body_length, "batched body")
        properties_length = int.from_bytes(cursor.take(2, "batched properties length"), "big")
        properties = _properties(cursor.take(properties_length, "batched properties"))
        offset = batch.queue_offset + index
        yield replace(batch, queue_offset=offset, flag=flag, body=body, properties={**batch.properties, **properties})
        index += 1


def _host(cursor: _Cursor, name: str, *, is_v6: bool) -> str:
    address = ipaddress.ip_address(cursor.take(16 if is_v6 else 4, name))
    port = cursor.integer(4, name)
    return f"[{address}]:{port}" if is_v6 else f"{address}:{port}"


def _properties(data: bytes) -> dict[str, str]:
    r"""Return the properties of `name\x01value\x02…`; the last \x02 may be missing."""
    pairs = (pair.partition("\x01") for pair in decode_text(data).split("\x02"))
    return {name: value for name, separator, value in pairs if separator}


def decompress(data: bytes, compression_type: int) -> bytes:
    """Return the plain bytes; raises MalformedBytes for broken data, too much of it, or an unknown type."""
    if compression_type in _ZLIB_TYPES:
        plain = _decompress_zlib(data)
    elif compression_type in _PYARROW_CODECS:
        plain = _decompress_with_pyarrow(data, _PYARROW_CODECS[compression_type])
    else:
        raise MalformedBytes(f"message: unknown compression type {compression_type}")
    if len(plain) > MAX_BODY_BYTES:
        raise MalformedBytes(f"message: the body is larger than {MAX_BODY_BYTES} bytes when decompressed")
    return plain


def _decompress_zlib(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        plain = decompressor.decompress(data, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise MalformedBytes(f"message: the compressed body is broken: {error}") from error
    if not decompressor.eof and len(plain) <= MAX_BODY_BYTES:
        raise MalformedBytes("message: the compressed body is cut off")
    return plain


def _decompress_with_pyarrow(data: bytes, codec: str) -> bytes:
    pieces: list[pa.Buffer] = []
    size = 0
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), codec) as stream:
            # by pieces and as buffers: `read` allocates all that it may give, and keeps it when the data is broken
            while size <= MAX_BODY_BYTES and (piece := stream.read_buffer(_PIECE_BYTES)).size:
                pieces.append(piece)
                size += piece.size
    except OSError as error:
        raise MalformedBytes(f"message: the {codec} body is broken: {error}") from error
    return b"".join(pieces)
