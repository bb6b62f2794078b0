"""A transport that writes down every exchange as it comes, refusals and time-outs too, and passes it on unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from offsetguard.model.errors import RocketMQError
from offsetguard.sources.bundle.layout import NAME_SERVER, Exchange, other_peer
from offsetguard.sources.bundle.writer import BundleWriter
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.requests import AnswerT, Request
from offsetguard.sources.rocketmq.routes import cluster_info
from offsetguard.sources.rocketmq.transport import Exchanger, ExchangeTransport


class RecordingTransport(ExchangeTransport):
    """Wraps a client; brokers are written down under the names that the name server gives them."""

    def __init__(
        self,
        client: Exchanger,
        bundle: BundleWriter,
        name_servers: Collection[str],
        address_map: Mapping[str, str] | None = None,
    ) -> None:
        """`address_map`: listed by the name server -> asked, as in the configuration."""
        self._client = client
        self._bundle = bundle
        self._name_servers = name_servers
        self._address_map = address_map or {}
        self._labels: dict[str, str] = {}  # address that is asked -> "<broker name>-<broker id>"

    def now(self, address: str | None = None) -> datetime:
        """As the client's."""
        return self._client.now(address)

    @property
    def labels(self) -> Mapping[str, str]:
        """Asked address -> "<broker name>-<broker id>", as far as a name server has told."""
        return self._labels

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Ask, write down what came of it, and return or raise the same."""
        try:
            response = await self._client.exchange(address, request)
        except RocketMQError as error:
            message = str(error).removeprefix(f"{error.address}: ")  # the replay's error names the address again
            self._bundle.add_failure(self._line(address, request), type(error).__name__, message)
            raise
        self._bundle.add_response(self._line(address, request), response)
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            self._learn_labels(response)
        return response

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask one peer many things at once; each answer is written down when it comes."""

        async def outcome(request: Request[AnswerT]) -> AnswerT | RocketMQError:
            return await self.outcome(address, request)

        return list(await asyncio.gather(*map(outcome, requests)))

    def _line(self, address: str, request: Request[AnswerT]) -> Exchange:
        return Exchange(
            line=self._bundle.exchange_count + 1,
            t_ms=round(self.now(address).timestamp() * 1000),
            broker=NAME_SERVER if address in self._name_servers else self._labels.get(address) or other_peer(address),
            code=int(request.code),
            ext=request.ext_fields(),
            file=None,
            header=None,
        )

    def _learn_labels(self, response: RemotingCommand) -> None:
        try:
            brokers = cluster_info(response.body).brokers
        except MalformedBytes:
            return  # whoever asked gets the error; the body is kept
        for broker in brokers:
            for broker_id, address in broker.addresses.items():
                self._labels[self._address_map.get(address, address)] = f"{broker.broker_name}-{broker_id}"
