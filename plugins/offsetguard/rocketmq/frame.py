"""Framing of the remoting protocol: bytes in, frames out; frames in, bytes out.

A frame, big-endian: int32 length of what follows | int8 serialize type, int24 header length | header | body.
Source: `NettyDecoder` (frame limit 16,777,216 bytes with the length itself) and `RemotingCommand.decode`.
A declared length is checked before anything is waited for: garbage and TLS or HTTP peers show at the first 4 bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from offsetguard.rocketmq.malformed import MalformedBytes

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

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        self._buffer += data

    @property
    def missing_bytes(self) -> int | None:
        """How many bytes the begun frame still needs (at least); None between frames."""
        if not self._buffer:
            return None
        if len(self._buffer) < _LENGTH.size:
            return _LENGTH.size - len(self._buffer)
        return self._declared_bytes() - len(self._buffer)

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or None while it has not arrived; raises MalformedBytes.

        After MalformedBytes the stream cannot be read on: nobody knows where the next frame starts.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        frame_bytes = self._declared_bytes()
        if len(self._buffer) < frame_bytes:
            return None
        length, header_word = _HEAD.unpack_from(self._buffer)
        header_length = header_word & 0xFFFFFF
        if header_length > length - 4 or header_length > MAX_HEADER_BYTES:
            raise MalformedBytes(f"frame: declares a header of {header_length} bytes in a frame of {length}")
        header_end = _HEAD.size + header_length
        frame = Frame(
            header_word >> 24, bytes(self._buffer[_HEAD.size : header_end]), bytes(self._buffer[header_end:frame_bytes])
        )
        del self._buffer[:frame_bytes]
        return frame

    def _declared_bytes(self) -> int:
        """Size of the begun frame with its length field."""
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not 4 <= length <= MAX_FRAME_BYTES - _LENGTH.size:
            first_bytes = bytes(self._buffer[:4])
            raise MalformedBytes(f"frame: declares a length of {length} bytes (first bytes {first_bytes!r})")
        return int(length) + _LENGTH.size
