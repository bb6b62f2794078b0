"""Framing of the remoting protocol: bytes in, frames out; frames in, bytes out.

A frame, big-endian: int32 length of what follows | int8 serialize type, int24 header length | header | body.
Source: `NettyDecoder` (frame limit 16,777,216 bytes with the length itself) and `RemotingCommand.decode`.
A declared length is checked before anything is waited for: garbage and TLS or HTTP peers show at the first 4 bytes.
"""

from __future__ import annotations

import struct

from offsetguard.records import record
from offsetguard.rocketmq.malformed import MalformedBytes

MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_HEADER_BYTES = 1024 * 1024  # remarks carry whole Java stack traces

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">iI")


@record
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
