"""Messages as a broker stores them; layout: `offsetguard.sources.rocketmq.message`."""

import struct
import zlib

from offsetguard.sources.rocketmq.message import BORN_HOST_V6_FLAG, MAGIC_V1, STORE_HOST_V6_FLAG


def message_record(
    body: bytes = b"hello",
    *,
    magic: int = MAGIC_V1,
    topic: bytes = b"T1",
    properties: bytes = b"",
    sys_flag: int = 0,
    queue_offset: int = 7,
    stored_ms: int = 1795214730053,
    crc: int | None = None,
    total: int | None = None,
) -> bytes:
    """Write a record as a broker does, of a message that was born 1 ms earlier; `total` and `crc` may be made wrong."""
    fields = b"".join(
        (
            struct.pack(">iii", zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc, 3, 5),
            struct.pack(">qqi", queue_offset, 695, sys_flag),
            struct.pack(">q", stored_ms - 1) + _host(is_v6=bool(sys_flag & BORN_HOST_V6_FLAG)),
            struct.pack(">q", stored_ms) + _host(is_v6=bool(sys_flag & STORE_HOST_V6_FLAG)),
            struct.pack(">iqi", 2, -1, len(body)) + body,
            struct.pack(">B" if magic == MAGIC_V1 else ">H", len(topic)) + topic,
            struct.pack(">H", len(properties)) + properties,
        )
    )
    return struct.pack(">ii", 8 + len(fields) if total is None else total, magic) + fields


def _host(*, is_v6: bool) -> bytes:
    return (bytes(15) + b"\1" if is_v6 else b"\x7f\0\0\1") + struct.pack(">i", 20911)
