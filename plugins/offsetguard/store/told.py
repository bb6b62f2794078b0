"""What each receiver was last told about each (team, cluster, rule): written by the judge, in its transaction.

A row is there as long as something that was told still fires, something that fires is kept from the receiver, or the
last message of a spell is so young that the next spell has to wait.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from offsetguard.model.digests import digest_of
from offsetguard.model.told import Channel, GroupKey, MuteReason, Told, ToldIncident, ToldKey
from offsetguard.model.verdicts import Severity
from offsetguard.store.columns import chunks
from offsetguard.store.models import ToldRow


def of_cluster(session: Session, cluster: str) -> dict[ToldKey, Told]:
    """Return all of a cluster."""
    rows = session.scalars(select(ToldRow).where(ToldRow.cluster == cluster))
    return {
        ToldKey(GroupKey(row.team, row.cluster, row.rule_id), Channel(row.channel), row.receiver): _told(row)
        for row in rows
    }


def not_after(session: Session, cluster: str, moment: datetime) -> None:
    """Let nothing have been told after a moment: a message of an interval that lay ahead must not delay the next."""
    later = update(ToldRow).where(ToldRow.cluster == cluster, ToldRow.told_at > moment).values(told_at=moment)
    session.execute(later.execution_options(synchronize_session=False))


def save(session: Session, changed: Mapping[ToldKey, Told]) -> None:
    """Write what changed; what is empty is forgotten."""
    gone = [_digest(key) for key, told in changed.items() if told.is_empty]
    rows = [_values(key, told) for key, told in changed.items() if not told.is_empty]
    for some in chunks(gone):
        session.execute(delete(ToldRow).where(ToldRow.key.in_(some)))
    clusters = {key.group.cluster for key in changed}
    known = set(session.scalars(select(ToldRow.key).where(ToldRow.cluster.in_(clusters))))
    if new := [row for row in rows if row["key"] not in known]:
        session.execute(insert(ToldRow), new)
    if old := [row for row in rows if row["key"] in known]:
        session.execute(update(ToldRow), old)  # by primary key, many at once


def _values(key: ToldKey, told: Told) -> dict[str, Any]:
    return {
        "key": _digest(key),
        "team": key.group.team,
        "cluster": key.group.cluster,
        "rule_id": key.group.rule_id,
        "channel": key.channel.value,
        "receiver": key.receiver,
        "told_at": told.at,
        "thread_key": told.thread_key,
        "firing_json": json.dumps(
            {
                incident_id: [
                    one.severity.value,
                    one.first_told_at.isoformat(),
                    one.severity_told_at.isoformat(),
                    one.repeats,
                ]
                for incident_id, one in sorted(told.firing.items())
            }
        ),
        "muted_json": json.dumps({one: reason.value for one, reason in sorted(told.muted.items())}),
        "repeat_count": told.repeat_count,
        "ended": None if told.ended is None else told.ended.value,
    }


def _told(row: ToldRow) -> Told:
    return Told(
        at=row.told_at,
        thread_key=row.thread_key,
        firing={
            incident_id: ToldIncident(
                Severity(severity), datetime.fromisoformat(first), datetime.fromisoformat(severity_at), repeats
            )
            for incident_id, (severity, first, severity_at, repeats) in json.loads(row.firing_json).items()
        },
        muted={incident_id: MuteReason(reason) for incident_id, reason in json.loads(row.muted_json).items()},
        repeat_count=row.repeat_count,
        ended=None if row.ended is None else Severity(row.ended),
    )


def _digest(key: ToldKey) -> str:
    group = key.group
    return digest_of(group.team, group.cluster, group.rule_id, key.channel.value, key.receiver)
