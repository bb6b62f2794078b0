"""What is over long enough is deleted: resolved incidents, sent messages and silences, with all that belongs to them.

What somebody may still need stays however old it is: what a receiver was notified of, and not of its end, messages
that wait or were refused, the threads of both, and the newest receipt of each receiver. Each batch is a transaction of
its own, so that no judgement waits for long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Engine, delete, func, or_, select
from sqlalchemy.orm import Session, aliased

from offsetguard.store.columns import KEYS_PER_QUERY, count_changed, from_text
from offsetguard.store.database import writing
from offsetguard.store.models import (
    AcknowledgementRow,
    IncidentEventRow,
    IncidentRow,
    LastNotificationRow,
    NotificationLogRow,
    OutboxRow,
    SilenceRow,
    Status,
)

_Id = TypeVar("_Id", int, str)


@dataclass(frozen=True, slots=True)
class Aged:
    """How much was deleted."""

    incidents: int
    messages: int
    silences: int


def delete_older(engine: Engine, moment: datetime) -> Aged:
    """Delete what was over before a moment, and nothing that is still needed."""
    return Aged(
        incidents=_in_batches(engine, lambda session, after: _incidents(session, moment, after)),
        messages=_in_batches(engine, lambda session, after: _messages(session, moment, after)),
        silences=_silences(engine, moment),
    )


def _in_batches(engine: Engine, batch: Callable[[Session, _Id | None], tuple[int, _Id | None]]) -> int:
    """Run transactions until one finds nothing more; each gives how many went, and the last id that it looked at."""
    count = 0
    after: _Id | None = None
    while True:
        with writing(engine) as session:
            gone, after = batch(session, after)
        count += gone
        if after is None:
            return count


def _incidents(session: Session, moment: datetime, after: str | None) -> tuple[int, str | None]:
    row = IncidentRow
    query = select(row.incident_id).where(row.resolved_at < moment, row.incident_id > (after or ""))
    seen = session.scalars(query.order_by(row.incident_id).limit(KEYS_PER_QUERY)).all()
    needed = _notified_incidents(session) if seen else set()
    gone = [one for one in seen if one not in needed]
    for kept in (IncidentEventRow, AcknowledgementRow, IncidentRow):
        session.execute(delete(kept).where(kept.incident_id.in_(gone)))
    return len(gone), _last(seen)


def _notified_incidents(session: Session) -> set[str]:
    """Return the incidents of whose end somebody is still to be notified, or that are muted for somebody."""
    rows = session.execute(select(LastNotificationRow.firing_json, LastNotificationRow.muted_json))
    return {incident_id for row in rows for document in row for incident_id in from_text(document)}


_OVER = (Status.SENT, Status.DISMISSED, Status.MERGED)  # nobody will do anything about them any more


def _messages(session: Session, moment: datetime, after: int | None) -> tuple[int, int | None]:
    row, other = OutboxRow, aliased(OutboxRow)
    goes_on = select(other.id).where(
        other.thread_key == row.thread_key, or_(other.status.not_in(_OVER), other.created_at >= moment)
    )
    newest = select(func.max(NotificationLogRow.id)).group_by(NotificationLogRow.channel, NotificationLogRow.receiver)
    query = select(row.id).where(
        row.status.in_(_OVER),
        row.created_at < moment,
        row.id > (after or 0),
        ~goes_on.exists(),
        row.thread_key.not_in(select(LastNotificationRow.thread_key)),
        row.id.not_in(select(NotificationLogRow.outbox_id).where(NotificationLogRow.id.in_(newest))),
    )
    gone = session.scalars(query.order_by(row.id).limit(KEYS_PER_QUERY)).all()
    session.execute(delete(NotificationLogRow).where(NotificationLogRow.outbox_id.in_(gone)))
    session.execute(delete(OutboxRow).where(OutboxRow.id.in_(gone)))
    return len(gone), _last(gone)


def _silences(engine: Engine, moment: datetime) -> int:
    over = or_(SilenceRow.ends_at < moment, SilenceRow.expired_at < moment)
    with writing(engine) as session:
        return count_changed(session, delete(SilenceRow).where(over))


def _last(seen: Sequence[_Id]) -> _Id | None:
    return seen[-1] if seen else None
