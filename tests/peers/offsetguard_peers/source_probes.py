"""How every replica of a staged cluster is asked for every source, with the product's own client.

One probe per source (`broker_probes.py`, `surroundings_probes.py`): it gives one cell for each role of the source's
section (`source_list.py`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.codes import ResponseCode
from offsetguard.sources.rocketmq.requests import PullMessage, Request
from offsetguard.sources.rocketmq.signing import Credentials
from offsetguard_peers import acl
from offsetguard_peers.source_list import MASTER, NAME_SERVER, NO, NOT_IN_VERSION, OWN, REPLICAS, SLAVE, YES
from offsetguard_peers.source_stage import ORDERS, Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from offsetguard.config import Tls
    from offsetguard.sources.rocketmq.client import RocketMQClient
    from offsetguard_peers.broker import Broker

AnswerT = TypeVar("AnswerT")
Cells = dict[str, str]

PULLED_AT = {MASTER: "matrix-pulled-at-master", SLAVE: "matrix-pulled-at-slave"}  # groups, by the replica that serves
MOVED = {MASTER: "matrix-moved-at-master", SLAVE: "matrix-moved-at-slave"}
BEYOND = 9999  # an offset that no queue has
ANSWERED_WITHIN_MS = 60_000  # some milliseconds on an idle machine
SEEN_WITHIN_S = 180.0  # what a broker does after its answer: dispatch of a message, replication, a heartbeat
ABSENT_AFTER_S = 1.0  # how long we look before we say that something is not there
READER = Credentials(acl.READER_ACCESS_KEY, acl.READER_SECRET_KEY)


@dataclass(frozen=True, slots=True)
class Probes:
    """A staged cluster and the client that asks it: over TLS, as the account that may only read."""

    stage: Stage
    client: RocketMQClient
    tls: Tls

    def broker(self, role: str) -> Broker:
        """Return the replica of a role."""
        return self.stage.cluster.broker(broker_id=0 if role == MASTER else 1)

    def address(self, role: str) -> str:
        """Where we ask: what the address map leads to."""
        return self.stage.cluster.namesrv if role == NAME_SERVER else self.broker(role).address

    async def pull_everywhere(self) -> None:
        """Let each replica serve pulls of groups of its own: one at the start of a queue, one beyond its end."""
        for role in REPLICAS:
            await self.until_yes(lambda role=role: self.pulled(role, PULLED_AT[role], 0))  # type: ignore[misc]
            await self.pulled(role, MOVED[role], BEYOND)

    async def pulled(self, role: str, group: str, offset: int) -> str:
        """Pull once for a group; YES when messages came."""
        return await self.cell(role, PullMessage(ORDERS, 0, offset, consumer_group=group), lambda pull: pull.messages)

    async def cell(self, role: str, request: Request[AnswerT], tells: Callable[[AnswerT], object]) -> str:
        """Ask once; YES or NO as `tells` finds what is looked for in the answer."""
        try:
            return YES if tells(await self.client.call(self.address(role), request)) else NO
        except BrokerRefused as refused:
            return cell_of(refused)

    async def until_yes(self, ask: Callable[[], Awaitable[str]], *, within_s: float = SEEN_WITHIN_S) -> str:
        """Ask again until the answer is YES, for what takes a moment; the last answer otherwise."""
        deadline = time.monotonic() + within_s
        while (cell := await ask()) != YES and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return cell

    async def both(self, request: Request[AnswerT], tells: Callable[[AnswerT], object]) -> Cells:
        """Ask master and slave once."""
        return {role: await self.cell(role, request, tells) for role in REPLICAS}

    async def both_in_time(self, request: Request[AnswerT], tells: Callable[[AnswerT], object]) -> Cells:
        """Ask master and slave until each says YES, for what takes a moment everywhere."""
        return {
            role: await self.until_yes(lambda role=role: self.cell(role, request, tells))  # type: ignore[misc]
            for role in REPLICAS
        }

    async def own_or_all(
        self, request_for: Callable[[str], Request[AnswerT]], tells: Callable[[AnswerT], object]
    ) -> Cells:
        """Tell replicas that know only the group that pulled from themselves from replicas that know both."""
        cells = {}
        for role in REPLICAS:
            here, elsewhere = [
                await self.cell(role, request_for(PULLED_AT[replica]), tells)
                for replica in (role, SLAVE if role == MASTER else MASTER)
            ]
            cells[role] = OWN if here == YES != elsewhere else here
        return cells


def cell_of(refused: BrokerRefused) -> str:
    """Say which refusal it was."""
    if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return NOT_IN_VERSION
    return f"refused, code {refused.code}"
