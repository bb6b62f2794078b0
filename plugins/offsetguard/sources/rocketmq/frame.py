"""Frames of the remoting protocol, and compressed bodies, never into more than `MAX_BODY_BYTES`.

The types are RocketMQ's `CompressionType` in bits 8-10 of the sys flag (5.x); 4.x knows only zlib and writes 0.
LZ4 and zstd are read by pyarrow, imported when the first such message comes.

A frame, big-endian: int32 length of what follows | int8 serialize type, int24 header length | header | body.
Source: `NettyDecoder` (frame limit 16,777,216 bytes with the length itself) and `RemotingCommand.decode`.
A declared length is checked before anything is waited for: garbage and TLS or HTTP peers show at the first 4 bytes.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import pyarrow as pa

from offsetguard.sources.rocketmq.json_fields import MalformedBytes

MAX_BODY_BYTES = 64 * 1024 * 1024  # brokers take 4 MiB by default; more than this is a bomb

_PIECE_BYTES = 256 * 1024
_ZLIB_TYPES = (0, 3)
_PYARROW_CODECS = {1: "lz4", 2: "zstd"}  # pyarrow's "lz4" is the LZ4 frame format


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


MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_HEADER_BYTES = 1024 * 1024  # remarks carry whole Java stack traces

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">iI")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: the header still encoded."""

    serialize_type: int
    header: bytes
    body: bytes


def encode_frame(frame: Frame) -> bytes:
    """Return the frame's bytes; raises ValueError when they exceed RocketMQ's limits."""
    length = 4 + len(frame.header) + len(frame.body)
    if length + 4 > MAX_FRAME_BYTES or len(frame.header) > MAX_HEADER_BYTES:
        raise ValueError(f"a frame of {length + 4} bytes exceeds RocketMQ's limit of {MAX_FRAME_BYTES}")
    return _HEAD.pack(length, frame.serialize_type << 24 | len(frame.header)) + frame.header + frame.body


class FrameReader:
    """Takes bytes as they arrive and gives whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0  # of the first frame that has not been given

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    @property
    def missing_bytes(self) -> int | None:
        """How many bytes the begun frame still needs (at least); None between frames."""
        arrived = len(self._buffer) - self._start
        if not arrived:
            return None
        if arrived < _LENGTH.size:
            return _LENGTH.size - arrived
        return self._declared_bytes() - arrived

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or None while it has not arrived; raises MalformedBytes.

        After MalformedBytes the stream cannot be read on: nobody knows where the next frame starts.
        """
        buffer, start = self._buffer, self._start
        arrived = len(buffer)
        if arrived < start + _LENGTH.size:
            return None
        end = start + self._declared_bytes()
        if arrived < end:
            return None
        length, header_word = _HEAD.unpack_from(buffer, start)
        header_length = header_word & 0xFFFFFF
        if header_length > length - 4 or header_length > MAX_HEADER_BYTES:
            raise MalformedBytes(f"frame: declares a header of {header_length} bytes in a frame of {length}")
        header_start = start + _HEAD.size
        body_start = header_start + header_length
        frame = Frame(header_word >> 24, bytes(buffer[header_start:body_start]), bytes(buffer[body_start:end]))
        self._start = end
        if end == arrived:  # the usual case; a large frame's memory goes at once
            self._buffer, self._start = bytearray(), 0
        return frame

    def _declared_bytes(self) -> int:
        """Size of the begun frame with its length field."""
        (length,) = _LENGTH.unpack_from(self._buffer, self._start)
        if not 4 <= length <= MAX_FRAME_BYTES - _LENGTH.size:
            first_bytes = bytes(self._buffer[self._start : self._start + 4])
            raise MalformedBytes(f"frame: declares a length of {length} bytes (first bytes {first_bytes!r})")
        return int(length) + _LENGTH.size
