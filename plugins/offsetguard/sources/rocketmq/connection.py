"""One connection to a peer without its socket: bytes in, events out.

Goal: all that can be known from the bytes is decided here, so that it is tested without a network.
Plan: `request()` numbers a request and gives its bytes; `receive()` takes bytes (b"" = the peer closed) and gives
events; an answer belongs to the request with its opaque, in any order. Forgotten requests (timed out, cancelled)
leave their number unused, so a late answer finds nobody and is dropped.
Not here: time, sockets, retries, addresses.

A frame, big-endian: int32 length of what follows | int8 serialize type, int24 header length | header | body.
Source: `NettyDecoder` (frame limit 16,777,216 bytes with the length itself) and `RemotingCommand.decode`.
A declared length is checked before anything is waited for: garbage and TLS or HTTP peers show at the first 4 bytes.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from offsetguard.sources.rocketmq.codes import SENT, ResponseCode, SerializeType
from offsetguard.sources.rocketmq.header import RESPONSE_FLAG, RemotingCommand, decode_header, encode_header
from offsetguard.sources.rocketmq.json_fields import MalformedBytes

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
            raise MalformedBytes("frame: declares a header that is longer than a header may be, or than the frame")
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
            # not shown: whoever registers an address as a broker's would read what answers there
            raise MalformedBytes("frame: does not begin with the length of one")
        return int(length) + _LENGTH.size


_MAX_OPAQUE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the request with this opaque."""

    opaque: int
    answer: RemotingCommand


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer sent a request of its own (code 40 and the like); `reply` is what to send back, or b""."""

    reply: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer closed; `missing_bytes` of a begun frame never came (None: it closed between frames)."""

    missing_bytes: int | None


@dataclass(frozen=True, slots=True)
class Broken:
    """The peer sent what is not the protocol; nothing after it can be read."""

    reason: str


Event = Answered | Asked | Closed | Broken


class Connection:
    """The state of one connection: which requests wait, and what of a frame has arrived."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._waiting: set[int] = set()
        self._last_opaque = 0
        self.frame_count = 0  # whole frames that arrived, whatever they mean
        self._ended = False

    def request(self, code: int, ext_fields: Mapping[str, str]) -> tuple[int, bytes]:
        """Give a request its number; return its opaque and the bytes to send.

        Raises ValueError if it is too large, or may change something: all requests that are not in `codes.SENT`.
        """
        if code not in SENT:
            raise ValueError(f"request code {code} is none of those that only read")
        opaque = self._last_opaque % _MAX_OPAQUE + 1
        data = _encode(RemotingCommand(code=code, opaque=opaque, ext_fields=ext_fields))
        self._last_opaque = opaque
        self._waiting.add(opaque)
        return opaque, data

    def forget(self, opaque: int) -> None:
        """Stop waiting for an answer; it is dropped if it comes late."""
        self._waiting.discard(opaque)

    def receive(self, data: bytes) -> list[Event]:
        """Take what arrived and return what it means, in order. After Closed or Broken nothing more comes."""
        if self._ended:
            return []
        if not data:
            self._ended = True
            return [Closed(self._frames.missing_bytes)]
        self._frames.feed(data)
        events: list[Event] = []
        try:
            while (frame := self._frames.next_frame()) is not None:
                self.frame_count += 1
                events += self._events(decode_header(frame.serialize_type, frame.header, frame.body))
        except MalformedBytes as error:
            self._ended = True
            events.append(Broken(str(error)))
        return events

    def _events(self, command: RemotingCommand) -> list[Event]:
        if not command.is_response:
            return [Asked(b"" if command.is_oneway else _encode(_not_supported(command)))]
        if command.opaque not in self._waiting:
            return []  # nobody waits for it any more
        self._waiting.discard(command.opaque)
        return [Answered(command.opaque, command)]


def _encode(command: RemotingCommand) -> bytes:
    """Write compact headers, which cost a broker a fifth less of its time for a small request than JSON does.

    Every release that we know reads both. Without ext fields a compact header gives a broker none (null) where JSON
    gives it an empty map, and access control is written for the latter: so those few stay JSON.
    """
    form = SerializeType.ROCKETMQ if command.ext_fields else SerializeType.JSON
    return encode_frame(Frame(form, encode_header(command, form), command.body))


def _not_supported(command: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(
        code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        opaque=command.opaque,
        flag=RESPONSE_FLAG,
        remark="OffsetGuard only watches and answers no requests",
    )
