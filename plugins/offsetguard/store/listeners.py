"""Who heard of an open incident, and from whom it is kept: read from what each receiver was told."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from offsetguard.model.incident import Incident
from offsetguard.model.told import Channel, MuteReason, ToldIncident
from offsetguard.store import told as told_store


@dataclass(frozen=True, slots=True)
class Listener:
    """One receiver that is concerned by an incident."""

    team: str
    channel: Channel
    receiver: str
    told: ToldIncident | None  # None: it was not told
    muted: MuteReason | None  # why it hears nothing now; None: it does


def of_incident(session: Session, incident: Incident) -> list[Listener]:
    """Return the receivers that know of an incident or that it is kept from, by team; none when its end was told."""
    subject, wanted = incident.subject, incident.incident_id
    return [
        Listener(key.group.team, key.channel, key.receiver, told.firing.get(wanted), told.muted.get(wanted))
        for key, told in sorted(
            told_store.of_cluster(session, subject.cluster).items(),
            key=lambda item: (item[0].group.team, item[0].channel.value, item[0].receiver),
        )
        if key.group.rule_id == subject.rule_id and (wanted in told.firing or wanted in told.muted)
    ]
