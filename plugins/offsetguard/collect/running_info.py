"""Running info (307): what clients say of themselves, asked through a broker that they are connected to.

Goal: all clients of suspect groups in a fraction of a second, and no harm where clients hang.
The broker passes the request on and holds one of its 16 admin threads until the client answers, 10 s at most, whether
or not we still wait. So at most IN_FLIGHT clients are asked at a time, and a place whose client did not answer is not
used again in this round: no more than IN_FLIGHT threads are ever held. A client that does not answer is the client's
failure: no gap of the broker, no strike against it.
Never asked: clients that cannot answer. gRPC clients (a proxy in LOCAL mode lists them; the broker would wait 10 s for
each), and clients whose language has no implementation of 307.
Source: AdminBrokerProcessor#getConsumerRunningInfo, Broker2Client#callClient (10 s), adminBrokerThreadPoolNums (16).
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from offsetguard.collect.broker_reading import ClientAnswer
from offsetguard.errors import NotRecorded, RequestTimedOut, RocketMQError
from offsetguard.rocketmq.refusals import ClientTimedOut
from offsetguard.rocketmq.requests import GetConsumerRunningInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.collect.replica import ReplicaLink

IN_FLIGHT = 4
PATIENCE_S = 10.0  # for all clients of a broker together; healthy ones answer in some 10 ms each
LANGUAGES = frozenset({"JAVA", "GO", "CPP"})  # those whose clients implement 307
GRPC_CLIENT_ID = re.compile(r".+@[0-9]+@[0-9]+@[0-9a-z]+")  # host@pid@number@time in base 36, of all gRPC clients


async def read_running_info(
    link: ReplicaLink, reading: BrokerReading, clients: Sequence[tuple[str, str]], patience_s: float = PATIENCE_S
) -> None:
    """Ask the clients of this broker, given as (consumer group, client id); fills `reading.running_info`.

    Ask each client through one broker only: it tells all of itself. Clients that cannot answer are left out silently:
    they have no entry. Who is not asked any more after `patience_s` has an entry that says so.
    """
    waiting = iter([client for client in clients if can_answer(reading, *client)])
    ends_at = asyncio.get_running_loop().time() + patience_s
    async with asyncio.TaskGroup() as places:
        for _ in range(IN_FLIGHT):
            places.create_task(_ask_in_turn(link, reading, waiting, ends_at))
    for client in waiting:
        reading.running_info[client] = ClientAnswer(
            None,
            f"not asked: {IN_FLIGHT} clients of this broker did not answer, or all together took {patience_s:g} s",
            None,
        )


def can_answer(reading: BrokerReading, consumer_group: str, client_id: str) -> bool:
    """Whether it makes sense to ask a client; one of unknown language is asked."""
    if GRPC_CLIENT_ID.fullmatch(client_id):
        return False
    connections = reading.connections.get(consumer_group)
    languages = {one.language for one in connections.connections if one.client_id == client_id} if connections else None
    return not languages or not languages.isdisjoint(LANGUAGES)


async def _ask_in_turn(
    link: ReplicaLink, reading: BrokerReading, waiting: Iterator[tuple[str, str]], ends_at: float
) -> None:
    """Use one place until a client does not answer, or until loop time `ends_at`."""
    clock = asyncio.get_running_loop().time
    while clock() < ends_at and (client := next(waiting, None)) is not None:
        outcome = await link.ask_client(GetConsumerRunningInfo(*client))
        if isinstance(outcome, NotRecorded):
            continue
        if not isinstance(outcome, RocketMQError):
            reading.running_info[client] = ClientAnswer(outcome.body, None, outcome.at)
        elif isinstance(outcome, ClientTimedOut | RequestTimedOut):
            reading.running_info[client] = ClientAnswer(None, f"the client did not answer the broker: {outcome}", None)
            return
        else:
            reading.running_info[client] = ClientAnswer(None, str(outcome), None)
