"""The product's client, and what it refuses to send: requests of tests go over a connection of their own."""

import asyncio

from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import SENT
from offsetguard.sources.rocketmq.requests import Request
from offsetguard_peers.rocketmq.requests import AnswerT, ask


class AskingClient(RocketMQClient):
    """Asks whatever is declared, one after the other (`call`)."""

    async def call(self, address: str, request: Request[AnswerT]) -> AnswerT:
        """Ask, and return the decoded answer; raises what `RocketMQClient.call` raises, or a BrokerRefused."""
        if request.code in SENT:
            return await super().call(address, request)
        return await asyncio.to_thread(ask, address, request, credentials=self._credentials, tls=self._tls)
