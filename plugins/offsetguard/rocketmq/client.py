"""The only sockets: asks name servers and brokers, many at a time.

One connection per address, opened when first needed, shared by all callers, pipelined up to `max_in_flight` requests.
Every failure is one error of `offsetguard.errors` that names the address. Nothing is asked twice: whether to ask again
is the caller's decision (`error.retryable`).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from offsetguard.errors import RocketMQError, UndecodableResponse
from offsetguard.rocketmq.malformed import MalformedBytes
from offsetguard.rocketmq.peer import Peer
from offsetguard.rocketmq.refusals import refusal
from offsetguard.rocketmq.signing import signed_ext_fields

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from offsetguard.rocketmq.header import RemotingCommand
    from offsetguard.rocketmq.requests import AnswerT, Request
    from offsetguard.rocketmq.signing import Credentials

LARGE_BODY_BYTES = 256 * 1024
"""Longer bodies (10 ms and more to decode) are decoded in a thread: other callers' time-outs run meanwhile."""


class RocketMQClient:
    """Asks any number of peers; use as `async with RocketMQClient() as client`."""

    def __init__(self, timeout_ms: int = 3000, credentials: Credentials | None = None, max_in_flight: int = 8) -> None:
        """`timeout_ms`: for connecting, and again for each answer. `max_in_flight`: unanswered requests per address."""
        self._timeout_s = timeout_ms / 1000
        self._credentials = credentials
        self._max_in_flight = max_in_flight
        self._peers: dict[str, Peer] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; whoever still waits gets ConnectionLost."""
        peers, self._peers = self._peers, {}
        await asyncio.gather(*(peer.close() for peer in peers.values()))

    def now(self, address: str | None = None) -> datetime:
        """Return the present: a live answer is as old as its arrival."""
        return datetime.now(UTC)

    async def call(self, address: str, request: Request[AnswerT]) -> AnswerT:
        """Ask the peer at `host:port` and return the decoded answer.

        Raises PeerUnreachable, RequestTimedOut, ConnectionLost, UndecodableResponse, or a BrokerRefused of `refusals`.
        """
        answer = await self.exchange(address, request)
        if answer.code not in request.success_codes:
            raise refusal(address, answer.code, answer.remark)
        try:
            if len(answer.body) <= LARGE_BODY_BYTES:
                return request.decode(answer)
            return await asyncio.to_thread(request.decode, answer)
        except MalformedBytes as error:
            raise UndecodableResponse(address, f"{request}: {error}") from error

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask the peer all requests; outcomes in their order, failures as values instead of raised."""

        async def outcome(request: Request[AnswerT]) -> AnswerT | RocketMQError:
            try:
                return await self.call(address, request)
            except RocketMQError as error:
                return error

        return list(await asyncio.gather(*map(outcome, requests)))

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Ask and return the answer as it came, whatever its code; raises the first four errors of `call`."""
        ext_fields = request.ext_fields()
        if self._credentials is not None:
            ext_fields = signed_ext_fields(ext_fields, b"", self._credentials)
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(address, self._timeout_s, self._max_in_flight)
        return await peer.ask(request.code, ext_fields, str(request))
