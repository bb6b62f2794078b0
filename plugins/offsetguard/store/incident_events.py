"""The history of incidents: added in the transaction of what happened, never changed."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from offsetguard.model.incident import EventKind, IncidentEvent
from offsetguard.store.columns import NAME_LIMIT, storable
from offsetguard.store.models import IncidentEventRow


def record(session: Session, events: Iterable[IncidentEvent]) -> None:
    """Add events, in the order in which they are given."""
    rows = [
        {
            "incident_id": event.incident_id,
            "at": event.at,
            "kind": event.kind.value,
            "text": storable(event.text),
            "by": None if event.by is None else storable(event.by)[:NAME_LIMIT],
        }
        for event in events
    ]
    if rows:
        session.execute(insert(IncidentEventRow), rows)


def of_incident(session: Session, incident_id: str) -> list[IncidentEvent]:
    """Return what happened to an incident, first things first."""
    query = select(IncidentEventRow).where(IncidentEventRow.incident_id == incident_id).order_by(IncidentEventRow.id)
    return [
        IncidentEvent(row.incident_id, row.at, EventKind(row.kind), row.text, row.by) for row in session.scalars(query)
    ]
