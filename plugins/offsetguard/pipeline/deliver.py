"""Sends what is due in the outbox; a message counts as sent only once its receiver has accepted it.

Goal: nothing lost, nothing sent twice, nobody waits for somebody else's broken receiver.
Plan: claim due rows; one lane per receiver, lanes side by side in threads, mail and Slack apart; within a lane in
order, and after a failure that may pass the lane's other messages are given back untried, so that a receiver costs
one time-out and "resolved" never overtakes the warning.
Not here: no row is deleted, no failure is without its reason in the outbox and in the log.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from offsetguard.channels.receipt import Unavailable
from offsetguard.errors import DeliveryError
from offsetguard.messages.hostile import harmless
from offsetguard.messages.mail import render_mail
from offsetguard.messages.slack import render_slack
from offsetguard.pipeline.backoff import wait_before_retry
from offsetguard.store import notification_log, outbox
from offsetguard.store.outbox import Channel, OutboxMessage
from offsetguard.store.outbox_order import earlier_in_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from offsetguard.channels.mail import MailChannel
    from offsetguard.channels.receipt import Receipt
    from offsetguard.channels.slack import SlackChannel

BATCH = 200  # messages claimed at once
LANES = 8  # receivers served at the same time
LANE_TIME_S = 90.0  # no message is begun later than this after the claim, which lasts outbox.CLAIM_MS

_log = logging.getLogger(__name__)
_Opened = TypeVar("_Opened", "MailChannel", "SlackChannel")


@dataclass(frozen=True, slots=True)
class Channels:
    """The ways out. `mail_from`: the address of `From`, from the configuration."""

    mail: MailChannel | Unavailable
    slack: SlackChannel | Unavailable
    mail_from: str


class Result(StrEnum):
    """What became of one claimed message."""

    SENT = "sent"
    RETRIED = "retried"  # back in the outbox, due later
    FAILED = "failed"  # stays in the outbox until it is re-driven


@dataclass(frozen=True, slots=True)
class Delivery:
    """One claimed message and what became of it."""

    outbox_id: int
    channel: Channel
    receiver: str
    result: Result
    reason: str  # the receipt, or why not


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """All of one call, in the order of the outbox."""

    deliveries: tuple[Delivery, ...] = ()

    @property
    def sent(self) -> int:
        """Messages that their receiver accepted."""
        return self._count(Result.SENT)

    @property
    def retried(self) -> int:
        """Messages that will be tried again."""
        return self._count(Result.RETRIED)

    @property
    def failed(self) -> int:
        """Messages that were refused for good and wait for an operator."""
        return self._count(Result.FAILED)

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each message that was not sent."""
        return tuple(
            f"{d.channel} to {d.receiver}: {d.result}: {d.reason}"
            for d in self.deliveries
            if d.result is not Result.SENT
        )

    def _count(self, result: Result) -> int:
        return sum(delivery.result is result for delivery in self.deliveries)


def deliver_due(engine: Engine, channels: Channels, *, now: datetime) -> DeliveryReport:
    """Claim and send everything that is due at `now`; several deliverers may run at once.

    Never raises for a receiver's failure: that is in the report, the log and the outbox.
    """
    deliveries: list[Delivery] = []
    while claimed := outbox.claim_due(engine, now=now, limit=BATCH):
        lanes: dict[tuple[Channel, str], list[OutboxMessage]] = defaultdict(list)
        for message in claimed:
            lanes[message.channel, message.receiver].append(message)
        postman = _Postman(engine, channels, now)
        with ExitStack() as stack:
            pools = {
                channel: stack.enter_context(ThreadPoolExecutor(LANES, f"deliver-{channel}")) for channel in Channel
            }
            lanes_served = [pools[channel].submit(postman.serve, rows) for (channel, _), rows in lanes.items()]
        for lane in lanes_served:
            deliveries.extend(lane.result())
    return DeliveryReport(tuple(sorted(deliveries, key=lambda delivery: delivery.outbox_id)))


