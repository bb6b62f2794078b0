"""One message through one way out: rendered, handed over, what the receiver gave for it, and when to try again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Engine

from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.channels.receipt import Receipt, Unavailable, slack_parent
from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.in_doubt import LONGEST_WAIT_S, Slot
from offsetguard.deliver.messages.mail import render_mail
from offsetguard.deliver.messages.slack import SlackMessage, render_slack
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import Channel
from offsetguard.model.views import MessageView
from offsetguard.store import notifications
from offsetguard.store.outbox import Lane, OutboxMessage

Way = MailChannel | SlackChannel | SlackWebhookChannel | Unavailable


FIRST_WAIT_S = 30.0
LONGEST_BACKOFF_S = 1_800.0  # a mended connection is noticed within half an hour at the latest
WISHES_HEEDED = 20  # a receiver that wishes for one short pause after the other gets a long one
LONGEST_HASTE_S = 10.0  # heeded within the sweep


def wait_before_retry(attempts: int, key: str, retry_after_s: float | None = None) -> timedelta:
    """Return 30 s, 1 min, 2 min ... 30 min, plus up to a quarter; or what the receiver wished, and never less.

    `attempts`: those already made. A short wish is heeded at first, and a second later each time, so that many
    messages to a receiver that allows few a minute do not all ask again and again. The jitter comes from `key` and
    attempts, so that the same input gives the same wait and messages that failed together do not come back together.
    """
    if retry_after_s is not None and attempts <= WISHES_HEEDED:
        return timedelta(seconds=max(retry_after_s, min(float(attempts), LONGEST_HASTE_S)))
    doubled = FIRST_WAIT_S * 2.0 ** min(max(attempts - 1, 0), 16)
    digest = hashlib.sha256(f"{key} {attempts}".encode()).digest()
    jittered = min(doubled, LONGEST_BACKOFF_S) * (1 + digest[0] / 255 / 4)
    return timedelta(seconds=max(jittered, retry_after_s or 0.0))


def _no_webhooks(connection_id: str) -> Unavailable:
    return Unavailable(f"webhook {connection_id!r}: nothing here opens webhooks")


@dataclass(frozen=True, slots=True)
class Channels:
    """The ways out. `mail_from`: the address of `From`; `webhook`: opens one by its Airflow connection."""

    mail: MailChannel | Unavailable
    slack: SlackChannel | Unavailable
    mail_from: str
    webhook: Callable[[str], SlackWebhookChannel | Unavailable] = field(default=_no_webhooks)

    def way(self, lane: Lane) -> Way:
        """Return the way to a receiver; whatever keeps a webhook from being opened concerns that webhook alone."""
        if lane.channel is Channel.MAIL:
            return self.mail
        if lane.channel is Channel.SLACK:
            return self.slack
        try:
            return self.webhook(lane.receiver)
        except Exception as error:  # noqa: BLE001 the code of others; its text may have the address
            return Unavailable(f"webhook {lane.receiver!r} could not be opened: {type(error).__name__}")


class CannotRender(Exception):
    """A defect of ours in one message; the text says which."""


def send(message: OutboxMessage, way: Way, *, mail_from: str, engine: Engine, slot: Slot, now: datetime) -> Receipt:
    """Hand a message over; returns the receipt once its receiver has accepted all of it.

    Where the receiver cannot be asked later what it has, the caller may have the `turn` when this returns or raises.
    Raises DeliveryError (classified), CannotRender, and SQLAlchemyError when the log could not be read.
    """
    if isinstance(way, Unavailable):
        raise DeliveryError(way.reason, permanent=False)
    if isinstance(way, MailChannel):
        try:
            mail = render_mail(
                message.view,
                sender=mail_from,
                receiver=message.receiver,
                idempotency_key=message.idempotency_key,
                sent_at=now,
            )
        except Exception as error:
            raise _defect(error) from error
        return way.send(mail, before_data=slot.enter, waiting_s=LONGEST_WAIT_S)
    rendered = _slack(message)
    if isinstance(way, SlackChannel):
        return _send_to_slack(message, rendered, way, engine)
    slot.enter()
    return way.send(rendered)


def _slack(message: OutboxMessage) -> SlackMessage:
    try:
        view = message.view
        if not isinstance(view, MessageView):
            raise TypeError(f"a {type(view).__name__} is for mail only")
        return render_slack(view, idempotency_key=message.idempotency_key)
    except Exception as error:
        raise _defect(error) from error


def _send_to_slack(message: OutboxMessage, rendered: SlackMessage, slack: SlackChannel, engine: Engine) -> Receipt:
    """Post the parent of a thread, or edit it and reply below it: the log knows the parent."""
    accepted = notifications.thread(
        engine, thread_key=message.thread_key, channel=message.channel, receiver=message.receiver
    )
    parent = slack_parent([entry.receipt for entry in accepted])
    tried_before = message.attempts > 1
    known = (
        notifications.newest_receipt(engine, channel=message.channel, receiver=message.receiver)
        if tried_before and parent is None
        else None
    )
    return slack.tell(
        rendered,
        channel=message.receiver if parent is None else parent.channel,
        parent_ts=None if parent is None else parent.ts,
        idempotency_key=message.idempotency_key,
        tried_before=tried_before,
        not_before=message.created_at,
        known_channel_id=known.split()[0] if known else None,  # for the look-up, which wants an id
        edit_parent=all(entry.outbox_id < message.id for entry in accepted),  # not by a message that was re-driven
    )


def _defect(error: Exception) -> CannotRender:
    return CannotRender(f"defect in OffsetGuard, please report it: {type(error).__name__}: {error}")
