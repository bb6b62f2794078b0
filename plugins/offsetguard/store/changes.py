"""What changed in clusters, as it was found in published intervals; see `facts/changes.py`."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, Select, and_, delete, func, or_, select
from sqlalchemy.orm import Session

from offsetguard.model.incident import Kind, NamedChange
from offsetguard.store.columns import NAME_LIMIT, count_changed, from_text, has_part, storable, to_json
from offsetguard.store.database import reading
from offsetguard.store.models import ChangeRow, PublishedIntervalRow, RecordedChangesRow

_NAMES = ("consumer_group", "topic", "broker_name")


@dataclass(frozen=True, slots=True)
class Asked:
    """Changes of a cluster at moments in [since, until]; empty: of any. What is nobody's is always among them."""

    cluster: str
    since: datetime
    until: datetime
    consumer_group: str = ""
    topic: str = ""
    search: str = ""  # part of the group's, topic's or broker's name, in any case
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class About:
    """Whose changes concern an incident, or a group: its own, those of its topics and of its brokers."""

    consumer_group: str | None
    topics: Iterable[str]
    broker_names: Iterable[str]
    in_any_topic: bool = False  # the group's changes of other topics, too


def replace(
    session: Session, cluster: str, interval_start: datetime, found: Iterable[NamedChange], run_id: str | None
) -> None:
    """Write down what was found in an interval instead of what was.

    `run_id`: that published what was compared; None: it could not be, and is to be looked at again. A change that
    another interval showed, too, stands once, as it was found last.
    """
    whose = {"cluster": cluster, "interval_start": interval_start}
    for model in (ChangeRow, RecordedChangesRow):
        session.execute(delete(model).filter_by(**whose))
    for one in found:
        names = {name: storable(getattr(one, name) or "")[:NAME_LIMIT] for name in _NAMES}
        what = json.dumps(to_json(one.what), ensure_ascii=False)
        row = ChangeRow(**whose, at=one.at, identity=_identity(one, names), kind=one.kind, what_json=what, **names)
        session.merge(row)
    if run_id is not None:
        session.add(RecordedChangesRow(**whose, run_id=run_id))


def _identity(change: NamedChange, names: dict[str, str]) -> str:
    """Return a digest of what a change is of; how many queues it was of is found out later."""
    figures = to_json(getattr(change.what, "figures", change.what))
    if isinstance(figures, dict):
        figures.pop("count", None)
    said = json.dumps([getattr(change.what, "key", None), figures, names], sort_keys=True)
    return hashlib.md5(said.encode(), usedforsecurity=False).hexdigest()


def unrecorded(engine: Engine, cluster: str, published_since: datetime, *, limit: int) -> list[datetime]:
    """Return the starts of intervals of which it is not written down what changed, newest first."""
    row, recorded = PublishedIntervalRow, RecordedChangesRow
    same = and_(
        recorded.cluster == row.cluster,
        recorded.interval_start == row.interval_start,
        recorded.run_id == row.run_id,
    )
    query = select(row.interval_start).where(
        row.cluster == cluster, row.published_at >= published_since, ~select(recorded).where(same).exists()
    )
    with reading(engine) as session:
        return list(session.scalars(query.order_by(row.interval_start.desc()).limit(limit)))


def unknown_count(session: Session, cluster: str, since: datetime, until: datetime) -> int:
    """Return how many published intervals of [since, until) there are of which it is not known what changed."""
    known, published = (
        session.scalar(
            select(func.count()).where(
                model.cluster == cluster, model.interval_start >= since, model.interval_start < until
            )
        )
        for model in (RecordedChangesRow, PublishedIntervalRow)
    )
    return max(0, (published or 0) - (known or 0))


def count(session: Session, asked: Asked) -> int:
    """Return how many there are."""
    return session.scalar(select(func.count()).where(*_conditions(session, asked))) or 0


def listed(session: Session, asked: Asked, *, limit: int, offset: int = 0) -> tuple[NamedChange, ...]:
    """Return them newest first, of one moment by name."""
    return _read(session, select(ChangeRow).where(*_conditions(session, asked)), limit, offset)


def around(
    session: Session, cluster: str, since: datetime, until: datetime, about: About, *, limit: int
) -> tuple[NamedChange, ...]:
    """Return the newest changes in [since, until] that concern it."""
    row, topics = ChangeRow, sorted(about.topics)
    no_group, no_topic, no_broker = row.consumer_group == "", row.topic == "", row.broker_name == ""
    theirs = [
        and_(no_group, no_topic, no_broker),
        and_(no_group, row.topic.in_(topics)),
        and_(no_group, row.broker_name.in_(sorted(about.broker_names))),
    ]
    if about.consumer_group is not None:
        theirs.append(row.consumer_group == about.consumer_group)
        if not about.in_any_topic:
            theirs[-1] &= or_(no_topic, row.topic.in_(topics))
    return _read(session, select(row).where(*_within(cluster, since, until), or_(*theirs)), limit)


def delete_older(session: Session, moment: datetime) -> int:
    """Delete what was found in intervals that began before a moment; returns how many changes."""
    session.execute(delete(RecordedChangesRow).where(RecordedChangesRow.interval_start < moment))
    return count_changed(session, delete(ChangeRow).where(ChangeRow.interval_start < moment))


def _within(cluster: str, since: datetime, until: datetime) -> tuple[ColumnElement[bool], ...]:
    return ChangeRow.cluster == cluster, ChangeRow.at >= since, ChangeRow.at <= until


def _conditions(session: Session, asked: Asked) -> list[ColumnElement[bool]]:
    row = ChangeRow
    names = [getattr(row, name) for name in _NAMES]
    nobodys = and_(*(name == "" for name in names))
    given: list[ColumnElement[bool]] = []
    if asked.consumer_group:
        given.append(row.consumer_group == asked.consumer_group)
    if asked.topic:
        given.append(row.topic == asked.topic)
    if asked.search:
        given.append(or_(*(has_part(session, name, asked.search) for name in names)))
    if asked.kind is not None:
        given.append(row.kind == asked.kind)
    return [*_within(asked.cluster, asked.since, asked.until), *([or_(nobodys, and_(*given))] if given else [])]


def _read(session: Session, query: Select[ChangeRow], limit: int, offset: int = 0) -> tuple[NamedChange, ...]:
    row = ChangeRow
    order = (row.at.desc(), row.consumer_group, row.topic, row.broker_name, row.identity)
    rows: Iterable[ChangeRow] = session.scalars(query.order_by(*order).limit(limit).offset(offset))
    return tuple(map(_record, rows))


def _record(row: ChangeRow) -> NamedChange:
    names: dict[str, Any] = {name: getattr(row, name) or None for name in _NAMES}
    return NamedChange(row.at, from_text(row.what_json), row.kind, **names)
