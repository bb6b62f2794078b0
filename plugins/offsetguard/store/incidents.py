"""Incidents in the database: the columns that queries need, the evidence as JSON, and the history of each.

Its `rule_id` is that of the rule in whose words it stands now: what lists, silences and people ask for. The rule that
opened it, by which it is found again, stands in the record. The history is added in the transaction of what happened,
and never changed.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Select,
    and_,
    case,
    delete,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from offsetguard.catalogue import Sentence
from offsetguard.catalogue.text import Readable
from offsetguard.model.incident import EventKind, Incident, IncidentEvent, Subject
from offsetguard.model.verdicts import Severity
from offsetguard.store.columns import NAME_LIMIT, chunks, fields_from, from_text, has_part, record_of, storable, to_json
from offsetguard.store.models import IncidentEventRow, IncidentRow

_IN_THE_RECORD = (
    *("evidence", "peak_figure", "peak", "unknown_because", "resolution"),
    *("good_count", "counted_at", "escalation_level", "changes"),
    *("first_read_at", "newest_read_at", "end_read_at"),
)
_SEVERITY_RANK = case({severity.value: severity.rank for severity in Severity}, value=IncidentRow.severity, else_=0)


def open_incidents(session: Session, cluster: str) -> list[Incident]:
    """Return the incidents of a cluster that are not over, pending ones too, oldest first."""
    query = (
        select(IncidentRow)
        .where(IncidentRow.cluster == cluster, IncidentRow.resolved_at.is_(None))
        .order_by(IncidentRow.opened_at, IncidentRow.incident_id)
    )
    return [_from_row(row) for row in session.scalars(query)]


def by_id(session: Session, incident_ids: Collection[str]) -> dict[str, Incident]:
    """Return incidents by their ids; an id that nobody knows is left out."""
    found: dict[str, Incident] = {}
    for some in chunks(incident_ids):
        rows = session.scalars(select(IncidentRow).where(IncidentRow.incident_id.in_(some)))
        found.update({row.incident_id: _from_row(row) for row in rows})
    return found


def save(session: Session, incidents: Collection[Incident]) -> None:
    """Write incidents: new ones are added, known ones replaced. Resolved ones first, they make room for new ones."""
    known: set[str] = set()
    for some in chunks([incident.incident_id for incident in incidents]):
        known.update(session.scalars(select(IncidentRow.incident_id).where(IncidentRow.incident_id.in_(some))))
    for still_open in (False, True):
        values = [_to_values(incident) for incident in incidents if incident.is_over is not still_open]
        if new := [row for row in values if row["incident_id"] not in known]:
            session.execute(insert(IncidentRow), new)
        if old := [row for row in values if row["incident_id"] in known]:
            session.execute(update(IncidentRow), old)  # by primary key, many at once


def forget(session: Session, incident_ids: Collection[str]) -> None:
    """Remove pending incidents that went away before anybody heard of them."""
    for some in chunks(incident_ids):
        session.execute(delete(IncidentRow).where(IncidentRow.incident_id.in_(some), IncidentRow.is_pending.is_(True)))


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """What is told of an open incident without its evidence: of thousands it is read at once."""

    incident_id: str
    cluster: str
    consumer_group: str | None
    topic: str | None
    rule_id: str
    severity: Severity

    @property
    def subject(self) -> Subject:
        """What it is about."""
        return Subject(self.cluster, self.rule_id, self.consumer_group, self.topic)


def all_open(session: Session) -> list[OpenIncident]:
    """Return what is open in all clusters, the longest open first."""
    row = IncidentRow
    columns = (row.incident_id, row.cluster, row.consumer_group, row.topic, row.rule_id, row.severity)
    query = select(*columns).where(row.resolved_at.is_(None), row.is_pending.is_(False))
    found = session.execute(query.order_by(row.opened_at, row.incident_id))
    return [
        OpenIncident(one, cluster, group, topic, rule, Severity(severity))
        for one, cluster, group, topic, rule, severity in found
    ]


@dataclass(frozen=True, slots=True)
class Which:
    """Which incidents; what is empty or None asks for nothing. Pending ones are nobody's concern."""

    cluster: str = ""
    rule_id: str = ""
    severity: str = ""
    search: str = ""  # part of a group's or topic's name in any case, or the beginning of an id
    groups: Mapping[str, Collection[str | None]] | None = None  # by cluster; None: what is about no group
    open_at: datetime | None = None


