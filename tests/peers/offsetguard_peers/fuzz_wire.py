"""Readers of what comes over the wire around the bodies: frames, headers, messages."""

from __future__ import annotations

import struct
import zlib
from functools import partial

from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.codes import SerializeType
from offsetguard.sources.rocketmq.connection import Connection
from offsetguard.sources.rocketmq.frame import Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import RemotingCommand, decode_header, encode_header
from offsetguard.sources.rocketmq.message import MAGIC_V1, MAGIC_V2, decode_messages, decode_pull_result
from offsetguard_peers.fuzz_target import Target
from offsetguard_peers.scripted_broker import message_record


def protocol_targets() -> list[Target]:
    """Return the readers of frames, headers and whole streams."""
    answers = [
        RemotingCommand(code=0, opaque=number, flag=1, remark=remark, ext_fields={"offset": "3"}, body=body)
        for number, (remark, body) in enumerate(
            [(None, b""), ("not set any response code", b"{}"), ("FOUND", message_record(0, b"x")), (None, b"y" * 999)]
        )
    ]
    headers = {
        form: [encode_header(answer, form) for answer in answers]
        for form in (SerializeType.JSON, SerializeType.ROCKETMQ)
    }
    frames = [
        encode_frame(Frame(form, header, answer.body))
        for form, encoded in headers.items()
        for header, answer in zip(encoded, answers, strict=True)
    ]
    streams = [*frames, b"".join(frames)]
    return [
        *(Target(f"header, {form.name}", partial(decode_header, form), headers[form], weight=20) for form in headers),
        Target("frames", _frames, streams, weight=20),
        Target("connection", _connection, streams, refusals=(), weight=20),
    ]


def _frames(stream: bytes) -> int:
    """Read a stream that comes in pieces, their sizes given by the stream itself."""
    reader = FrameReader()
    position = count = 0
    while position < len(stream):
        size = stream[position] % 37 + 1 if len(stream) < 4096 else 4096
        reader.feed(stream[position : position + size])
        position += size
        while (frame := reader.next_frame()) is not None:
            decode_header(frame.serialize_type, frame.header, frame.body)
            count += 1
    return count


def _connection(stream: bytes) -> int:
    connection = Connection()
    for _ in range(3):
        connection.request(28, {})
    return len(connection.receive(stream)) + len(connection.receive(b""))


def message_targets() -> list[Target]:
    """Return the readers of stored messages, and of the answer that brings them."""
    properties = b"KEYS\x01G\x02TAGS\x01G\x02"
    plain = _record(MAGIC_V1, 0, b"hello", properties)
    inner = struct.pack(">iiiii", 25, 0, 0, 0, 5) + b"hello"
    inner = struct.pack(">i", len(inner) + 6) + inner[4:] + struct.pack(">h", 0)
    records = [
        plain,
        plain * 3,
        _record(MAGIC_V2, 0, b"hello", properties),
        _record(MAGIC_V1, 0x1, zlib.compress(b"hello" * 50), properties),
        _record(MAGIC_V2, 0x1 | 1 << 8, b"\x04\x22\x4d\x18" + b"\0" * 20, properties),
        _record(MAGIC_V2, 0x1 | 2 << 8, b"\x28\xb5\x2f\xfd" + b"\0" * 20, properties),
        _record(MAGIC_V2, 0x40 | 0x80, inner * 3, properties),
        _record(MAGIC_V1, 0x30, b"six", properties),
    ]
    return [
        Target("messages", decode_messages, records, refusals=(), weight=40),
        Target("pull result", _pull_result, [b"3,0,9", b"-1,,x", b"9223372036854775808,1,2"], weight=8),
    ]


def _record(magic: int, sys_flag: int, body: bytes, properties: bytes) -> bytes:
    host = bytes(16 if sys_flag & 0x10 else 4) + struct.pack(">i", 10911)
    store = bytes(16 if sys_flag & 0x20 else 4) + struct.pack(">i", 10911)
    rest = struct.pack(">iiiiqqiq", magic, 0, 0, 0, 7, 1400, sys_flag, 1795214730000) + host
    rest += struct.pack(">q", 1795214730000) + store + struct.pack(">iqi", 0, 0, len(body)) + body
    rest += (b"\x01T" if magic == MAGIC_V1 else b"\0\x01T") + struct.pack(">h", len(properties)) + properties
    return struct.pack(">i", len(rest) + 4) + rest


def _pull_result(data: bytes) -> object:
    names = ("nextBeginOffset", "minOffset", "maxOffset")
    fields = dict(zip(names, fastjson.decode_text(data).split(","), strict=False))
    return decode_pull_result(RemotingCommand(code=0, opaque=1, flag=1, ext_fields=fields))
