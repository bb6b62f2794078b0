"""Peers that several tests share: one cluster per RocketMQ line and session, servers for mail and Slack per test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from offsetguard_peers.rocketmq import RocketMQCluster
from offsetguard_peers.slack_server import SlackServer
from offsetguard_peers.smtp_server import SmtpServer

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


@pytest.fixture
def smtp_server() -> Iterator[SmtpServer]:
    """Receive mail on a free port; accepts everything until told otherwise."""
    with SmtpServer() as server:
        yield server


@pytest.fixture
def slack_server() -> Iterator[SlackServer]:
    """Stand in for Slack: strict, empty, with the channels alerts, ops, not-invited and archived."""
    with SlackServer() as server:
        yield server
