"""The names that folders with logs may have: `broker-a-0` for the master of broker-a."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.errors import RocketMQError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetguard.rocketmq.client import RocketMQClient


async def replica_labels(client: RocketMQClient, name_servers: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Return the label of every replica that a name server lists; none when no name server answers, which is told."""
    from offsetguard.rocketmq.requests import GetBrokerClusterInfo  # noqa: PLC0415 --help does without

    for address in name_servers:
        try:
            info = await client.call(address, GetBrokerClusterInfo())
        except RocketMQError as error:
            tell(str(error))
            continue
        return [f"{one.broker_name}-{broker_id}" for one in info.brokers for broker_id in one.addresses]
    return []
