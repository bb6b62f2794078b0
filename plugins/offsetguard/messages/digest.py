"""One mail instead of many: what several causes would have told one receiver in one interval, worst first.

A digest takes the place of the messages that it is made of; each cause is a section with its worst incidents, and
what is not listed is counted.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 pydantic reads the annotation
from typing import TYPE_CHECKING, Literal

from offsetguard.messages.view import IncidentView, NotificationReason, Record, Saying
from offsetguard.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.messages.view import MessageView

DIGEST = "digest"  # stands where other messages have their rule id
INCIDENTS_PER_CAUSE = 5


class DigestSection(Saying):
    """One cause: what one message would have said, shortened."""

    rule_id: str
    title: str
    severity: str  # the worst of what fires, or of what resolved when nothing fires
    reason: NotificationReason
    thread_key: str
    firing: tuple[IncidentView, ...] = ()  # worst first, at most INCIDENTS_PER_CAUSE
    hidden_firing: int = 0
    resolved: tuple[IncidentView, ...] = ()
    hidden_resolved: int = 0
    group_count: int = 0  # consumer groups concerned, listed or not; 0: it is not about groups
    muted_count: int = 0
    repeat_count: int = 0
    escalated_from: str | None = None

    @property
    def firing_count(self) -> int:
        """All that fire, listed or not."""
        return len(self.firing) + self.hidden_firing

    @property
    def resolved_count(self) -> int:
        """All that resolved, listed or not."""
        return len(self.resolved) + self.hidden_resolved


class DigestView(Record):
    """One mail about several causes in one cluster and interval; carries what the outbox needs, as MessageView does."""

    kind: Literal["digest"] = "digest"
    team: str
    cluster: str
    rule_id: str = DIGEST
    severity: str
    interval_start: datetime
    thread_key: str
    sections: tuple[DigestSection, ...]  # worst first
    language: str = "en"
    time_zone: str = "UTC"
    page_url: str | None = None
    data_docs_url: str | None = None
    late: bool = False

    @property
    def firing(self) -> tuple[IncidentView, ...]:
        """What fires and is listed."""
        return tuple(incident for section in self.sections for incident in section.firing)

    @property
    def resolved(self) -> tuple[IncidentView, ...]:
        """What resolved and is listed."""
        return tuple(incident for section in self.sections for incident in section.resolved)


def digest(views: Sequence[MessageView], *, thread_key: str) -> DigestView:
    """Return one view for messages of one team, cluster and interval; raises ValueError when there is none."""
    if not views:
        raise ValueError("a digest needs at least one message")
    sections = tuple(sorted(map(_section, views), key=_worst_first))
    first = views[0]
    return DigestView(
        team=first.team,
        cluster=first.cluster,
        severity=sections[0].severity,
        interval_start=first.interval_start,
        thread_key=thread_key,
        sections=sections,
        language=first.language,
        time_zone=first.time_zone,
        page_url=first.page_url,
        data_docs_url=first.data_docs_url,
        late=any(view.late for view in views),
    )


def _section(view: MessageView) -> DigestSection:
    groups = {incident.consumer_group for incident in (*view.firing, *view.resolved)} - {None}
    return DigestSection(
        rule_id=view.rule_id,
        title=view.title,
        severity=view.severity,
        reason=view.reason,
        thread_key=view.thread_key,
        firing=tuple(map(_short, view.firing[:INCIDENTS_PER_CAUSE])),
        hidden_firing=view.hidden_firing + max(0, len(view.firing) - INCIDENTS_PER_CAUSE),
        resolved=tuple(map(_short, view.resolved[:INCIDENTS_PER_CAUSE])),
        hidden_resolved=view.hidden_resolved + max(0, len(view.resolved) - INCIDENTS_PER_CAUSE),
        group_count=view.group_count or len(groups),
        muted_count=view.muted_count,
        repeat_count=view.repeat_count,
        escalated_from=view.escalated_from,
    )


def _short(incident: IncidentView) -> IncidentView:
    return incident.model_copy(
        update={"queues": (), "explains": (), "explained_count": 0, "cannot_tell": (), "lag_curve": ()}
    )


def _worst_first(section: DigestSection) -> tuple[bool, int, int, str]:
    return (not section.firing, -Severity(section.severity).rank, -section.firing_count, section.rule_id)
