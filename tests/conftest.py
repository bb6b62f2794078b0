"""Peers that several tests share: one cluster per RocketMQ line and session, servers for mail and Slack per test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from offsetguard_peers.rocketmq import RocketMQCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def rocketmq_4() -> Iterator[RocketMQCluster]:
    """RocketMQ 4.9.7: a master and its slave. Shared: use topics and groups of your own, and leave it running."""
    with RocketMQCluster("4.9.7", slaves=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rocketmq_5() -> Iterator[RocketMQCluster]:
    """RocketMQ 5.5.0: a master and its slave. Shared: use topics and groups of your own, and leave it running."""
    with RocketMQCluster("5.5.0", slaves=1) as cluster:
        yield cluster
