"""Incidents as messages show them, and one mail instead of many: formatted figures, capped evidence, worst first.

A digest takes the place of the messages that it is made of; each cause is a section with its worst incidents, and
what is not listed is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from offsetguard.catalogue import Catalogue, catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.config import Config
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.decide.outlooks import Outlooks
from offsetguard.judge.evidence.lookups import SILENT_AT_ZERO
from offsetguard.judge.registry import rule_title
from offsetguard.model.incident import Incident
from offsetguard.model.notification import GroupKey
from offsetguard.model.silence import Acknowledgement
from offsetguard.model.verdicts import Figure, QueueEvidence, Severity
from offsetguard.model.views import (
    ACKNOWLEDGE,
    SILENCE,
    DigestSection,
    DigestView,
    FigureView,
    IncidentView,
    MessageView,
    NotificationReason,
    QueueView,
    data_docs_url,
    incident_url,
)

QUEUES_SHOWN = 20
DETAILED_INCIDENTS = 50  # further ones are listed without their queues: 5,000 groups must not give 30 MB of mail
INCIDENTS_KEPT = 200  # further ones are only counted
PICTURED_INCIDENTS = 3  # with the curve of their lag, and forecasts


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """What a message says beside what it is about; everything has a default."""

    language: str = "en"
    time_zone: str = "UTC"
    outlooks: Outlooks | None = None  # None: no curves and no forecasts
    muted: Mapping[str, int] = field(default_factory=dict)  # firing incident id -> incidents that it mutes
    muted_when_resolved: Mapping[str, str] = field(default_factory=dict)  # resolved incident id -> what muted it then
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)  # by incident id
    repeat_count: int = 0
    escalated_from: str | None = None
    late: bool = False


def message_view(
    key: GroupKey,
    *,
    firing: Sequence[Incident],
    resolved: Sequence[tuple[Incident, str | None]],
    reason: NotificationReason,
    interval_start: datetime,
    thread_key: str,
    config: Config,
    context: MessageContext | None = None,
) -> MessageView:
    """Return what one message says; `firing`: worst first; `resolved` comes with how each ended."""
    context = context or MessageContext()
    page_url = config.delivery.page_url
    locale = Locale.of(context.language, context.time_zone)
    one_of = _Writer(context, page_url, interval_start, catalogue(locale))
    groups = {one.subject.consumer_group for one in (firing or [one for one, _ in resolved])} - {None}
    return MessageView(
        team=key.team,
        cluster=key.cluster,
        rule_id=key.rule_id,
        severity=_worst([*firing] or [incident for incident, _ in resolved]).value,
        title=rule_title(key.rule_id, locale.language),
        reason=reason,
        interval_start=interval_start,
        thread_key=thread_key,
        firing=tuple(one_of.incident(one, place=n) for n, one in enumerate(firing[:INCIDENTS_KEPT])),
        resolved=tuple(
            one_of.incident(one, place=n, ended=how or "") for n, (one, how) in enumerate(resolved[:INCIDENTS_KEPT])
        ),
        page_url=page_url,
        data_docs_url=None if page_url is None else data_docs_url(page_url, key.cluster),
        language=context.language,
        time_zone=context.time_zone,
        hidden_firing=max(0, len(firing) - INCIDENTS_KEPT),
        hidden_resolved=max(0, len(resolved) - INCIDENTS_KEPT),
        group_count=len(groups),
        muted_count=sum(context.muted.values()),
        repeat_count=context.repeat_count,
        escalated_from=context.escalated_from,
        late=context.late,
    )


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes incidents as one message shows them."""

    context: MessageContext
    page_url: str | None
    interval_start: datetime
    words: Catalogue

    def incident(self, incident: Incident, *, place: int, ended: str | None = None) -> IncidentView:
        """`place`: in the message, from 0; `ended`: how, where it is over for its readers; may be empty."""
        evidence, subject, context = incident.evidence, incident.subject, self.context
        detailed = place < DETAILED_INCIDENTS
        outlooks = context.outlooks if ended is None and place < PICTURED_INCIDENTS else None
        said = IncidentWords(incident, self.words.locale)
        resolution = said.resolution or (ended and self.words.read(ended))
        acknowledged = context.acknowledged.get(incident.incident_id)
        page = None if self.page_url is None else incident_url(self.page_url, incident.incident_id)
        about = subject.consumer_group, subject.topic
        return IncidentView(
            incident_id=incident.incident_id,
            consumer_group=subject.consumer_group,
            topic=subject.topic,
            severity=evidence.severity.value,
            state=incident.state,
            summary=said.summary,
            cause=said.cause,
            do_next=said.do_next,
            opened_at=incident.opened_at,
            last_seen_at=incident.last_seen_at,
            resolved_at=incident.resolved_at or (self.interval_start if resolution else None),
            resolution=resolution or None,
            seen_count=incident.seen_count,
            peak=said.peak,
            figures=self._figures(evidence.figures),
            queues=tuple(self._queue(queue) for queue in evidence.queues[:QUEUES_SHOWN]) if detailed else (),
            queue_count=evidence.queue_count,
            explains=tuple(said.explains()) if detailed else (),
            explained_count=evidence.explained_count,
            cannot_tell=tuple(said.cannot_tell()) if detailed else (),
            cannot_tell_count=evidence.cannot_tell_count,
            lag_curve=outlooks.lag_curve(*about) if outlooks else (),
            drain_ms=outlooks.drain_ms(*about) if outlooks and "drain_low_ms" not in evidence.figures else None,
            loss_ms=outlooks.loss_ms(*about) if outlooks and "loss_low_ms" not in evidence.figures else None,
            muted_count=context.muted.get(incident.incident_id, 0),
            muted_when_resolved=self.words.read(context.muted_when_resolved.get(incident.incident_id, "")) or None,
            acknowledged_at=acknowledged.at if acknowledged else None,
            acknowledged_by=acknowledged.author if acknowledged else None,
            acknowledgement=(acknowledged.comment or None) if acknowledged else None,
            incident_url=page,
            acknowledge_url=page and f"{page}#{ACKNOWLEDGE}",
            silence_url=page and f"{page}#{SILENCE}",
        )

    def _figures(self, figures: Mapping[str, Figure]) -> tuple[FigureView, ...]:
        """Leave out what is not known or did not happen: a table of unknowns and zeros hides what did."""
        return tuple(
            FigureView(label=self.words.figure_label(name), value=self.words.figure(name, figure))
            for name, figure in figures.items()
            if figure is not None and (figure or name not in SILENT_AT_ZERO)
        )

    def _queue(self, queue: QueueEvidence) -> QueueView:
        return QueueView(
            topic=queue.message_queue.topic,
            broker_name=queue.message_queue.broker_name,
            queue_id=queue.message_queue.queue_id,
            figures=self._figures(queue.figures),
        )


def _worst(incidents: Sequence[Incident]) -> Severity:
    return max((one.evidence.severity for one in incidents), key=lambda severity: severity.rank, default=Severity.INFO)


INCIDENTS_PER_CAUSE = 5


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
