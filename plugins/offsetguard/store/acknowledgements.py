"""Acknowledgements of incidents: the newest one of an incident counts, earlier ones are kept."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.silence import Acknowledgement
from offsetguard.store import incident_events
from offsetguard.store.columns import NAME_LIMIT, chunks, storable
from offsetguard.store.models import AcknowledgementRow


def acknowledge(session: Session, incident: Incident, *, author: str, comment: str, now: datetime) -> Acknowledgement:
    """Keep that somebody looks after an open incident, in its history, too; raises SilenceError when it is over."""
    if incident.is_over:
        raise SilenceError(f"incident {incident.incident_id} is resolved: there is nothing to acknowledge any more")
    author, comment = storable(author).strip()[:NAME_LIMIT], storable(comment).strip()
    given = Acknowledgement(incident.incident_id, author, comment, now)
    session.add(
        AcknowledgementRow(incident_id=given.incident_id, author=given.author, comment=given.comment, at=given.at)
    )
    session.flush()
    event = IncidentEvent(given.incident_id, now, EventKind.ACKNOWLEDGED, given.comment, given.author)
    incident_events.record(session, [event])
    return given


def of(session: Session, incident_ids: Collection[str]) -> dict[str, Acknowledgement]:
    """Return the newest acknowledgement of each incident that has one, by incident id."""
    found: dict[str, Acknowledgement] = {}
    for some in chunks(incident_ids):
        query = (
            select(AcknowledgementRow).where(AcknowledgementRow.incident_id.in_(some)).order_by(AcknowledgementRow.id)
        )
        found.update((row.incident_id, _from_row(row)) for row in session.scalars(query))
    return found


def _from_row(row: AcknowledgementRow) -> Acknowledgement:
    return Acknowledgement(row.incident_id, row.author, row.comment, row.at)
