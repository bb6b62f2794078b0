"""A deliverer as a process of its own that has imported everything already: for tests that kill many of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.process import BaseProcess

from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.deliver import deliver_due
from offsetguard.deliver.sending import Channels
from offsetguard.store.database import connect
from offsetguard_peers.delivery_world import DeliveryWorld


@dataclass(frozen=True)
class Addresses:
    """What a deliverer is to talk to."""

    database_url: str
    smtp_port: int
    slack_url: str
    slack_token: str
    webhook_url: str
    mail_from: str

    @classmethod
    def of(cls, world: DeliveryWorld) -> Addresses:
        """Return those of a world."""
        return cls(
            world.engine.url.render_as_string(hide_password=False),
            world.smtp.port,
            world.slack.api_url,
            world.slack.token,
            world.slack.webhook_url,
            world.channels.mail_from,
        )


@contextmanager
def running_deliverer(addresses: Addresses, now: datetime) -> Iterator[BaseProcess]:
    """Start one sweep; it is killed at the end of the block if it still runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "offsetguard.deliver.messages.mail", "sqlalchemy.dialects.sqlite", "psycopg"]
    )
    process = context.Process(target=_sweep, args=(addresses, now))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _sweep(addresses: Addresses, now: datetime) -> None:
    channels = Channels(
        mail=MailChannel("127.0.0.1", addresses.smtp_port, timeout_s=30),
        slack=SlackChannel.with_token(addresses.slack_token, base_url=addresses.slack_url, timeout_s=30),
        mail_from=addresses.mail_from,
        webhook=lambda name: SlackWebhookChannel(name, addresses.webhook_url, 30),
    )
    deliver_due(connect(addresses.database_url), channels, now=now)
