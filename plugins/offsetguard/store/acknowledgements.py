"""Acknowledgements of incidents: the newest one of an incident counts, earlier ones are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from offsetguard.incidents.silence import Acknowledgement
from offsetguard.store.models import AcknowledgementRow

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.orm import Session

_IDS_PER_QUERY = 500  # SQLite and PostgreSQL bound the number of parameters
_MAX_NAME = 255  # of the column


def add(session: Session, acknowledgement: Acknowledgement) -> None:
    """Keep an acknowledgement of an incident that is stored."""
    session.add(
        AcknowledgementRow(
            incident_id=acknowledgement.incident_id,
            author=acknowledgement.author[:_MAX_NAME],
            comment=acknowledgement.comment,
            at=acknowledgement.at,
        )
    )
    session.flush()


def of(session: Session, incident_ids: Collection[str]) -> dict[str, Acknowledgement]:
    """Return the newest acknowledgement of each incident that has one, by incident id."""
    wanted = sorted(incident_ids)
    found: dict[str, Acknowledgement] = {}
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        some = wanted[start : start + _IDS_PER_QUERY]
        query = (
            select(AcknowledgementRow).where(AcknowledgementRow.incident_id.in_(some)).order_by(AcknowledgementRow.id)
        )
        found.update((row.incident_id, _from_row(row)) for row in session.scalars(query))
    return found


def _from_row(row: AcknowledgementRow) -> Acknowledgement:
    return Acknowledgement(row.incident_id, row.author, row.comment, row.at)
