"""One open TCP connection: moves bytes between the socket and `connection.Connection`, and wakes who waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.errors import ConnectionLost, RocketMQError, UndecodableResponse
from offsetguard.rocketmq.connection import Answered, Asked, Broken, Closed, Connection, Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetguard.rocketmq.header import RemotingCommand

_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Waiting:
    answer: asyncio.Future[RemotingCommand]
    shown: str


class Wire:
    """A connection that is open or has been; made by `peer.Peer`, which limits who may use it."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._clock = asyncio.get_running_loop().time
        self._connection = Connection()
        self._waiting: dict[int, _Waiting] = {}
        self._loss: tuple[type[RocketMQError], str] | None = None
        self._is_retired = False
        self.heard_at = float("-inf")  # loop time at which the peer last sent anything
        self._reading = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        """Whether anything can still arrive."""
        return self._loss is None

    @property
    def is_usable(self) -> bool:
        """Whether new requests may be sent."""
        return self.is_open and not self._is_retired

    async def exchange(self, code: int, ext_fields: Mapping[str, str], shown: str) -> RemotingCommand:
        """Send a request and wait for its answer. Cancelling is safe: the connection stays usable for others."""
        if self._loss is not None:
            raise self._lost(shown)
        opaque, data = self._connection.request(code, ext_fields)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), shown)
        self._waiting[opaque] = waiting
        try:
            self._writer.write(data)  # requests are small and few wait at once: no need to drain
            return await waiting.answer
        finally:
            del self._waiting[opaque]
            self._connection.forget(opaque)
            if self._is_retired and not self._waiting:
                self._lose(ConnectionLost, "the connection was given up")

    def retire(self) -> None:
        """Send nothing more; close as soon as nobody waits."""
        self._is_retired = True
        if not self._waiting:
            self._lose(ConnectionLost, "the connection was given up")

    async def close(self) -> None:
        """Close now."""
        self._lose(ConnectionLost, "the client was closed before the answer came")
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _read(self) -> None:
        try:
            while self.is_open:
                data = await self._reader.read(_READ_BYTES)
                self.heard_at = self._clock()
                for event in self._connection.receive(data):
                    self._handle(event)
        except OSError as error:
            self._lose(ConnectionLost, f"the connection broke: {error.strerror or error}")
        finally:
            self._lose(ConnectionLost, "nobody reads the connection any more")  # only if nothing else was the reason

    def _handle(self, event: Event) -> None:
        match event:
            case Answered(opaque, answer):
                waiting = self._waiting.get(opaque)
                if waiting is not None and not waiting.answer.done():
                    waiting.answer.set_result(answer)
            case Asked(_, reply):
                self._writer.write(reply)
            case Closed(missing_bytes):
                self._lose(ConnectionLost, _why_closed(missing_bytes))
            case Broken(reason):
                advice = "is this the port of a RocketMQ name server or broker, without TLS?"
                self._lose(UndecodableResponse, f"what arrived is not RocketMQ's protocol: {reason}; {advice}")

    def _lose(self, error_type: type[RocketMQError], reason: str) -> None:
        """End the connection once; everybody who waits gets an error of their own."""
        if self._loss is not None:
            return
        self._loss = error_type, reason
        self._writer.transport.abort()
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(self._lost(waiting.shown))

    def _lost(self, shown: str) -> RocketMQError:
        error_type, reason = self._loss or (ConnectionLost, "closed")
        return error_type(self._address, f"{shown}: {reason}")


def _why_closed(missing_bytes: int | None) -> str:
    if missing_bytes is None:
        return "the peer closed the connection before it answered; is it stopping, or does it insist on TLS?"
    return f"the peer closed the connection in mid-frame, {missing_bytes} bytes too early; look at its log"
