"""What people say of incidents: silences, and acknowledgements.

A silence that is over stays, so that people can see why they heard nothing. Of the acknowledgements of an incident the
newest one counts, and earlier ones are kept.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import and_, or_, select, update
from sqlalchemy.orm import Session

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.notification import Acknowledgement, Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import notifications
from offsetguard.store.columns import NAME_LIMIT, chunks, count_changed, record_of, storable, values_of
from offsetguard.store.incidents import record_events
from offsetguard.store.models import AcknowledgementRow, SilenceRow


def add(session: Session, silence: Silence) -> Silence:
    """Keep a new silence and return it as it was kept, with its id."""
    silence = replace(silence, author=storable(silence.author)[:NAME_LIMIT], comment=storable(silence.comment))
    row = SilenceRow(**values_of(silence, "id", "matchers"), matchers=silence.matchers.named)
    session.add(row)
    session.flush()
    return replace(silence, id=row.id)


def active(session: Session, now: datetime) -> list[Silence]:
    """Return the silences that mute at a moment, oldest first."""
    return [silence for silence in not_over(session, now) if silence.active_at(now)]


def not_over(session: Session, now: datetime) -> list[Silence]:
    """Return the silences that mute at a moment or will later, oldest first."""
    # one that was ended stays so, also when the clock is put back to before that
    query = select(SilenceRow).where(SilenceRow.ends_at > now, SilenceRow.expired_at.is_(None)).order_by(SilenceRow.id)
    return [_from_row(row) for row in session.scalars(query)]


def newest(session: Session, *, limit: int) -> list[Silence]:
    """Return silences, newest first, those that are over too."""
    return [_from_row(row) for row in session.scalars(select(SilenceRow).order_by(SilenceRow.id.desc()).limit(limit))]


def over_since(session: Session, moment: datetime, now: datetime, *, limit: int) -> list[Silence]:
    """Return the silences that ended, or were ended, at a moment or later, the newest first."""
    row = SilenceRow
    ran_out = and_(row.expired_at.is_(None), row.ends_at >= moment, row.ends_at <= now)
    query = select(row).where(or_(ran_out, row.expired_at >= moment)).order_by(row.id.desc()).limit(limit)
    return [_from_row(one) for one in session.scalars(query)]


def by_id(session: Session, silence_id: int) -> Silence | None:
    """Return one silence, or None when nobody knows it."""
    row = session.get(SilenceRow, silence_id)
    return None if row is None else _from_row(row)


def expire(session: Session, silence_id: int, *, now: datetime) -> bool:
    """End a silence before its time; False when it is over already, or nobody knows it."""
    still = (SilenceRow.id == silence_id, SilenceRow.ends_at > now, SilenceRow.expired_at.is_(None))
    return count_changed(session, update(SilenceRow).where(*still).values(expired_at=now)) == 1


def extend(session: Session, silence_id: int, *, by: timedelta, now: datetime) -> bool:
    """Let a silence end later; False when it is over already, or nobody knows it."""
    found = by_id(session, silence_id)
    if found is None or found.over_at <= now:
        return False
    still = (SilenceRow.id == silence_id, SilenceRow.ends_at == found.ends_at, SilenceRow.expired_at.is_(None))
    return count_changed(session, update(SilenceRow).where(*still).values(ends_at=found.ends_at + by)) == 1


def _from_row(row: SilenceRow) -> Silence:
    matchers = dict(row.matchers)
    severity = matchers.pop("severity", None)
    given = Matchers(**matchers, severity=None if severity is None else Severity(severity))
    return record_of(Silence, row, matchers=given)


def acknowledge(session: Session, incident: Incident, *, author: str, comment: str, now: datetime) -> Acknowledgement:
    """Keep that somebody looks after an open incident, in its history, too; raises SilenceError when it is over."""
    if incident.is_over:
        raise SilenceError(f"incident {incident.incident_id} is resolved: there is nothing to acknowledge any more")
    author, comment = storable(author).strip()[:NAME_LIMIT], storable(comment).strip()
    known = (one.notified for one in notifications.recipients_of(session, incident))
    # who acknowledges knows what was told so far, also when the clock was put back since
    at = max([now, *(one.severity_notified_at for one in known if one is not None)])
    given = Acknowledgement(incident.incident_id, author, comment, at)
    session.add(AcknowledgementRow(**values_of(given)))
    session.flush()
    record_events(session, [IncidentEvent(incident.incident_id, now, EventKind.ACKNOWLEDGED, comment, author)])
    return given


def acknowledgements_of(session: Session, incident_ids: Collection[str]) -> dict[str, Acknowledgement]:
    """Return the newest acknowledgement of each incident that has one, by incident id."""
    row = AcknowledgementRow
    found: dict[str, Acknowledgement] = {}
    for some in chunks(incident_ids):
        query = select(row).where(row.incident_id.in_(some)).order_by(row.id)
        found.update((one.incident_id, record_of(Acknowledgement, one)) for one in session.scalars(query))
    return found
