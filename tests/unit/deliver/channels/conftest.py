"""The real peers, fresh for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.smtp.server import SmtpServer


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