def listed(session: Session, which: Which, *, over: bool, limit: int, offset: int = 0) -> list[Incident]:
    """Return open incidents, most severe first, then the longest open; or those that are over, what ended last first.

    Whatever is asked for is found in one index: rows with their evidence are read of those that are returned only.
    """
    row = IncidentRow
    query = select(row.incident_id).where(*_asked(session, which), _is_over(over))
    if over:
        query = query.order_by(row.resolved_at.desc(), row.incident_id.desc())
    else:
        query = query.order_by(_SEVERITY_RANK.desc(), row.opened_at, row.incident_id)
    ids = session.scalars(query.limit(limit).offset(offset)).all()
    found = by_id(session, ids)
    return [found[one] for one in ids]


def count(session: Session, which: Which, *, over: bool) -> int:
    """Return how many incidents `listed` would return without a limit."""
    return session.scalar(select(func.count()).where(*_asked(session, which), _is_over(over))) or 0


def rules(session: Session) -> list[tuple[str, str]]:
    """Return every cluster and rule that incidents are of together."""
    query = select(IncidentRow.cluster, IncidentRow.rule_id).where(IncidentRow.is_pending.is_(False)).distinct()
    return [(cluster, rule_id) for cluster, rule_id in session.execute(query)]


def groups(session: Session) -> list[tuple[str, str | None]]:
    """Return every cluster and consumer group that incidents are about together; None: about no group."""
    query = select(IncidentRow.cluster, IncidentRow.consumer_group).where(IncidentRow.is_pending.is_(False)).distinct()
    return [(cluster, group) for cluster, group in session.execute(query)]


@dataclass(frozen=True, slots=True)
class Seen:
    """What incidents were about, without their evidence: of thousands it is read at once."""

    subject: Subject
    severity: Severity  # the newest of each
    open_count: int
    ended_at: datetime | None  # when the last one ended; None: none did since the moment that was asked for


def seen_since(session: Session, moment: datetime) -> list[Seen]:
    """Return what the incidents were about that are open, or ended at a moment or later."""
    row = IncidentRow
    subject = (row.cluster, row.rule_id, row.consumer_group, row.topic)
    open_count = func.sum(case((row.resolved_at.is_(None), 1), else_=0))
    query = select(*subject, row.severity, open_count, func.max(row.resolved_at)).where(
        row.is_pending.is_(False), or_(row.resolved_at.is_(None), row.resolved_at >= moment)
    )
    found = session.execute(query.group_by(*subject, row.severity))
    return [Seen(Subject(*about), Severity(severity), count, ended) for *about, severity, count, ended in found]


def resolved_since(session: Session, cluster: str, moment: datetime) -> list[Incident]:
    """Return a cluster's incidents that ended at a moment or later, oldest first."""
    query = select(IncidentRow).where(IncidentRow.cluster == cluster, IncidentRow.resolved_at >= moment)
    return [_from_row(row) for row in session.scalars(query.order_by(IncidentRow.resolved_at))]


def open_within(session: Session, start: datetime, end: datetime) -> list[Incident]:
    """Return what was open at some time from a moment up to another one, oldest first."""
    still_open = or_(IncidentRow.resolved_at.is_(None), IncidentRow.resolved_at >= start)
    query = _shown(None).where(IncidentRow.opened_at < end, still_open)
    return [_from_row(row) for row in session.scalars(query.order_by(IncidentRow.opened_at, IncidentRow.incident_id))]


def severities_within(session: Session, start: datetime, end: datetime) -> dict[str, Severity]:
    """Return the worst severity of a span of each incident whose severity has changed since its start.

    All others had throughout the one that they have.
    """
    row, worst = IncidentEventRow, dict[str, Severity]()
    query = select(row).where(row.kind.in_((EventKind.WORSE, EventKind.BETTER)), row.at >= start)
    for event in map(_event, session.scalars(query.order_by(row.at, row.id))):
        figures = event.text.figures if isinstance(event.text, Sentence) else {}
        if "was" in figures:  # else another stage of it, as severe
            was, now = (Severity(figures[name].key.removeprefix("severity_")) for name in ("was", "now"))
            had = (worst.get(event.incident_id, was), *((now,) if event.at < end else ()))
            worst[event.incident_id] = max(had, key=lambda one: one.rank)
    return worst


def of_group(session: Session, cluster: str, consumer_group: str, since: datetime, *, limit: int) -> list[Incident]:
    """Return a group's incidents that were open at a moment or later, the newest first."""
    still_open = or_(IncidentRow.resolved_at.is_(None), IncidentRow.resolved_at >= since)
    query = _shown(cluster).where(IncidentRow.consumer_group == consumer_group, still_open)
    query = query.order_by(IncidentRow.opened_at.desc(), IncidentRow.incident_id).limit(limit)
    return [_from_row(row) for row in session.scalars(query)]


