"""A database, a mail server and a Slack, all real, with messages for the outbox, and a deliverer to kill."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess

from sqlalchemy import Engine

from offsetguard.deliver.channels.channel import Transport, Unavailable
from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.deliver import CHANNELS, deliver_due
from offsetguard.model.notification import Channel
from offsetguard.model.views import MessageView
from offsetguard.store import outbox
from offsetguard.store.database import connect, writing
from offsetguard.store.models import OutboxRow
from offsetguard_peers.cases import messages
from offsetguard_peers.databases import newest_accepted
from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.smtp.server import SmtpServer

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)  # when claims have ended and first retries are due
DETAILED = messages.message(messages.incident(lag_curve=()))  # drawing a picture takes a second
_LISTS: dict[str, tuple[()]] = {"figures": (), "queues": (), "explains": (), "cannot_tell": (), "lag_curve": ()}
_COUNTS = {"queue_count": 0, "explained_count": 0, "cannot_tell_count": 0}
VIEW = messages.message(messages.incident(**_LISTS, **_COUNTS))  # nothing is left to Slack's threads
RESOLVED = messages.ALL_RESOLVED  # of the same thread
MAIL_FROM = "offsetguard@example.com"


NOT_HERE = Unavailable("nothing here leads there")


@dataclass(frozen=True)
class Channels:
    """Transports: one mail server, one Slack, webhooks by name."""

    mail: Transport | Unavailable
    slack: Transport | Unavailable = NOT_HERE
    webhook: Callable[[str], Transport | Unavailable] = lambda _: NOT_HERE
    robots: Mapping[str, Transport] = field(default_factory=dict)  # by channel

    def __call__(self, lane: outbox.Lane) -> Transport | Unavailable:
        """Return what leads to a receiver."""
        if lane.channel in self.robots:
            return self.robots[lane.channel]
        if lane.channel == "slack_webhook":
            return self.webhook(lane.receiver)
        return self.mail if lane.channel == "mail" else self.slack


@dataclass(slots=True)
class DeliveryWorld:
    """Receivers are told by their form: `a@b` mail, `#name` Slack, all else the name of a webhook."""

    engine: Engine
    smtp: SmtpServer
    slack: SlackServer
    patience_s: float = 30.0  # for answers that come: the machine may be busy
    dead_webhooks: dict[str, str] = field(default_factory=dict)  # name -> address

    def put(self, key: str, receiver: str, view: MessageView = VIEW, *, now: datetime = NOW) -> None:
        """Write a message to one receiver, due at once."""
        with writing(self.engine) as session:
            outbox.enqueue(
                session, idempotency_key=key, channel=channel_of(receiver), receiver=receiver, view=view, now=now
            )

    def put_robot(self, robot: str, key: str, view: MessageView) -> None:
        """Write a message to a robot, due at once."""
        with writing(self.engine) as session:
            outbox.enqueue(
                session, idempotency_key=f"{robot} {key}", channel=robot, receiver="night", view=view, now=NOW
            )

    @property
    def addresses(self) -> Addresses:
        """Where these servers are, for another process."""
        url = self.engine.url.render_as_string(hide_password=False)
        slack = self.slack
        return Addresses(url, self.smtp.port, slack.api_url, slack.token, {**self.dead_webhooks}, slack.webhook_url)

    @property
    def channels(self) -> Channels:
        """Transports to these servers."""
        return self.addresses.channels(self.patience_s)

    def accepted(self) -> list[str]:
        """Who accepted a message; the servers agree with the log."""
        log = newest_accepted(self.engine)
        assert len(log) == len(self.smtp.mails) + len(self.slack.messages)
        return sorted(entry.receiver for entry in log)

    def rows(self) -> dict[str, OutboxRow]:
        """Return the outbox by idempotency key."""
        return {row.idempotency_key: row for row in outbox.messages(self.engine, limit=100_000)}


@contextmanager
def delivery_world(engine: Engine) -> Iterator[DeliveryWorld]:
    """Start the servers, and stop them. Slack's clock stands at NOW: what was posted is looked up by time, too."""
    with ExitStack() as stack:
        world = DeliveryWorld(engine, stack.enter_context(SmtpServer()), stack.enter_context(SlackServer()))
        world.slack.workspace.clock = NOW.timestamp
        yield world


def channel_of(receiver: str) -> Channel:
    """Tell how a receiver of this world is reached."""
    if "@" in receiver:
        return "mail"
    return "slack" if receiver.startswith("#") else "slack_webhook"


@dataclass(frozen=True)
class Addresses:
    """What a deliverer talks to."""

    database_url: str
    smtp_port: int
    slack_url: str
    slack_token: str
    dead_webhooks: dict[str, str]
    webhook_url: str  # of all others
    robots: Mapping[str, str] = field(default_factory=dict)  # by channel; they want no signature

    def channels(self, patience_s: float = 30.0) -> Channels:
        """Transports to the servers."""
        return Channels(
            mail=MailChannel("127.0.0.1", self.smtp_port, timeout_s=patience_s, sender=MAIL_FROM),
            slack=SlackChannel.with_token(self.slack_token, base_url=self.slack_url, timeout=int(patience_s)),
            webhook=lambda name: SlackWebhookChannel(
                name, self.dead_webhooks.get(name, self.webhook_url), int(patience_s)
            ),
            robots={name: CHANNELS[name](name, url, int(patience_s)) for name, url in self.robots.items()},  # type: ignore[call-arg] # robots
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
    deliver_due(connect(addresses.database_url), addresses.channels(), now=now)
