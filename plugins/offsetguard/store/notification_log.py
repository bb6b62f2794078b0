"""The notification log: what receivers accepted. Written by `outbox_claims.mark_accepted` only, and only then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select

from offsetguard.model.told import Channel
from offsetguard.store.database import reading
from offsetguard.store.models import NotificationLogRow


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One accepted message."""

    outbox_id: int
    channel: Channel
    receiver: str
    thread_key: str
    accepted_at: datetime
    receipt: str  # Message-ID of the mail, `channel ts` of the Slack message


def thread(engine: Engine, *, thread_key: str, channel: Channel, receiver: str) -> list[Acceptance]:
    """Return what a receiver accepted in one thread, oldest first: the parent, then its replies."""
    query = (
        select(NotificationLogRow)
        .where(
            NotificationLogRow.thread_key == thread_key,
            NotificationLogRow.receiver == receiver,
            NotificationLogRow.channel == channel.value,
        )
        .order_by(NotificationLogRow.id)
    )
    with reading(engine) as session:
        return [_from_row(row) for row in session.scalars(query)]


def newest_receipt(engine: Engine, *, channel: Channel, receiver: str) -> str | None:
    """Return the receipt of what a receiver accepted last, in whatever thread."""
    query = (
        select(NotificationLogRow.receipt)
        .where(NotificationLogRow.channel == channel.value, NotificationLogRow.receiver == receiver)
        .order_by(NotificationLogRow.id.desc())
        .limit(1)
    )
    with reading(engine) as session:
        return session.scalar(query)


def newest(engine: Engine, *, limit: int = 100) -> list[Acceptance]:
    """Return the newest entries, newest first."""
    query = select(NotificationLogRow).order_by(NotificationLogRow.id.desc()).limit(limit)
    with reading(engine) as session:
        return [_from_row(row) for row in session.scalars(query)]


def _from_row(row: NotificationLogRow) -> Acceptance:
    return Acceptance(row.outbox_id, Channel(row.channel), row.receiver, row.thread_key, row.accepted_at, row.receipt)
