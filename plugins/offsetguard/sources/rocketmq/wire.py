"""One open connection: moves bytes between the socket and `connection.Connection`, and ends what waits too long.

Whoever owns it (`peer.Peer`) hears what became of each exchange. There is one timer for all that wait: requests are
sent in order and have the same time-out, so the oldest is always the first whose time is over.
Exchanges belong to batches, on which their outcomes come back: a caller waits for whatever has arrived and decodes it
while the peer works on the next requests; nobody else is woken, and an error in decoding is the caller's own.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from offsetguard.model.errors import ConnectionLost, RequestTimedOut, RocketMQError, UndecodableResponse
from offsetguard.sources.rocketmq.connection import Answered, Asked, Broken, Closed, Connection, Event
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.reach import why_tls_failed

Outcome = RemotingCommand | RocketMQError


@dataclass(slots=True, eq=False)
class Exchange:
    """One request on its way; `asked` shows it in errors."""

    batch: "Batch"
    index: int
    code: int
    ext_fields: Mapping[str, str]
    asked: object
    sent_at: float = 0.0  # loop time
    busy_count: int = 0  # how often the peer said that it is busy

    def __str__(self) -> str:
        shown = str(self.asked)
        return shown if len(shown) <= 300 else f"{shown[:300]}..."


class Batch:
    """The outcomes of `size` exchanges on their way to the one coroutine that waits for them."""

    def __init__(self, size: int) -> None:
        self._undelivered = size
        self._arrived: list[tuple[int, Outcome]] = []
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is anything to wait for or to fetch."""
        return bool(self._undelivered or self._arrived)

    @property
    def is_under_way(self) -> bool:
        """Whether any exchange has no outcome yet."""
        return self._undelivered > 0

    def deliver(self, exchange: Exchange, outcome: Outcome) -> None:
        """Hand over what became of an exchange."""
        self._undelivered -= 1
        self._arrived.append((exchange.index, outcome))
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Let the caller raise what is no outcome but a defect."""
        self._failure = error
        self._wake()

    async def arrived(self) -> list[tuple[int, Outcome]]:
        """Wait until there is something; return all of it as (index of the request, outcome)."""
        if not self._arrived and self._failure is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._failure is not None:
            raise self._failure
        arrived, self._arrived = self._arrived, []
        return arrived

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


_MAX_UNREAD_REPLY_BYTES = 1024 * 1024  # a peer that asks and never reads the replies gets no more of them
_LARGEST_DROP_BYTES = 512  # less, that is no whole frame, is no sign of life; a large body comes in larger pieces
_TIMER_SLACK_S = 0.001  # a timer may fire so much too early
_CLOSING_S = 1.0
_ADVICE = (
    "is this the port of a RocketMQ name server or broker, and has the cluster the setting tls just when it speaks TLS?"
)


class Owner(Protocol):
    """Who owns a connection and hears what happens on it."""

    def settle(self, exchange: Exchange, outcome: Outcome) -> None:
        """Take an outcome; the exchange is over for the wire."""
        ...

    def proceed(self) -> None:
        """Send more: all outcomes so far have been passed on, and places may be free."""
        ...

    def hung(self) -> None:
        """Learn that the peer has said nothing whole for a whole time-out."""
        ...

    def lost(self, error_type: type[RocketMQError], reason: str, *, was_useless: bool) -> None:
        """Learn that the connection ended; `was_useless`: it never brought an answer."""
        ...


class Wire(asyncio.Protocol):
    """A connection that is open or has been."""

    def __init__(self, address: str, timeout_s: float, owner: Owner, *, encrypted: bool) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._owner = owner
        self._encrypted = encrypted
        self._loop = asyncio.get_running_loop()
        self._connection = Connection()
        self._waiting: dict[int, Exchange] = {}  # by opaque, in the order of sending
        self._timer: asyncio.TimerHandle | None = None
        self._loss: str | None = None
        self._retired = False
        self._heard_at = float("-inf")  # loop time at which the peer last said something whole
        self._answer_count = 0
        self._gone = self._loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether anything can still arrive."""
        return self._loss is None

    @property
    def is_usable(self) -> bool:
        """Whether new requests may be sent."""
        return self.is_open and not self._retired

    def send(self, exchanges: Iterable[Exchange]) -> None:
        """Send requests in one piece; each of them is settled later."""
        now = self._loop.time()
        frames = []
        for exchange in exchanges:
            try:
                opaque, frame = self._connection.request(exchange.code, exchange.ext_fields)
            except ValueError as error:  # longer than RocketMQ allows: a name that somebody made up
                self._owner.settle(exchange, RocketMQError(self._address, f"{exchange}: cannot be sent: {error}"))
                continue
            exchange.sent_at = now
            self._waiting[opaque] = exchange
            frames.append(frame)
        self._transport.write(b"".join(frames))  # requests are small and few wait at once: no need to drain
        self._set_timer()

    def withdraw(self, batch: Batch) -> int:
        """Forget the exchanges of a caller who left; return how many there were. The connection stays usable."""
        opaques = [opaque for opaque, exchange in self._waiting.items() if exchange.batch is batch]
        for opaque in opaques:
            self._forget(opaque)
        self._close_if_done()
        return len(opaques)

    async def close(self) -> None:
        """Close now; who waits gets ConnectionLost."""
        self._lose(ConnectionLost, "the client was closed before the answer came")
        await asyncio.wait([self._gone], timeout=_CLOSING_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Settle what was answered, then let the owner send more."""
        frame_count = self._connection.frame_count
        events = self._connection.receive(data)
        if self._connection.frame_count > frame_count or len(data) > _LARGEST_DROP_BYTES:
            self._heard_at = self._loop.time()
        for event in events:
            self._handle(event)
        self._owner.proceed()

    def eof_received(self) -> None:
        """Lose whatever waits: the peer closes."""
        for event in self._connection.receive(b""):
            self._handle(event)
        self._owner.proceed()

    def connection_lost(self, error: Exception | None) -> None:
        """Take note that the socket is gone."""
        if error is None:
            self._lose(ConnectionLost, self._why_closed(None))
        else:
            reason = why_tls_failed(error) or getattr(error, "strerror", None) or str(error)
            self._lose(ConnectionLost, f"the connection broke: {reason}{self._about_certificates()}")
        if not self._gone.done():
            self._gone.set_result(None)
        self._owner.proceed()

    def _handle(self, event: Event) -> None:
        match event:
            case Answered(opaque, answer):
                self._answer_count += 1
                if exchange := self._waiting.pop(opaque, None):
                    self._owner.settle(exchange, answer)
                self._close_if_done()
            case Asked(reply):
                if self._transport.get_write_buffer_size() < _MAX_UNREAD_REPLY_BYTES:
                    self._transport.write(reply)
            case Closed(missing_bytes):
                self._lose(ConnectionLost, self._why_closed(missing_bytes))
            case Broken(reason):
                self._lose(UndecodableResponse, f"what arrived is not RocketMQ's protocol: {reason}; {_ADVICE}")

    def _set_timer(self) -> None:
        if self._timer is None and self._waiting:
            oldest = next(iter(self._waiting.values()))
            self._timer = self._loop.call_at(oldest.sent_at + self._timeout_s, self._end_overdue)

    def _end_overdue(self) -> None:
        self._timer = None
        sent_before = self._loop.time() - self._timeout_s + _TIMER_SLACK_S
        overdue = [opaque for opaque, exchange in self._waiting.items() if exchange.sent_at <= sent_before]
        has_hung = False
        for opaque in overdue:
            exchange = self._forget(opaque)
            has_hung = has_hung or self._heard_at < exchange.sent_at
            reason = f"{exchange}: connected, but no answer within {round(self._timeout_s * 1000)} ms"
            self._owner.settle(exchange, RequestTimedOut(self._address, reason))
        if has_hung:
            self._retired = True
            self._owner.hung()
        self._close_if_done()
        self._set_timer()
        self._owner.proceed()

    def _forget(self, opaque: int) -> Exchange:
        self._connection.forget(opaque)
        return self._waiting.pop(opaque)

    def _close_if_done(self) -> None:
        if self._retired and not self._waiting:
            self._lose(ConnectionLost, "the connection was given up")

    def _lose(self, error_type: type[RocketMQError], reason: str) -> None:
        """End the connection once; everybody who waits gets an error of their own."""
        if self._loss is not None:
            return
        self._loss = reason
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for exchange in waiting.values():
            self._owner.settle(exchange, error_type(self._address, f"{exchange}: {reason}"))
        if waiting:
            self._owner.lost(error_type, reason, was_useless=not self._answer_count)

    def _why_closed(self, missing_bytes: int | None) -> str:
        if missing_bytes is not None:
            return f"the peer closed the connection in mid-frame, {missing_bytes} bytes too early; look at its log"
        closed = "the peer closed the connection before it answered; is it stopping"
        if self._answer_count or self._encrypted:
            return f"{closed}?{self._about_certificates()}"
        return f"{closed}, or does it insist on TLS (tls.server.mode=enforcing)? Then add tls to the cluster's settings"

    def _about_certificates(self) -> str:
        """Say what TLS 1.3 does not: the handshake is over before a server refuses who shows no certificate."""
        if not self._encrypted or self._answer_count:
            return ""
        return "; if it asks for a certificate of ours, set tls.client_certificate_file and tls.client_key_file"
