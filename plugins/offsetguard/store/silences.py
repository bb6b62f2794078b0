"""Silences in the database; one that is over stays, so that people can see why they heard nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from offsetguard.model.silence import Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store.columns import NAME_LIMIT, count_changed, storable
from offsetguard.store.models import SilenceRow


def add(session: Session, silence: Silence) -> Silence:
    """Keep a new silence and return it as it was kept, with its id."""
    silence = replace(silence, author=storable(silence.author)[:NAME_LIMIT], comment=storable(silence.comment))
    row = SilenceRow(
        matchers=silence.matchers.named,
        author=silence.author,
        comment=silence.comment,
        starts_at=silence.starts_at,
        ends_at=silence.ends_at,
        created_at=silence.created_at,
        expired_at=silence.expired_at,
    )
    session.add(row)
    session.flush()
    return replace(silence, id=row.id)


def active(session: Session, now: datetime) -> list[Silence]:
    """Return the silences that mute at a moment, oldest first."""
    return [silence for silence in not_over(session, now) if silence.active_at(now)]


def not_over(session: Session, now: datetime) -> list[Silence]:
    """Return the silences that mute at a moment or will later, oldest first."""
    still = or_(SilenceRow.expired_at.is_(None), SilenceRow.expired_at > now)
    query = select(SilenceRow).where(SilenceRow.ends_at > now, still).order_by(SilenceRow.id)
    return [_from_row(row) for row in session.scalars(query)]


def newest(session: Session, *, limit: int) -> list[Silence]:
    """Return silences, newest first, those that are over too."""
    return [_from_row(row) for row in session.scalars(select(SilenceRow).order_by(SilenceRow.id.desc()).limit(limit))]


def by_id(session: Session, silence_id: int) -> Silence | None:
    """Return one silence, or None when nobody knows it."""
    row = session.get(SilenceRow, silence_id)
    return None if row is None else _from_row(row)


def expire(session: Session, silence_id: int, *, now: datetime) -> bool:
    """End a silence before its time; False when it is over already, or nobody knows it."""
    still = (SilenceRow.id == silence_id, SilenceRow.ends_at > now, SilenceRow.expired_at.is_(None))
    return count_changed(session, update(SilenceRow).where(*still).values(expired_at=now)) == 1


def _from_row(row: SilenceRow) -> Silence:
    matchers = dict(row.matchers)
    severity = matchers.pop("severity", None)
    return Silence(
        matchers=Matchers(**matchers, severity=None if severity is None else Severity(severity)),
        author=row.author,
        comment=row.comment,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        created_at=row.created_at,
        expired_at=row.expired_at,
        id=row.id,
    )
