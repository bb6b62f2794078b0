"""Incidents as a message shows them: formatted figures, capped evidence, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from offsetguard.messages.view import FigureView, IncidentView, MessageView, QueueView
from offsetguard.page_addresses import DATA_DOCS_PATH, URL_PREFIX
from offsetguard.rules.figures import LABELS, SILENT_AT_ZERO, format_figure
from offsetguard.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from offsetguard.config import Config
    from offsetguard.incidents.decision import NotificationReason
    from offsetguard.incidents.grouping import GroupKey
    from offsetguard.incidents.incident import Incident
    from offsetguard.rules.rule import Explained, Figure, QueueEvidence

QUEUES_SHOWN = 20
DETAILED_INCIDENTS = 50  # further ones are listed without their queues: 5,000 groups must not give 30 MB of mail


def message_view(
    key: GroupKey,
    *,
    firing: Sequence[Incident],
    resolved: Sequence[tuple[Incident, str | None]],
    reason: NotificationReason,
    interval_start: datetime,
    thread_key: str,
    title: str,
    config: Config,
) -> MessageView:
    """Return what one message says; `resolved` comes with how each ended."""
    page_url = config.delivery.page_url
    return MessageView(
        team=key.team,
        cluster=key.cluster,
        rule_id=key.rule_id,
        severity=_worst([*firing] or [incident for incident, _ in resolved]).value,
        title=title,
        reason=reason,
        interval_start=interval_start,
        thread_key=thread_key,
        firing=tuple(_incident(one, detailed=n < DETAILED_INCIDENTS) for n, one in enumerate(firing)),
        resolved=tuple(
            _incident(one, detailed=n < DETAILED_INCIDENTS, ended=how, ended_at=interval_start)
            for n, (one, how) in enumerate(resolved)
        ),
        page_url=page_url,
        data_docs_url=None if page_url is None else _data_docs_url(page_url, key.cluster),
    )


def _incident(
    incident: Incident, *, detailed: bool, ended: str | None = None, ended_at: datetime | None = None
) -> IncidentView:
    evidence = incident.evidence
    resolution = incident.resolution or ended
    return IncidentView(
        incident_id=incident.incident_id,
        consumer_group=incident.subject.consumer_group,
        topic=incident.subject.topic,
        severity=evidence.severity.value,
        state=incident.state,
        summary=evidence.summary,
        cause=_cause(incident),
        do_next=evidence.do_next,
        opened_at=incident.opened_at,
        last_seen_at=incident.last_seen_at,
        resolved_at=incident.resolved_at or (ended_at if resolution else None),
        resolution=resolution,
        seen_count=incident.seen_count,
        peak=_peak(incident),
        figures=_figures(evidence.figures),
        queues=tuple(_queue(queue) for queue in evidence.queues[:QUEUES_SHOWN]) if detailed else (),
        queue_count=evidence.queue_count,
        explains=tuple(_explained(one) for one in evidence.explains) if detailed else (),
        explained_count=evidence.explained_count,
        cannot_tell=tuple(f"{one.rule_id}: {one.because}" for one in evidence.cannot_tell) if detailed else (),
        cannot_tell_count=evidence.cannot_tell_count,
    )


def _explained(one: Explained) -> str:
    """Return e.g. `accumulation: billing is 500 messages behind on orders`; the group is named in any case."""
    name = one.consumer_group or one.topic
    return f"{one.rule_id}: " + (one.summary if name is None or name in one.summary else f"{name} · {one.summary}")


def _cause(incident: Incident) -> str:
    if incident.unknown_because is None:
        return incident.evidence.cause
    return f"Not seen any more, because {incident.unknown_because}. Before that: {incident.evidence.cause}"


def _peak(incident: Incident) -> str | None:
    if incident.peak_figure is None or incident.peak is None:
        return None
    return f"{LABELS[incident.peak_figure]} {format_figure(incident.peak_figure, incident.peak)}"


def _figures(figures: Mapping[str, Figure]) -> tuple[FigureView, ...]:
    """Leave out what is not known or did not happen: a table of unknowns and zeros hides what did."""
    return tuple(
        FigureView(label=LABELS.get(name, name.replace("_", " ")), value=format_figure(name, figure))
        for name, figure in figures.items()
        if figure is not None and (figure or name not in SILENT_AT_ZERO)
    )


def _queue(queue: QueueEvidence) -> QueueView:
    return QueueView(
        topic=queue.message_queue.topic,
        broker_name=queue.message_queue.broker_name,
        queue_id=queue.message_queue.queue_id,
        figures=_figures(queue.figures),
    )


def _worst(incidents: Sequence[Incident]) -> Severity:
    return max((one.evidence.severity for one in incidents), key=lambda severity: severity.rank, default=Severity.INFO)


def _data_docs_url(page_url: str, cluster: str) -> str:
    return f"{page_url.rstrip('/')}{URL_PREFIX}{DATA_DOCS_PATH}/{quote(cluster, safe='')}/index.html"
