"""One connection to a peer without its socket: bytes in, events out.

Goal: all that can be known from the bytes is decided here, so that it is tested without a network.
Plan: `request()` numbers a request and gives its bytes; `receive()` takes bytes (b"" = the peer closed) and gives
events; an answer belongs to the request with its opaque, in any order. Forgotten requests (timed out, cancelled)
leave their number unused, so a late answer finds nobody and is dropped.
Not here: time, sockets, retries, addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsetguard.sources.rocketmq.codes import ResponseCode, SerializeType
from offsetguard.sources.rocketmq.frame import Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import RESPONSE_FLAG, RemotingCommand, decode_header, encode_header
from offsetguard.sources.rocketmq.json_fields import MalformedBytes

_MAX_OPAQUE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the request with this opaque."""

    opaque: int
    answer: RemotingCommand


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer sent a request of its own (code 40 and the like); `reply` is what to send back, or b""."""

    command: RemotingCommand
    reply: bytes


@dataclass(frozen=True, slots=True)
class Late:
    """An answer that nobody waits for any more."""

    answer: RemotingCommand


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer closed; `missing_bytes` of a begun frame never came (None: it closed between frames)."""

    missing_bytes: int | None


@dataclass(frozen=True, slots=True)
class Broken:
    """The peer sent what is not the protocol; nothing after it can be read."""

    reason: str


Event = Answered | Asked | Late | Closed | Broken


class Connection:
    """The state of one connection: which requests wait, and what of a frame has arrived."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._waiting: set[int] = set()
        self._last_opaque = 0
        self._ended = False

    @property
    def waiting_count(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    def request(self, code: int, ext_fields: Mapping[str, str], body: bytes = b"") -> tuple[int, bytes]:
        """Give a request its number; return its opaque and the bytes to send. Raises ValueError if too large."""
        opaque = self._last_opaque % _MAX_OPAQUE + 1
        data = _encode(RemotingCommand(code=code, opaque=opaque, ext_fields=ext_fields, body=body))
        self._last_opaque = opaque
        self._waiting.add(opaque)
        return opaque, data

    def forget(self, opaque: int) -> None:
        """Stop waiting for an answer; it will be Late if it comes."""
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
                events.append(self._event(decode_header(frame.serialize_type, frame.header, frame.body)))
        except MalformedBytes as error:
            self._ended = True
            events.append(Broken(str(error)))
        return events

    def _event(self, command: RemotingCommand) -> Event:
        if not command.is_response:
            return Asked(command, b"" if command.is_oneway else _encode(_not_supported(command)))
        if command.opaque in self._waiting:
            self._waiting.discard(command.opaque)
            return Answered(command.opaque, command)
        return Late(command)


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
