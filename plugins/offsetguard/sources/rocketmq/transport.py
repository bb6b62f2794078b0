"""Where answers come from: a live client, a support bundle, a folder of state files.

The collector knows nothing but `Transport`. Those whose answers are raw exchanges (one request, and the whole response
with its header and untouched body) differ only in where the response comes from; how it becomes a record or an error is
said here once.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from offsetguard.model.errors import RocketMQError, UndecodableBody
from offsetguard.sources.rocketmq.codes import refusal
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.requests import AnswerT, Request


class Transport(Protocol):
    """Asks any number of peers, each named by its `host:port`."""

    async def call(self, address: str, request: Request[AnswerT]) -> AnswerT:
        """Ask once and return the decoded answer; raises RocketMQError (the tree of `offsetguard.model.errors`)."""
        ...

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask one peer many things; the outcomes stand in the order of the requests and no RocketMQError is raised."""
        ...

    def now(self, address: str | None = None) -> datetime:
        """Return the moment of the newest answer of a peer (of any peer without an address), aware, UTC.

        For a live client that is the present; for a bundle the moment at which the answer was recorded; for state files
        the moment at which the broker wrote them. Read times come from here, right after the call that they belong to.
        """
        ...


def answer_of(address: str, request: Request[AnswerT], response: RemotingCommand) -> AnswerT:
    """Return the record that a response carries; raises BrokerRefused or UndecodableBody."""
    if response.code not in request.success_codes:
        raise refusal(address, response.code, response.remark)
    try:
        return request.decode(response)
    except MalformedBytes as error:
        raise UndecodableBody(address, f"{request}: {error}") from error


class ExchangeTransport:
    """An `transport.Transport` on top of `_exchange`, which subclasses give."""

    async def call(self, address: str, request: Request[AnswerT]) -> AnswerT:
        """Ask once and return the decoded answer; raises RocketMQError."""
        return answer_of(address, request, await self.exchange(address, request))

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask one peer many things; the outcomes stand in the order of the requests and no RocketMQError is raised."""
        outcomes: list[AnswerT | RocketMQError] = []
        for request in requests:
            outcome = await self.outcome(address, request)
            outcomes.append(outcome)
        return outcomes

    async def outcome(self, address: str, request: Request[AnswerT]) -> AnswerT | RocketMQError:
        """As `call`, with the error as a value."""
        try:
            answer: AnswerT = await self.call(address, request)
        except RocketMQError as error:
            return error
        return answer

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Return the whole response; raises RocketMQError when there is none."""
        raise NotImplementedError
