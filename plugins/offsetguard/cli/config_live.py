"""Asks a live cluster which consumer groups it has: `config check --live` compares the patterns with them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard.collect.name_servers import unmatched_addresses
from offsetguard.errors import RocketMQError
from offsetguard.rocketmq.client import RocketMQClient
from offsetguard.rocketmq.requests import GetAllConsumerOffset, GetAllSubscriptionGroupConfig, GetBrokerClusterInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetguard.config import Cluster
    from offsetguard.rocketmq.signing import Credentials


@dataclass(frozen=True, slots=True)
class LiveGroups:
    """The consumer groups of a cluster, as far as it could be seen."""

    consumer_groups: frozenset[str] = frozenset()
    silent_name_servers: Mapping[int, str] = field(default_factory=dict)  # position in the configuration -> why
    unseen_brokers: tuple[str, ...] = ()  # those that did not answer, and why
    name_server_answered: bool = False
    unmatched_addresses: tuple[str, ...] = ()  # in `address_map`, and listed by no name server

    @property
    def is_complete(self) -> bool:
        """Whether a group that is not here does not exist."""
        return self.name_server_answered and not self.unseen_brokers


async def find_consumer_groups(cluster: Cluster, credentials: Credentials | None = None) -> LiveGroups:
    """Ask all name servers for the masters, and those for their configured and their committing groups."""
    async with RocketMQClient(cluster.request_timeout_ms, credentials, tls=cluster.tls) as client:
        asked = [client.call(address, GetBrokerClusterInfo()) for address in cluster.name_servers]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        silent: dict[int, str] = {}
        addresses: dict[str, str | None] = {}  # broker name -> address of its master
        listed: set[str] = set()
        for position, answer in enumerate(answers):
            if isinstance(answer, RocketMQError):
                silent[position] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                addresses.update((broker.broker_name, broker.master_address) for broker in answer.brokers)
                listed.update(*(broker.addresses.values() for broker in answer.brokers))
        unseen = [f"{name}: no master is registered" for name, address in addresses.items() if address is None]
        groups: set[str] = set()
        masters = [cluster.address_map.get(at, at) for at in addresses.values() if at is not None]
        for found in await asyncio.gather(*(_groups_of(client, at) for at in masters)):
            if isinstance(found, RocketMQError):
                unseen.append(str(found))
            else:
                groups |= found
        answered = len(silent) < len(cluster.name_servers)
        unmatched = unmatched_addresses(cluster, listed) if answered else ()
        return LiveGroups(frozenset(groups), silent, tuple(unseen), answered, tuple(unmatched))


async def _groups_of(client: RocketMQClient, master: str) -> set[str] | RocketMQError:
    try:
        configured = await client.call(master, GetAllSubscriptionGroupConfig())
        committed = await client.call(master, GetAllConsumerOffset())
    except RocketMQError as error:
        return error
    return {*configured.groups, *(group for _, group in (*committed.offsets, *committed.broadcast_offsets))}
