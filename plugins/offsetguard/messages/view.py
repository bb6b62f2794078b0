"""What a message says, before it is mail or Slack blocks: plain, serialisable, kept in the outbox as JSON.

Every field that came after the first release has a default: rows that an older release wrote are still read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from offsetguard.incidents.decision import NotificationReason

__all__ = [
    "FigureView",
    "IncidentView",
    "LagPoint",
    "MessageView",
    "NotificationReason",
    "QueueView",
    "Record",
    "Saying",
]

LAG_POINTS = 120  # of one curve: more cannot be told apart in the picture
LEAST_LAG_POINTS = 3  # fewer show no course


class Record(BaseModel):
    """Base of all views: unknown fields are errors, and nothing changes after it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FigureView(Record):
    """One line of the small table: label and formatted value."""

    label: str
    value: str


class QueueView(Record):
    """One affected queue."""

    topic: str
    broker_name: str
    queue_id: int
    figures: tuple[FigureView, ...]


class LagPoint(Record):
    """One sample of a lag curve."""

    at: datetime
    lag: int  # messages


class IncidentView(Record):
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
    lag_curve: tuple[LagPoint, ...] = ()  # oldest first, at most LAG_POINTS; empty: no picture
    drain_ms: tuple[int, int] | None = None  # low and high: until the backlog is gone
    loss_ms: tuple[int, int] | None = None  # low and high: until retention deletes what was not consumed
    muted_count: int = 0  # incidents below this one that are not told because of it
    muted_when_resolved: str | None = None  # what muted it when it ended, e.g. "silence of alice: deployment"
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    acknowledgement: str | None = None  # the comment
    incident_url: str | None = None  # its page
    acknowledge_url: str | None = None
    silence_url: str | None = None


class Saying(Record):
    """What a message says of one cause, by itself or within a digest."""

    @model_validator(mode="before")
    @classmethod
    def _drop_what_is_no_more(cls, given: Any) -> Any:
        """Rows that were written before a field was taken out are still read."""
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if name not in _NO_MORE}
        return given


_NO_MORE = frozenset({"muted_by"})  # fields of older rows


class MessageView(Saying):
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
    language: str = "en"
    time_zone: str = "UTC"  # IANA name; in which the reader sees moments
    hidden_firing: int = 0  # further incidents of this cause that are not in `firing`
    hidden_resolved: int = 0
    group_count: int = 0  # consumer groups concerned, where incidents are hidden; 0: count those that are listed
    muted_count: int = 0  # incidents that are not told because of what stands here
    repeat_count: int = 0  # how often it was told again without anything new
    escalated_from: str | None = None  # the team that did not react
    late: bool = False  # about an interval that is long gone (replay or backfill, when asked for)
