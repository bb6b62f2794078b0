"""In which order messages about one thing may go: never "resolved" before the warning that it resolves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from offsetguard.store.database import reading
from offsetguard.store.models import OutboxRow
from offsetguard.store.outbox import Status

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine

    from offsetguard.store.outbox import OutboxMessage


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """A message that has to be out of the way first."""

    outbox_id: int
    next_attempt_at: datetime


def earlier_in_thread(engine: Engine, message: OutboxMessage) -> EarlierMessage | None:
    """Return the oldest message of the same thread to the same receiver that is neither sent nor failed, if any."""
    query = (
        select(OutboxRow.id, OutboxRow.next_attempt_at)
        .where(
            OutboxRow.id < message.id,
            OutboxRow.status == Status.PENDING.value,
            OutboxRow.channel == message.channel.value,
            OutboxRow.receiver == message.receiver,
            OutboxRow.thread_key == message.thread_key,
        )
        .order_by(OutboxRow.id)
        .limit(1)
    )
    with reading(engine) as session:
        row = session.execute(query).one_or_none()
    return None if row is None else EarlierMessage(row[0], row[1])
