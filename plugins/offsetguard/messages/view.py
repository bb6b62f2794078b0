"""What a message says, before it is mail or Slack blocks: plain, serialisable, kept in the outbox as JSON."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from offsetguard.incidents.decision import NotificationReason

__all__ = ["FigureView", "IncidentView", "MessageView", "NotificationReason", "QueueView"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FigureView(_Record):
    """One line of the small table: label and formatted value."""

    label: str
    value: str


class QueueView(_Record):
    """One affected queue."""

    topic: str
    broker_name: str
    queue_id: int
    figures: tuple[FigureView, ...]


class IncidentView(_Record):
    """One incident as the reader sees it."""

    incident_id: str
    consumer_group: str | None
    topic: str | None
    severity: str
    state: str
    summary: str
    cause: str
    do_next: str
    opened_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None = None
    resolution: str | None = None  # e.g. "recovered", "consumer group was deleted"
    seen_count: int = 1  # intervals in which it was found
    peak: str | None = None  # the worst figure so far, formatted
    figures: tuple[FigureView, ...] = ()
    queues: tuple[QueueView, ...] = ()  # worst first, capped
    queue_count: int = 0  # all of them
    explains: tuple[str, ...] = ()  # findings that are named here and nowhere else, capped
    explained_count: int = 0
    cannot_tell: tuple[str, ...] = ()  # what could not be told about the same group or brokers, capped
    cannot_tell_count: int = 0


class MessageView(_Record):
    """One message: (team, cluster, rule), worst incident first."""

    team: str
    cluster: str
    rule_id: str
    severity: str  # the worst of what fires, or of what resolved when nothing fires
    title: str  # a few words: what is wrong
    reason: NotificationReason
    interval_start: datetime
    thread_key: str  # equal for all messages about the same firing spell
    firing: tuple[IncidentView, ...] = ()
    resolved: tuple[IncidentView, ...] = ()
    page_url: str | None = None  # the Airflow UI
    data_docs_url: str | None = None