def beginning_with(session: Session, start: str, *, limit: int) -> list[Incident]:
    """Return the newest incidents whose id begins so: people type the first few digits."""
    query = _shown(None).where(IncidentRow.incident_id.startswith(start, autoescape=True))
    query = query.order_by(IncidentRow.opened_at.desc(), IncidentRow.incident_id).limit(limit)
    return [_from_row(row) for row in session.scalars(query)]


def record_events(session: Session, events: Iterable[IncidentEvent]) -> None:
    """Add to the history of incidents, in the order in which the events are given."""
    rows = [
        {
            "incident_id": event.incident_id,
            "at": event.at,
            "kind": event.kind,
            "text": storable(event.text),
            "said_json": json.dumps(to_json(event.text)) if isinstance(event.text, Readable) else None,
            "by": None if event.by is None else storable(event.by)[:NAME_LIMIT],
        }
        for event in events
    ]
    if rows:
        session.execute(insert(IncidentEventRow), rows)


def events_of(session: Session, incident_id: str, *, limit: int | None = None) -> list[IncidentEvent]:
    """Return what happened to an incident, first things first; `limit`: those that were written last.

    By their moments, of one moment as they were written: a minute is judged after people have done something in it.
    """
    row = IncidentEventRow
    query = select(row).where(row.incident_id == incident_id).order_by(row.id.desc()).limit(limit)
    return [_event(one) for one in sorted(session.scalars(query), key=lambda one: (one.at, one.id))]


def _event(row: IncidentEventRow) -> IncidentEvent:
    said = row.text if row.said_json is None else from_text(row.said_json)
    return record_of(IncidentEvent, row, text=said)


def _shown(cluster: str | None) -> Select[IncidentRow]:
    query = select(IncidentRow).where(IncidentRow.is_pending.is_(False))
    return query if cluster is None else query.where(IncidentRow.cluster == cluster)


def _is_over(over: bool) -> ColumnElement[bool]:
    return IncidentRow.resolved_at.is_not(None) if over else IncidentRow.resolved_at.is_(None)


def _asked(session: Session, which: Which) -> list[ColumnElement[bool]]:
    row = IncidentRow
    conditions: list[ColumnElement[bool]] = [row.is_pending.is_(False)]
    equal = ((row.cluster, which.cluster), (row.rule_id, which.rule_id), (row.severity, which.severity))
    conditions += [column == value for column, value in equal if value]
    if which.search:
        names = [has_part(session, column, which.search) for column in (row.consumer_group, row.topic)]
        conditions.append(or_(*names, row.incident_id.startswith(which.search, autoescape=True)))
    if which.groups is not None:
        owned = (and_(row.cluster == one, _of_groups(session, groups)) for one, groups in which.groups.items())
        conditions.append(or_(false(), *owned))
    if which.open_at is not None:
        conditions += [row.opened_at <= which.open_at, or_(row.resolved_at.is_(None), row.resolved_at >= which.open_at)]
    return conditions


def _of_groups(session: Session, groups: Collection[str | None]) -> ColumnElement[bool]:
    """Whether an incident is about one of some groups: thousands, as one parameter, since those are limited."""
    group: InstrumentedAttribute[str | None] = IncidentRow.consumer_group
    names = literal(sorted(one for one in groups if one is not None), JSON)
    is_sqlite = session.connection().dialect.name == "sqlite"
    each = (func.json_each if is_sqlite else func.json_array_elements_text)(names).table_valued("value")
    if not is_sqlite:
        each = each.render_derived()
    named = group.in_(select(each.c.value))
    return or_(named, group.is_(None)) if None in groups else named


def _to_values(incident: Incident) -> dict[str, Any]:
    subject = incident.subject
    record = {**{name: getattr(incident, name) for name in _IN_THE_RECORD}, "opened_by": subject.rule_id}
    return {
        "incident_id": incident.incident_id,
        "open_key": None if incident.is_over else subject.key,
        "cluster": subject.cluster,
        "rule_id": incident.shown_by,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "severity": incident.evidence.severity.value,
        "state": incident.state,
        "opened_at": incident.opened_at,
        "last_seen_at": incident.last_seen_at,
        "seen_count": incident.seen_count,
        "unknown_since": incident.unknown_since,
        "resolved_at": incident.resolved_at,
        "resolution": None if incident.resolution is None else str(incident.resolution),
        "is_pending": incident.is_pending,
        "record_json": json.dumps(to_json(record)),
    }


def _from_row(row: IncidentRow) -> Incident:
    record = from_text(row.record_json)
    subject = Subject(row.cluster, record.get("opened_by", row.rule_id), row.consumer_group, row.topic)
    return record_of(Incident, row, subject=subject, **fields_from(Incident, record))
