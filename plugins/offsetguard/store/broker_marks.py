"""How far the commit logs of masters reached in the last days: an hour apart, and when their oldest byte had moved."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from offsetguard.model.offsets import MASTER_ID
from offsetguard.model.remembered import BrokerMark
from offsetguard.store.columns import NAME_LIMIT, count_changed
from offsetguard.store.models import BrokerMarkRow
from offsetguard.tables.broker_facts import BrokerFacts

KEPT_FOR = timedelta(days=9)
_APART = timedelta(hours=1)
_MOVES_APART = timedelta(minutes=10)


def before(session: Session, cluster: str, moment: datetime) -> tuple[BrokerMark, ...]:
    """Return the marks of a cluster's masters in the KEPT_FOR before a moment, oldest first."""
    row = BrokerMarkRow
    query = (
        select(row)
        .where(row.cluster == cluster, row.at < moment, row.at >= moment - KEPT_FOR)
        .order_by(row.at, row.broker_name)
    )
    return tuple(
        BrokerMark(
            broker_name=one.broker_name,
            at=one.at,
            commit_log_min_offset=one.commit_log_min_offset,
            commit_log_max_offset=one.commit_log_max_offset,
            earliest_message_at=one.earliest_message_at,
            disk_ratio=one.disk_ratio,
        )
        for one in session.scalars(query)
    )


def record(session: Session, cluster: str, brokers: Iterable[BrokerFacts], known: Iterable[BrokerMark]) -> None:
    """Mark the masters that are due; `known`: their marks so far, oldest first."""
    newest = {mark.broker_name: mark for mark in known}
    for broker in brokers:
        mark = _mark(broker)
        if mark is not None and is_due(newest.get(mark.broker_name), mark):
            session.merge(
                BrokerMarkRow(
                    cluster=cluster,
                    broker_name=mark.broker_name,
                    at=mark.at,
                    commit_log_min_offset=mark.commit_log_min_offset,
                    commit_log_max_offset=mark.commit_log_max_offset,
                    earliest_message_at=mark.earliest_message_at,
                    disk_ratio=mark.disk_ratio,
                )
            )


def is_due(newest: BrokerMark | None, mark: BrokerMark) -> bool:
    """Whether a mark tells something: an hour has passed, or the oldest byte has moved."""
    if newest is None:
        return True
    moved = mark.commit_log_min_offset != newest.commit_log_min_offset
    return mark.at - newest.at >= (_MOVES_APART if moved else _APART)


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the marks before a moment; returns how many."""
    return count_changed(session, delete(BrokerMarkRow).where(BrokerMarkRow.at < moment))


def _mark(broker: BrokerFacts) -> BrokerMark | None:
    low, high, at = broker.commit_log_min_offset, broker.commit_log_max_offset, broker.read_at
    if broker.broker_id != MASTER_ID or len(broker.broker_name) > NAME_LIMIT or low is None or high is None:
        return None  # a name that the column cannot hold goes without marks, too
    if at is None:
        return None
    return BrokerMark(broker.broker_name, at, low, high, broker.earliest_message_at, broker.commit_log_disk_ratio)
