"""Notifications: what each receiver was last notified of, what it accepted, and how many more it may be sent.

The judge writes the last notification of each (team, cluster, rule) and receiver, in its transaction. A row is there as
long as something that the receiver knows of still fires, something that fires is muted for it, or the last message of a
spell is so young that the next spell has to wait.

The notification log is written by `outbox.mark_accepted` only, and only once the receiver has accepted.

How many messages a receiver may still be sent is a token bucket for each, in the database, since deliverers share it.
In any minute at most nine tenths of what it takes: `BURST` at once, and the rest evenly. Whoever is about to send
waits until there is a token, claims a message, and takes the token: two that do so at the same moment take it twice,
for which the tenth is there, and both wait longer for the next one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.orm import Session

from offsetguard.catalogue import Sentence
from offsetguard.model.incident import EventKind, Incident, digest_of
from offsetguard.model.notification import (
    Channel,
    GroupKey,
    MuteReason,
    NotificationKey,
    Notified,
    NotifiedIncident,
)
from offsetguard.model.verdicts import Severity
from offsetguard.store import outbox
from offsetguard.store.columns import chunks, from_text, record_from, to_json
from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.incidents import events_of
from offsetguard.store.models import LastNotificationRow, NotificationLogRow, OutboxRow, SendBudgetRow
from offsetguard.store.outbox import Lane

_MUTE_REASONS = frozenset(MuteReason)


def of_cluster(session: Session, cluster: str) -> dict[NotificationKey, Notified]:
    """Return the last notifications of a cluster."""
    row = LastNotificationRow
    return {
        NotificationKey(GroupKey(one.team, one.cluster, one.rule_id), one.channel, one.receiver): _notified(one)
        for one in session.scalars(select(row).where(row.cluster == cluster))
    }


def not_after(session: Session, cluster: str, moment: datetime) -> None:
    """Let nobody have been notified after a moment: a message of an interval that lay ahead must not delay the next."""
    row = LastNotificationRow
    later = update(row).where(row.cluster == cluster, row.notified_at > moment).values(notified_at=moment)
    session.execute(later.execution_options(synchronize_session=False))


def save(session: Session, changed: Mapping[NotificationKey, Notified]) -> None:
    """Write the last notifications that changed; what is empty is forgotten."""
    row = LastNotificationRow
    gone = [_digest(key) for key, last in changed.items() if last.is_empty]
    rows = [_values(key, last) for key, last in changed.items() if not last.is_empty]
    for some in chunks(gone):
        session.execute(delete(row).where(row.key.in_(some)))
    clusters = {key.group.cluster for key in changed}
    known = set(session.scalars(select(row.key).where(row.cluster.in_(clusters))))
    if new := [one for one in rows if one["key"] not in known]:
        session.execute(insert(row), new)
    if old := [one for one in rows if one["key"] in known]:
        session.execute(update(row), old)  # by primary key, many at once


@dataclass(frozen=True, slots=True)
class Recipient:
    """One receiver that is concerned by an incident."""

    team: str
    channel: Channel
    receiver: str
    notified: NotifiedIncident | None  # None: it was not
    muted: MuteReason | None  # why it hears nothing now; None: it does
    told_at: datetime | None  # by the clock: when it accepted the first message, or when that was decided on
    receipt: str | None = None  # of what it accepted last in the thread
    undelivered: str | None = None  # why the newest message of the thread did not reach it


def recipients_of(session: Session, incident: Incident) -> list[Recipient]:
    """Return who knows of an incident or for whom it is muted, by team; nobody once they were notified of its end."""
    subject, wanted = incident.subject, incident.incident_id
    accepted = _first_accepted(session, wanted)
    of_the_rule = {
        key: last for key, last in of_cluster(session, subject.cluster).items() if key.group.rule_id == subject.rule_id
    }
    undelivered = outbox.undelivered(session, {last.thread_key for last in of_the_rule.values()})
    return [
        Recipient(
            key.group.team,
            key.channel,
            key.receiver,
            known := last.firing.get(wanted),
            last.muted.get(wanted),
            None if known is None else accepted.get((key.channel, key.receiver), known.severity_notified_at),
            _newest_receipt(session, last.thread_key, key.receiver),
            undelivered.get((last.thread_key, key.channel, key.receiver)),
        )
        for key, last in sorted(
            of_the_rule.items(), key=lambda item: (item[0].group.team, item[0].channel, item[0].receiver)
        )
        if wanted in last.firing or wanted in last.muted
    ]


def _newest_receipt(session: Session, thread_key: str, receiver: str) -> str | None:
    row = NotificationLogRow
    of_thread = select(row.receipt).where(row.thread_key == thread_key, row.receiver == receiver)
    return session.scalar(of_thread.order_by(row.id.desc()).limit(1)) if thread_key else None


def _first_accepted(session: Session, incident_id: str) -> dict[tuple[str, str], datetime]:
    """Return when each receiver (channel and name) accepted the first message that named an incident."""
    first: dict[tuple[str, str], datetime] = {}
    for event in events_of(session, incident_id):
        if event.kind is EventKind.NOTIFIED and isinstance(event.text, Sentence):
            channel = event.text.figures["channel"].key.removeprefix("channel_")
            first.setdefault((channel, event.text.figures["receiver"]), event.at)
    return first


def thread(engine: Engine, *, thread_key: str, channel: Channel, receiver: str) -> list[NotificationLogRow]:
    """Return what a receiver accepted in one thread, oldest first: the parent, then its replies, without details."""
    row = NotificationLogRow
    query = (
        select(row)
        .join(OutboxRow, OutboxRow.id == row.outbox_id)
        .where(row.thread_key == thread_key, row.receiver == receiver, row.channel == channel, ~OutboxRow.is_details)
        .order_by(row.id)
    )
    with reading(engine) as session:
        return list(session.scalars(query))


def newest_receipt(engine: Engine, *, channel: Channel, receiver: str) -> str | None:
    """Return the receipt of what a receiver accepted last, in whatever thread."""
    row = NotificationLogRow
    query = select(row.receipt).where(row.channel == channel, row.receiver == receiver).order_by(row.id.desc())
    with reading(engine) as session:
        return session.scalar(query.limit(1))


def _values(key: NotificationKey, last: Notified) -> dict[str, Any]:
    return {
        "key": _digest(key),
        "team": key.group.team,
        "cluster": key.group.cluster,
        "rule_id": key.group.rule_id,
        "channel": key.channel,
        "receiver": key.receiver,
        "notified_at": last.at,
        "thread_key": last.thread_key,
        "firing_json": json.dumps(to_json(last.firing), sort_keys=True),
        "muted_json": json.dumps(to_json(last.muted), sort_keys=True),
        "repeat_count": last.repeat_count,
        "ended": None if last.ended is None else last.ended.value,
    }


def _notified(row: LastNotificationRow) -> Notified:
    firing = from_text(row.firing_json)
    return Notified(
        at=row.notified_at,
        thread_key=row.thread_key,
        firing={incident_id: record_from(NotifiedIncident, one) for incident_id, one in firing.items()},
        muted={
            incident_id: MuteReason(reason)
            for incident_id, reason in from_text(row.muted_json).items()
            if reason in _MUTE_REASONS  # else of a release that knows further ones
        },
        repeat_count=row.repeat_count,
        ended=None if row.ended is None else Severity(row.ended),
    )


def _digest(key: NotificationKey) -> str:
    group = key.group
    return digest_of(group.team, group.cluster, group.rule_id, key.channel, key.receiver)


BURST = 3.0  # Feishu takes 5 in a second
_SHARE = 0.9


def wait_for_one(engine: Engine, lane: Lane, *, per_minute: int, now: datetime) -> timedelta:
    """Return how long it is until one more message may be sent; zero: at once."""
    with reading(engine) as session:
        row = session.get(SendBudgetRow, tuple(lane))
        lacks = 0.0 if row is None else max(0.0, 1.0 - _left(row, per_minute, now))
    return timedelta(seconds=lacks / _per_second(per_minute))


def take_one(engine: Engine, lane: Lane, *, per_minute: int, now: datetime) -> None:
    """Count a message that is sent now."""
    with writing(engine) as session:
        serialize(session, f"send budget of {lane.channel} {lane.receiver}")
        row = session.get(SendBudgetRow, tuple(lane))
        left = BURST if row is None else _left(row, per_minute, now)
        session.merge(SendBudgetRow(channel=lane.channel, receiver=lane.receiver, left=left - 1.0, at=now))


def _left(row: SendBudgetRow, per_minute: int, now: datetime) -> float:
    passed_s = max((now - row.at).total_seconds(), 0.0)  # the database's clock may have been put back
    return min(BURST, row.left + passed_s * _per_second(per_minute))


def _per_second(per_minute: int) -> float:
    return (_SHARE * per_minute - BURST) / 60
