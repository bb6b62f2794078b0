"""One live address: its connections, its queue, and how fast it may be asked.

Exchanges queue here until `Pacing` lets them go; a caller waits for its own answers only. Time runs from the moment of
sending. When a peer has been silent for a whole time-out, or dripped, it hangs: whatever queues for a place fails at
once instead of waiting in turn, and the next caller gets a new connection. The same holds for an address to which no
connection can be opened, for a connection that ends without ever having brought an answer, and for a peer that does
nothing but say that it is busy.

Goal of pacing: a broker does not notice that it is watched, and one that is in trouble is left in peace.
Plan: never more than `max_in_flight` unanswered, never more than `max_requests_per_s` sent within any second. When the
peer says that it is busy, nothing is sent for a pause, half as many requests may be in flight afterwards, and that
request is repeated, at most BUSY_REPEATS times after longer pauses. When GIVE_UP_AFTER requests in a row have used up
their repeats, the peer is hopeless for who waits now. Good answers give the places back, one for each GOOD_ANSWERS.
`Pacing` has neither socket nor clock; every method is given the time (seconds, monotonic).
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable

from offsetguard.model.errors import ConnectionLost, PeerUnreachable, RequestTimedOut, RocketMQError
from offsetguard.sources.rocketmq.codes import ResponseCode, SystemBusy
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.reach import DOES_IT_SPEAK_TLS, Reach, why_tls_failed
from offsetguard.sources.rocketmq.wire import Batch, Exchange, Outcome, Wire

BUSY_REPEATS = 2
BUSY_PAUSES_S = (0.1, 0.5, 0.5)  # after the first, second and third time that one request was refused so
GIVE_UP_AFTER = 3
GOOD_ANSWERS = 64
SECOND = 1.0

_BUSY_CODES = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL})
_BUSY_REMARKS = ("[REJECTREQUEST]", "[OVERLOAD]", "[TIMEOUT_CLEAN_QUEUE]", "start flow control")


class Pacing:
    """The limits of one peer and what is used of them."""

    def __init__(self, max_in_flight: int, max_requests_per_s: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_requests_per_s = max_requests_per_s
        self._places = max_in_flight
        self._good_answers = 0
        self._hopeless_answers = 0
        self._sent: deque[tuple[float, int]] = deque()  # (until when it counts, how many)
        self._sent_count = 0
        self._paused_until = float("-inf")

    @property
    def is_hopeless(self) -> bool:
        """Whether the peer has been busy for so long that asking on is of no use."""
        return self._hopeless_answers >= GIVE_UP_AFTER

    def start_over(self) -> None:
        """Let those who come later try; one request that is refused to the end shows that nothing has changed."""
        self._hopeless_answers = GIVE_UP_AFTER - 1

    def allowed(self, now: float, in_flight: int) -> int:
        """Return how many requests may be sent now."""
        if now < self._paused_until:
            return 0
        while self._sent and self._sent[0][0] <= now:
            self._sent_count -= self._sent.popleft()[1]
        return max(0, min(self._places - in_flight, self._max_requests_per_s - self._sent_count))

    def next_chance(self, now: float) -> float | None:
        """Return when to look again after `allowed` said 0; None = when an answer has come."""
        if now < self._paused_until:
            return self._paused_until
        return self._sent[0][0] if self._sent_count >= self._max_requests_per_s else None

    def sent(self, now: float, count: int) -> None:
        """Count requests that were sent."""
        self._sent.append((now + SECOND, count))
        self._sent_count += count

    def answered(self) -> None:
        """Take note of an answer that says nothing of being busy."""
        self._hopeless_answers = 0
        if self._places < self._max_in_flight:
            self._good_answers += 1
            if self._good_answers >= GOOD_ANSWERS:
                self._good_answers = 0
                self._places += 1

    def busy(self, now: float, times: int) -> bool:
        """Take note that a request was refused as busy for the n-th time; return whether to repeat it."""
        if now >= self._paused_until:  # refusals of requests that were in flight together are one event
            self._places = max(1, self._places // 2)
        self._paused_until = max(self._paused_until, now + BUSY_PAUSES_S[min(times, len(BUSY_PAUSES_S)) - 1])
        self._good_answers = 0
        if times <= BUSY_REPEATS:
            return True
        self._hopeless_answers += 1
        return False


def is_busy(code: int, remark: str | None) -> bool:
    """Whether an answer means "not now": refused by flow control, or taken out of a queue that is too long.

    Source: `NettyRemotingAbstract.processRequestCommand` and `BrokerFastFailure` (4.9.8, 5.3.3).
    """
    if code in _BUSY_CODES:
        return True
    return code != ResponseCode.SUCCESS and remark is not None and any(mark in remark[:200] for mark in _BUSY_REMARKS)


_MAX_PORT = 65535


class Peer:
    """The callers' side of one address; the owner of its wires."""

    def __init__(
        self, address: str, timeout_s: float, pacing: Pacing, tls: ssl.SSLContext | None, reach: Reach
    ) -> None:
        self._address = address
        self._reach = reach
        self._timeout_s = timeout_s
        self._pacing = pacing
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Exchange] = deque()
        self._in_flight = 0
        self._wires: list[Wire] = []  # the last one is current; silent ones before it serve who still waits on them
        self._opening: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def ask(self, exchanges: Iterable[Exchange]) -> None:
        """Queue exchanges; their outcomes come to their batches."""
        self._queue.extend(exchanges)
        self.proceed()

    def withdraw(self, batch: Batch) -> None:
        """Forget what a caller asked who has left."""
        self._queue = deque(exchange for exchange in self._queue if exchange.batch is not batch)
        self._in_flight -= sum(wire.withdraw(batch) for wire in self._wires)
        self.proceed()

    async def close(self) -> None:
        """Close every connection; callers that wait get ConnectionLost."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        self._fail_queue(self._not_sent(ConnectionLost, "the client was closed"))
        wires, self._wires = self._wires, []
        for wire in wires:
            await wire.close()

    def settle(self, exchange: Exchange, outcome: Outcome) -> None:
        """Pass an outcome on to the caller, unless the peer was busy and is worth asking again."""
        self._in_flight -= 1
        if isinstance(outcome, RemotingCommand):
            if not is_busy(outcome.code, outcome.remark):
                self._pacing.answered()
            else:
                exchange.busy_count += 1
                if self._pacing.busy(self._loop.time(), exchange.busy_count):
                    self._queue.appendleft(exchange)
                    return
        exchange.batch.deliver(exchange, outcome)

    def hung(self) -> None:
        """Spare those who queue the same time-out."""
        self._fail_queue(self._not_sent(RequestTimedOut, "the peer has stopped answering"))

    def lost(self, error_type: type[RocketMQError], reason: str, *, was_useless: bool) -> None:
        """Spare those who queue a connection that would end in the same way."""
        if was_useless:
            self._fail_queue(self._not_sent(error_type, reason))

    def proceed(self) -> None:
        """Send what may be sent now."""
        if not self._queue:
            return
        if self._pacing.is_hopeless:
            reason = "not sent, the peer has been busy each time it was asked"
            self._fail_queue(lambda one: SystemBusy(self._address, ResponseCode.SYSTEM_BUSY, f"{one}: {reason}"))
            self._pacing.start_over()
            return
        now = self._loop.time()
        allowed = self._pacing.allowed(now, self._in_flight)
        if not allowed:
            self._look_again_at(self._pacing.next_chance(now))
            return
        wire = self._usable_wire()
        if wire is None:
            self._open()
            return
        exchanges = [self._queue.popleft() for _ in range(min(allowed, len(self._queue)))]
        self._in_flight += len(exchanges)
        self._pacing.sent(now, len(exchanges))
        wire.send(exchanges)

    def _usable_wire(self) -> Wire | None:
        self._wires = [wire for wire in self._wires if wire.is_open]
        return self._wires[-1] if self._wires and self._wires[-1].is_usable else None

    def _look_again_at(self, moment: float | None) -> None:
        if moment is not None and self._alarm is None:
            self._alarm = self._loop.call_at(moment, self._look_again)

    def _look_again(self) -> None:
        self._alarm = None
        self.proceed()

    def _open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(self._opened)

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if opening.cancelled():
            return
        error = opening.exception()
        if isinstance(error, OSError):
            reason = self._why_unreachable(error)
            self._fail_queue(lambda _: PeerUnreachable(self._address, reason))
        elif error is not None:
            for batch in {exchange.batch for exchange in self._queue}:
                batch.fail(error)
            self._queue.clear()
        self.proceed()

    async def _connect(self) -> None:
        host, separator, port = self._address.rpartition(":")
        host = host.strip("[]")
        if (
            not separator
            or not host
            or not host.isprintable()
            or not port.isdecimal()
            or not 0 < int(port[:6]) <= _MAX_PORT
        ):
            raise OSError("not an address; write host:port, for example 10.0.0.1:9876")
        try:
            async with asyncio.timeout(self._timeout_s):
                wire = await self._wire_to(host, int(port))
        except UnicodeError as error:  # what the idna codec says of labels that are empty or too long
            raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
        self._wires.append(wire)

    async def _wire_to(self, host: str, port: int) -> Wire:
        """Connect to the first address of a host that may be connected to and lets us; raises OSError."""
        failure: OSError | None = None
        resolved = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for ip_address in dict.fromkeys(str(place[0]) for *_, place in resolved):
            try:
                if (refusal := self._reach.refusal(self._address, host, ip_address)) is not None:
                    raise PermissionError(f"not asked, {refusal}; see allowed_addresses of the cluster")
                _, wire = await self._loop.create_connection(
                    lambda: Wire(self._address, self._timeout_s, self, encrypted=self._tls is not None),
                    ip_address,
                    port,
                    ssl=self._tls,
                    server_hostname=host if self._tls is not None else None,
                )
            except OSError as error:
                failure = error
            else:
                return wire
        raise failure or socket.gaierror(socket.EAI_NONAME, "it has no address")

    def _fail_queue(self, error_for: Callable[[Exchange], RocketMQError]) -> None:
        """Tell everybody who queues; each gets an error of their own."""
        queue, self._queue = self._queue, deque()
        for exchange in queue:
            exchange.batch.deliver(exchange, error_for(exchange))

    def _not_sent(self, error_type: type[RocketMQError], reason: str) -> Callable[[Exchange], RocketMQError]:
        return lambda exchange: error_type(self._address, f"{exchange}: not sent, {reason}")

    def _why_unreachable(self, error: OSError) -> str:
        if isinstance(error, TimeoutError):
            also = "" if self._tls is None else f", or {DOES_IT_SPEAK_TLS}"
            reason = f"no connection within {round(self._timeout_s * 1000)} ms"
            return f"{reason}; the host is down, or a firewall drops the packets{also}"
        if isinstance(error, socket.gaierror):
            return (
                f"the host name cannot be resolved ({error.strerror}); check its spelling and the DNS of this machine"
            )
        if isinstance(error, ConnectionRefusedError):
            return "connection refused; nobody listens there: is the process running, and is the port right?"
        if tls_reason := why_tls_failed(error):
            return tls_reason
        if self._tls is not None and isinstance(error, ConnectionError):
            return f"the peer closed the connection during the TLS handshake; {DOES_IT_SPEAK_TLS}"
        return f"no connection: {error.strerror or error}"
