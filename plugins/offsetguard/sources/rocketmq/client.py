"""The only sockets: asks name servers and brokers, many at a time.

One connection per address, opened when first needed, shared by all callers, pipelined within the limits of `pacing`.
Every failure is one error of `offsetguard.model.errors` that names the address. Nothing is asked twice, except of a
peer that says that it is busy: whether to ask again is the caller's decision.
"""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from offsetguard.config import Cluster, Tls
from offsetguard.model.errors import RocketMQError
from offsetguard.sources.rocketmq.header import Credentials, RemotingCommand, signed_ext_fields
from offsetguard.sources.rocketmq.peer import Pacing, Peer
from offsetguard.sources.rocketmq.reach import Reach, tls_context
from offsetguard.sources.rocketmq.requests import AnswerT, Request
from offsetguard.sources.rocketmq.transport import answer_of
from offsetguard.sources.rocketmq.wire import Batch, Exchange, Outcome

LARGE_BODY_BYTES = 1024 * 1024
"""Longer bodies (30 ms and more to decode) are decoded in a thread: other callers' time-outs run meanwhile.

Not shorter ones: two threads that take turns need a tenth longer for both.
"""


class RocketMQClient:
    """Asks any number of peers; use as `async with RocketMQClient() as client`."""

    def __init__(
        self,
        timeout_ms: int = 3000,
        credentials: Credentials | None = None,
        max_in_flight: int = 8,
        max_requests_per_s: int = 5000,
        tls: Tls | ssl.SSLContext | None = None,
        *,
        reach: Reach | None = None,
    ) -> None:
        """`timeout_ms`: for connecting, and again for each answer. Limits are per address; `tls` None = plain.

        `reach`: who may be connected to; None = all but link-local and metadata addresses.

        Raises ConfigError when a file of `tls` cannot be used.
        """
        self._timeout_s = timeout_ms / 1000
        self._credentials = credentials
        self._limits = max_in_flight, max_requests_per_s
        self._tls = tls_context(tls) if isinstance(tls, Tls) else tls
        self._reach = reach or Reach()
        self._peers: dict[str, Peer] = {}
        self._pacing: dict[str, Pacing] = {}

    @classmethod
    def of(cls, cluster: Cluster, credentials: Credentials | None) -> Self:
        """Return a client with the limits of a cluster, its TLS, and the addresses that it allows."""
        limits = cluster.collection
        return cls(
            cluster.request_timeout_ms,
            credentials,
            limits.max_in_flight,
            limits.max_requests_per_s,
            cluster.tls,
            reach=Reach.of(cluster),
        )

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
        (outcome,) = await self.call_many(address, [request])
        if isinstance(outcome, RocketMQError):
            raise outcome
        return outcome

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask the peer all requests; outcomes in their order, failures as values instead of raised.

        Answers are decoded while the peer works on the next requests.
        """
        outcomes: dict[int, AnswerT | RocketMQError] = {}
        with self._asking(address, requests) as batch:
            while batch.is_open:
                for index, outcome in await batch.arrived():
                    request = requests[index]
                    try:
                        if isinstance(outcome, RemotingCommand) and len(outcome.body) > LARGE_BODY_BYTES:
                            outcomes[index] = await asyncio.to_thread(_decoded, address, request, outcome)
                        else:
                            outcomes[index] = _decoded(address, request, outcome)
                    except RocketMQError as error:
                        outcomes[index] = error
        return [outcomes[index] for index in range(len(requests))]

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Ask and return the answer as it came, whatever its code; raises the first four errors of `call`."""
        with self._asking(address, [request]) as batch:
            ((_, outcome),) = await batch.arrived()
        if isinstance(outcome, RocketMQError):
            raise outcome
        return outcome

    @contextmanager
    def _asking(self, address: str, requests: Sequence[Request[AnswerT]]) -> Iterator[Batch]:
        """Ask the peer; whatever is still under way at the end, because the caller was cancelled, is forgotten."""
        peer = self._peer(address)
        batch = Batch(len(requests))
        peer.ask(
            [
                Exchange(batch, index, request.code, self._ext_fields(request), request)
                for index, request in enumerate(requests)
            ]
        )
        try:
            yield batch
        finally:
            if batch.is_under_way:
                peer.withdraw(batch)

    def _ext_fields(self, request: Request[AnswerT]) -> dict[str, str]:
        ext_fields = request.ext_fields()
        if self._credentials is None:
            return ext_fields
        return signed_ext_fields(ext_fields, b"", self._credentials)

    def _peer(self, address: str) -> Peer:
        peer = self._peers.get(address)
        if peer is None:
            pacing = self._pacing.setdefault(address, Pacing(*self._limits))
            peer = self._peers[address] = Peer(address, self._timeout_s, pacing, self._tls, self._reach)
        return peer


def _decoded(address: str, request: Request[AnswerT], outcome: Outcome) -> AnswerT:
    if isinstance(outcome, RocketMQError):
        raise outcome
    return answer_of(address, request, outcome)
