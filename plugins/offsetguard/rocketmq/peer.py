"""One address: its connection (opened when needed, again after a loss) and the callers that share it.

A caller takes one of `max_in_flight` places, sends, and waits for its own answer only. Time runs from the moment of
sending. When a peer has been silent for a whole time-out, it hangs: whoever was queueing for a place meanwhile is told
so at once instead of waiting in turn, and the next caller gets a new connection. The same holds for an address to
which no connection can be opened.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from offsetguard.errors import PeerUnreachable, RequestTimedOut
from offsetguard.rocketmq.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetguard.rocketmq.header import RemotingCommand

_MAX_PORT = 65535
_NEVER = float("-inf")  # loop time


class Peer:
    """The callers' side of one address."""

    def __init__(self, address: str, timeout_s: float, max_in_flight: int) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(max_in_flight)
        self._opening = asyncio.Lock()
        self._wires: list[Wire] = []  # the last one is current; silent ones before it serve who still waits on them
        self._hung_at = _NEVER
        self._unreachable_at = _NEVER
        self._unreachable_reason = ""

    async def ask(self, code: int, ext_fields: Mapping[str, str], shown: str) -> RemotingCommand:
        """Send one request and return its answer; `shown` names it in errors."""
        clock = asyncio.get_running_loop().time
        queued_at = clock()
        async with self._places:
            if self._hung_at >= queued_at:
                raise RequestTimedOut(self._address, f"{shown}: not sent, the peer has stopped answering")
            wire = await self._usable_wire(queued_at)
            sent_at = clock()
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await wire.exchange(code, ext_fields, shown)
            except TimeoutError:
                if wire.heard_at < sent_at:
                    self._hung_at = clock()
                    wire.retire()
                reason = f"{shown}: connected, but no answer within {self._timeout_ms} ms"
                raise RequestTimedOut(self._address, reason) from None

    async def close(self) -> None:
        """Close every connection; callers that wait get ConnectionLost."""
        wires, self._wires = self._wires, []
        for wire in wires:
            await wire.close()

    @property
    def _timeout_ms(self) -> int:
        return round(self._timeout_s * 1000)

    async def _usable_wire(self, queued_at: float) -> Wire:
        """Return the connection, opening one if needed; callers that came before a failure share it."""
        async with self._opening:
            self._wires = [wire for wire in self._wires if wire.is_open]
            if self._wires and self._wires[-1].is_usable:
                return self._wires[-1]
            if self._unreachable_at >= queued_at:
                raise PeerUnreachable(self._address, self._unreachable_reason)
            try:
                self._wires.append(await self._connect())
            except OSError as error:
                self._unreachable_at = asyncio.get_running_loop().time()
                self._unreachable_reason = self._why_unreachable(error)
                raise PeerUnreachable(self._address, self._unreachable_reason) from error
            return self._wires[-1]

    async def _connect(self) -> Wire:
        host, separator, port = self._address.rpartition(":")
        if not separator or not host or not port.isdecimal() or not 0 < int(port[:6]) <= _MAX_PORT:
            raise OSError("not an address; write host:port, for example 10.0.0.1:9876")
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except UnicodeError as error:  # what the idna codec says of labels that are empty or too long
            raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
        return Wire(self._address, reader, writer)

    def _why_unreachable(self, error: OSError) -> str:
        if isinstance(error, TimeoutError):
            return f"no connection within {self._timeout_ms} ms; the host is down, or a firewall drops the packets"
        if isinstance(error, socket.gaierror):
            return (
                f"the host name cannot be resolved ({error.strerror}); check its spelling and the DNS of this machine"
            )
        if isinstance(error, ConnectionRefusedError):
            return "connection refused; nobody listens there: is the process running, and is the port right?"
        return f"no connection: {error.strerror or error}"
