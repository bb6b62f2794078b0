"""The outbox: one row per message and receiver, written in the transaction of the verdict.

`store.outbox_claims` says who sends a row, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Engine, func, select, update
from sqlalchemy.orm import Session

from offsetguard.model.notification import Channel
from offsetguard.model.views import AnyView, read_view
from offsetguard.store.columns import count_changed
from offsetguard.store.database import current_time, reading, writing
from offsetguard.store.models import OutboxRow


class Status(StrEnum):
    """What became of a row."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"  # sending the same again cannot help; kept until it is re-driven or dismissed
    DISMISSED = "dismissed"  # failed, and an operator has looked: nobody will get it


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """One message to one receiver, as it stood when it was read; `claimed_until` identifies the reader's claim."""

    id: int
    idempotency_key: str
    channel: Channel
    receiver: str  # mail address, Slack channel, or Airflow connection of a webhook
    team: str
    cluster: str
    rule_id: str
    thread_key: str
    interval_start: datetime
    view_json: str
    created_at: datetime
    status: Status
    attempts: int  # attempts started, this claim included
    next_attempt_at: datetime
    claimed_until: datetime | None
    last_error: str | None

    @property
    def view(self) -> AnyView:
        """What the message says; raises pydantic.ValidationError when another version wrote it."""
        return read_view(self.view_json)


def enqueue(
    session: Session, *, idempotency_key: str, channel: Channel, receiver: str, view: AnyView, now: datetime
) -> bool:
    """Add a message for one receiver, due at once; False when the key is there already (nothing is changed).

    `now` is by the clock of whoever judges; where that is ahead of the database's, by which messages are sent, the
    latter counts.
    """
    if session.scalar(select(OutboxRow.id).where(OutboxRow.idempotency_key == idempotency_key)) is not None:
        return False
    written_at = min(now, current_time(session))
    session.add(
        OutboxRow(
            idempotency_key=idempotency_key,
            channel=channel.value,
            receiver=receiver,
            team=view.team,
            cluster=view.cluster,
            rule_id=view.rule_id,
            thread_key=view.thread_key,
            interval_start=view.interval_start,
            view_json=view.model_dump_json(),
            created_at=written_at,
            status=Status.PENDING.value,
            attempts=0,
            next_attempt_at=written_at,
        )
    )
    session.flush()
    return True


def known_keys(session: Session, idempotency_keys: Iterable[str]) -> set[str]:
    """Return those of some keys whose messages are in the outbox, whatever became of them."""
    key = OutboxRow.idempotency_key
    return set(session.scalars(select(key).where(key.in_(idempotency_keys))))


@dataclass(frozen=True, slots=True)
class Backlog:
    """What no receiver has accepted."""

    waiting_count: int
    oldest_at: datetime | None  # when the oldest of those was written
    failed_count: int  # refused for good


def backlog(session: Session) -> Backlog:
    """Return how much waits, and since when."""
    query = (
        select(OutboxRow.status, func.count(), func.min(OutboxRow.created_at))
        .where(OutboxRow.status.in_([Status.PENDING.value, Status.FAILED.value]))  # few; all the others were sent
        .group_by(OutboxRow.status)
    )
    found = {status: (count, oldest) for status, count, oldest in session.execute(query)}
    waiting, oldest = found.get(Status.PENDING.value, (0, None))
    return Backlog(waiting, oldest, found.get(Status.FAILED.value, (0, None))[0])


def redrive(engine: Engine, *, ids: Sequence[int] | None = None) -> int:
    """Make failed rows (all of them, or those with the given ids) due again, as they were; returns how many.

    They count as tried once, so that Slack is asked for what it may have before it is posted again.
    """
    return _change_failed(engine, ids, status=Status.PENDING.value, attempts=1)


def dismiss(engine: Engine, *, ids: Sequence[int] | None = None) -> int:
    """Let failed rows (all of them, or those with the given ids) count as seen; returns how many.

    They keep their reason and are trouble no more.
    """
    return _change_failed(engine, ids, status=Status.DISMISSED.value)


def _change_failed(engine: Engine, ids: Sequence[int] | None, **values: Any) -> int:
    where: list[ColumnElement[bool]] = [OutboxRow.status == Status.FAILED.value]
    if ids is not None:
        where.append(OutboxRow.id.in_(ids))
    with writing(engine) as session:
        return count_changed(session, update(OutboxRow).where(*where).values(**values))


def messages(engine: Engine, *, status: Status | None = None, limit: int = 1_000) -> list[OutboxMessage]:
    """Return rows, newest first, for people who want to know what became of them."""
    query = select(OutboxRow).order_by(OutboxRow.id.desc()).limit(limit)
    if status is not None:
        query = query.where(OutboxRow.status == status.value)
    with reading(engine) as session:
        return [from_row(row) for row in session.scalars(query)]


def from_row(row: OutboxRow) -> OutboxMessage:
    """Return a row as plain values."""
    return OutboxMessage(
        id=row.id,
        idempotency_key=row.idempotency_key,
        channel=Channel(row.channel),
        receiver=row.receiver,
        team=row.team,
        cluster=row.cluster,
        rule_id=row.rule_id,
        thread_key=row.thread_key,
        interval_start=row.interval_start,
        view_json=row.view_json,
        created_at=row.created_at,
        status=Status(row.status),
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        claimed_until=row.claimed_until,
        last_error=row.last_error,
    )