class _Postman:
    """Serves lanes of one claimed batch; used by several threads at once, changes nothing but the database."""

    def __init__(self, engine: Engine, channels: Channels, now: datetime) -> None:
        self._engine = engine
        self._channels = channels
        self._now = now
        self._last_start_at = time.monotonic() + LANE_TIME_S

    def serve(self, lane: Sequence[OutboxMessage]) -> list[Delivery]:
        """Send the messages of one receiver in order; after a failure that may pass, the rest waits behind it."""
        deliveries: list[Delivery] = []
        again_at: datetime | None = None
        for message in sorted(lane, key=lambda row: row.id):
            if again_at is not None:
                reason = f"not tried: message {deliveries[-1].outbox_id} to the same receiver has to go first"
                deliveries.append(self._give_back(message, reason, again_at))
            elif time.monotonic() > self._last_start_at:
                again_at = self._now + timedelta(seconds=1)
                deliveries.append(self._give_back(message, "not tried: this round took too long already", again_at))
            else:
                delivery, again_at = self._deliver(message)
                deliveries.append(delivery)
        return deliveries

    def _deliver(self, message: OutboxMessage) -> tuple[Delivery, datetime | None]:
        """Try one message; the time is when the lane may go on, None for at once."""
        if before := earlier_in_thread(self._engine, message):
            again_at = max(before.next_attempt_at, self._now + timedelta(seconds=1))
            reason = f"not tried: message {before.outbox_id} of the same thread has to go first"
            return self._give_back(message, reason, again_at), None
        try:
            receipt = self._send(message)
        except DeliveryError as error:
            if error.permanent:
                return self._keep_as_failed(message, str(error)), None
            again_at = self._now + wait_before_retry(message.attempts, message.idempotency_key, error.retry_after_s)
            return self._give_back(message, str(error), again_at), again_at
        except Exception as error:  # noqa: BLE001 a defect of ours in one message must not stop the others: it is kept
            _log.exception("message %s: unexpected failure", message.id)
            return self._keep_as_failed(message, f"defect in OffsetGuard: {type(error).__name__}: {error}"), None
        outbox.mark_accepted(self._engine, message, accepted_at=self._now, receipt=receipt.text)
        return self._told(message, Result.SENT, receipt.text), None

    def _send(self, message: OutboxMessage) -> Receipt:
        if message.channel is Channel.MAIL:
            mail = render_mail(
                message.view,
                sender=self._channels.mail_from,
                receiver=message.receiver,
                idempotency_key=message.idempotency_key,
                sent_at=self._now,
            )
            return _open(self._channels.mail).send(mail)
        rendered = render_slack(message.view, idempotency_key=message.idempotency_key)
        parent = self._slack_parent(message)
        return _open(self._channels.slack).send(rendered, channel=message.receiver, thread_ts=parent)

    def _slack_parent(self, message: OutboxMessage) -> str | None:
        """Return the ts of the first message of the thread in this channel: later ones are posted below it."""
        accepted = notification_log.thread(self._engine, thread_key=message.thread_key, receiver=message.receiver)
        return accepted[0].receipt.rpartition(" ")[2] if accepted else None

    def _give_back(self, message: OutboxMessage, reason: str, again_at: datetime) -> Delivery:
        outbox.mark_retry(self._engine, message, next_attempt_at=again_at, error=reason)
        return self._told(message, Result.RETRIED, f"{reason}; next attempt at {again_at:%H:%M:%S} UTC")

    def _keep_as_failed(self, message: OutboxMessage, reason: str) -> Delivery:
        outbox.mark_failed(self._engine, message, error=reason)
        return self._told(message, Result.FAILED, reason)

    def _told(self, message: OutboxMessage, result: Result, reason: str) -> Delivery:
        level = logging.INFO if result is Result.SENT else logging.WARNING
        shown = harmless(reason, 1_000)
        _log.log(level, "message %s by %s to %s: %s: %s", message.id, message.channel, message.receiver, result, shown)
        return Delivery(message.id, message.channel, message.receiver, result, shown)


def _open(channel: _Opened | Unavailable) -> _Opened:
    if isinstance(channel, Unavailable):
        raise DeliveryError(channel.reason, permanent=False)
    return channel
