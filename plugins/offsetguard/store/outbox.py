"""The outbox: one row per message and receiver, written in the transaction of the verdict, sent by whoever claims it.

    pending --claim_due--> pending, claimed --mark_accepted--> sent (and notification_log, same transaction)
       ^                        |---mark_retry---> pending, later
       |                        |---mark_failed--> failed: kept with its reason
       |                        '---deliverer died: the claim ends at claimed_until
       '--redrive-- failed

A claim is a compare-and-set on (status, claimed_until): two deliverers never hold one row at once. A deliverer that
dies between the receiver's acceptance and `mark_accepted` leaves a row that is sent once more: one repeat per death.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select, update

from offsetguard.messages.view import MessageView
from offsetguard.receivers import Channel as Channel  # noqa: PLC0414 callers take it from here until they changed
from offsetguard.store.changed_rows import count_changed
from offsetguard.store.database import reading, writing
from offsetguard.store.models import NotificationLogRow, OutboxRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Engine
    from sqlalchemy.orm import Session

CLAIM_MS = 120_000  # longer than any channel's time-outs together
_MAX_ERROR_LENGTH = 2_000


class Status(StrEnum):
    """What became of a row."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"  # sending the same again cannot help; kept until it is re-driven


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """One message to one receiver, as it stood when it was read; `claimed_until` identifies the reader's claim."""

    id: int
    idempotency_key: str
    channel: Channel
    receiver: str  # mail address or Slack channel
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
    def view(self) -> MessageView:
        """What the message says; raises pydantic.ValidationError when another version wrote it."""
        return MessageView.model_validate_json(self.view_json)


@dataclass(frozen=True, slots=True)
class EnqueuedView:
    """The newest message about one (team, cluster, rule)."""

    enqueued_at: datetime
    view: MessageView


def enqueue(
    session: Session, *, idempotency_key: str, channel: Channel, receiver: str, view: MessageView, now: datetime
) -> bool:
    """Add a message for one receiver, due at once; False when the key is there already (nothing is changed)."""
    if session.scalar(select(OutboxRow.id).where(OutboxRow.idempotency_key == idempotency_key)) is not None:
        return False
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
            created_at=now,
            status=Status.PENDING.value,
            attempts=0,
            next_attempt_at=now,
        )
    )
    session.flush()
    return True


def newest_enqueued(session: Session, *, team: str, cluster: str, rule_id: str) -> EnqueuedView | None:
    """Return what a team was last told about a rule in a cluster, whatever became of the sending."""
    query = (
        select(OutboxRow)
        .where(OutboxRow.team == team, OutboxRow.cluster == cluster, OutboxRow.rule_id == rule_id)
        .order_by(OutboxRow.interval_start.desc(), OutboxRow.id.desc())
        .limit(1)
    )
    row = session.scalars(query).one_or_none()
    return None if row is None else EnqueuedView(row.created_at, MessageView.model_validate_json(row.view_json))


def told_rules(session: Session, cluster: str) -> set[tuple[str, str]]:
    """Return the (team, rule id) pairs that there ever was a message about."""
    query = select(OutboxRow.team, OutboxRow.rule_id).where(OutboxRow.cluster == cluster).distinct()
    return {(team, rule_id) for team, rule_id in session.execute(query)}


def claim_due(engine: Engine, *, now: datetime, limit: int, claim_ms: int = CLAIM_MS) -> list[OutboxMessage]:
    """Claim at most `limit` pending rows whose time has come, oldest first; nobody else gets them for `claim_ms`."""
    until = now + timedelta(milliseconds=claim_ms)
    free = _free_at(now)
    claimed: list[OutboxMessage] = []
    with writing(engine) as session:
        due = select(OutboxRow.id).where(free).order_by(OutboxRow.next_attempt_at, OutboxRow.id).limit(limit)
        for row_id in session.scalars(due).all():
            taken = _change(
                session, (OutboxRow.id == row_id, free), claimed_until=until, attempts=OutboxRow.attempts + 1
            )
            if taken:
                claimed.append(_from_row(session.get_one(OutboxRow, row_id)))
    return claimed


def mark_accepted(engine: Engine, message: OutboxMessage, *, accepted_at: datetime, receipt: str) -> bool:
    """Record that the receiver accepted: status and notification log in one transaction.

    `receipt`: the mail's Message-ID or the Slack message's `channel ts`. False when it was recorded before.
    """
    with writing(engine) as session:
        sent = _change(
            session,
            (OutboxRow.id == message.id, OutboxRow.status != Status.SENT.value),
            status=Status.SENT.value,
            claimed_until=None,
            last_error=None,
        )
        if sent:
            session.add(
                NotificationLogRow(
                    outbox_id=message.id,
                    channel=message.channel.value,
                    receiver=message.receiver,
                    thread_key=message.thread_key,
                    accepted_at=accepted_at,
                    receipt=receipt,
                )
            )
    return sent


def mark_retry(engine: Engine, message: OutboxMessage, *, next_attempt_at: datetime, error: str) -> bool:
    """Give the row back for a later attempt; False when the claim had ended and somebody else holds it."""
    with writing(engine) as session:
        return _change(
            session,
            _held_by(message),
            claimed_until=None,
            next_attempt_at=next_attempt_at,
            last_error=error[:_MAX_ERROR_LENGTH],
        )


def mark_failed(engine: Engine, message: OutboxMessage, *, error: str) -> bool:
    """Keep the row as undeliverable with its reason; False when the claim had ended and somebody else holds it."""
    with writing(engine) as session:
        return _change(
            session,
            _held_by(message),
            status=Status.FAILED.value,
            claimed_until=None,
            last_error=error[:_MAX_ERROR_LENGTH],
        )


def redrive(engine: Engine, *, now: datetime, ids: Sequence[int] | None = None) -> int:
    """Make failed rows (all of them, or those with the given ids) due again; returns how many."""
    where: list[ColumnElement[bool]] = [OutboxRow.status == Status.FAILED.value]
    if ids is not None:
        where.append(OutboxRow.id.in_(ids))
    with writing(engine) as session:
        return _count_changed(session, tuple(where), status=Status.PENDING.value, attempts=0, next_attempt_at=now)


def messages(engine: Engine, *, status: Status | None = None, limit: int = 1_000) -> list[OutboxMessage]:
    """Return rows, newest first, for people who want to know what became of them."""
    query = select(OutboxRow).order_by(OutboxRow.id.desc()).limit(limit)
    if status is not None:
        query = query.where(OutboxRow.status == status.value)
    with reading(engine) as session:
        return [_from_row(row) for row in session.scalars(query)]


def _free_at(now: datetime) -> ColumnElement[bool]:
    unclaimed = or_(OutboxRow.claimed_until.is_(None), OutboxRow.claimed_until <= now)
    return (OutboxRow.status == Status.PENDING.value) & (OutboxRow.next_attempt_at <= now) & unclaimed


def _held_by(message: OutboxMessage) -> tuple[ColumnElement[bool], ...]:
    # attempts grows with each claim, so it tells claims apart even when they end at the same moment
    return (
        OutboxRow.id == message.id,
        OutboxRow.status == Status.PENDING.value,
        OutboxRow.claimed_until == message.claimed_until,
        OutboxRow.attempts == message.attempts,
    )


def _change(session: Session, where: tuple[ColumnElement[bool], ...], **values: Any) -> bool:
    return _count_changed(session, where, **values) == 1


def _count_changed(session: Session, where: tuple[ColumnElement[bool], ...], **values: Any) -> int:
    return count_changed(session, update(OutboxRow).where(*where).values(**values))


def _from_row(row: OutboxRow) -> OutboxMessage:
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
