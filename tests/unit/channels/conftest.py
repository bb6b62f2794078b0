"""The real peers, fresh for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from offsetguard_peers.slack_server import SlackServer
from offsetguard_peers.smtp_server import SmtpServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def smtp() -> Iterator[SmtpServer]:
    """Run an SMTP server."""
    with SmtpServer() as server:
        yield server


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """Run a strict Slack."""
    with SlackServer() as server:
        yield server
