"""What the pages about incidents show: plain records, every text of which is made harmless before it is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import format_duration, format_moment
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.deliver.messages.wording import pasteable
from offsetguard.model.incident import Incident, IncidentEvent
from offsetguard.model.silence import Acknowledgement, Silence
from offsetguard.model.views import FigureView, QueueView, Record
from offsetguard.store.notifications import Recipient


class SilenceLine(Record):
    """One silence."""

    number: int
    matchers: str
    author: str
    summary: str  # the comment
    until: str


class RecipientLine(Record):
    """One receiver: what it was told, and why it is told nothing now."""

    receiver: str
    team: str
    told: str
    muted: str | None


class EventLine(Record):
    """One thing that happened."""

    at: str
    kind: str
    by: str | None
    cause: str  # what the history says; as long as a cause


class ListedIncident(Record):
    """One line of the list."""

    incident_id: str
    severity: str
    state: str
    summary: str
    cluster: str
    rule_id: str
    since: str
    lasted: str
    resolution: str | None
    acknowledged_by: str | None
    is_silenced: bool


class IncidentList(Record):
    """The list page."""

    open: tuple[ListedIncident, ...]
    open_count: int  # all of them
    resolved: tuple[ListedIncident, ...]
    silences: tuple[SilenceLine, ...]


class IncidentPage(ListedIncident):
    """The page of one incident: what the list says of it, and all the rest."""

    consumer_group: str | None
    topic: str | None
    cause: str
    do_next: str
    commands: tuple[str, ...]
    not_audited: str | None  # what that means
    unknown_because: str | None
    last_seen: str
    seen_count: int
    peak: str | None
    resolved_at: str | None
    escalation_level: int
    acknowledged_at: str | None
    acknowledgement: str | None
    figures: tuple[FigureView, ...]
    queues: tuple[QueueView, ...]
    queue_count: int
    changes: tuple[str, ...]
    console_url: str | None
    explains: tuple[str, ...]
    cannot_tell: tuple[str, ...]
    silences: tuple[SilenceLine, ...]
    recipients: tuple[RecipientLine, ...]
    history: tuple[EventLine, ...]


def listed(
    incident: Incident, acknowledgement: Acknowledgement | None, muting: Sequence[Silence], now: datetime
) -> ListedIncident:
    """Return one line of the list; `muting`: silences that are about it now."""
    return ListedIncident(
        incident_id=incident.incident_id,
        severity=incident.evidence.severity.value,
        state=incident.state,
        summary=incident.evidence.summary,
        cluster=incident.subject.cluster,
        rule_id=incident.subject.rule_id,
        since=format_moment(incident.opened_at),
        lasted=format_duration(incident.lasted_ms(now)),
        resolution=incident.resolution,
        acknowledged_by=acknowledgement.author if acknowledgement else None,
        is_silenced=bool(muting),
    )


def incident_page(
    incident: Incident,
    acknowledgement: Acknowledgement | None,
    muting: Sequence[Silence],
    recipients: Sequence[Recipient],
    history: Sequence[IncidentEvent],
    *,
    now: datetime,
    console_url: str | None = None,
) -> IncidentPage:
    """Return the page of one incident; `muting`: silences that are about it now. `console_url`: of its group."""
    evidence, subject, said = incident.evidence, incident.subject, IncidentWords(incident)
    return IncidentPage(
        **dict(listed(incident, acknowledgement, muting, now)),
        consumer_group=subject.consumer_group,
        topic=subject.topic,
        cause=evidence.cause,
        do_next=evidence.do_next,
        commands=pasteable(evidence.commands),
        not_audited=None if evidence.audited or incident.is_over else catalogue().say("not_audited"),
        unknown_because=incident.unknown_because,
        last_seen=format_moment(incident.last_seen_at),
        seen_count=incident.seen_count,
        peak=said.peak,
        resolved_at=incident.resolved_at and format_moment(incident.resolved_at),
        escalation_level=incident.escalation_level,
        acknowledged_at=format_moment(acknowledgement.at) if acknowledgement else None,
        acknowledgement=(acknowledgement.comment or None) if acknowledgement else None,
        figures=said.figures(),
        queues=said.queues(len(evidence.queues)),
        queue_count=evidence.queue_count,
        changes=tuple(said.changes()),
        console_url=console_url,
        explains=tuple(said.explains()),
        cannot_tell=tuple(said.cannot_tell()),
        silences=tuple(silence_line(one) for one in muting),
        recipients=tuple(_recipient(one) for one in recipients),
        history=tuple(
            EventLine(at=format_moment(one.at), kind=one.kind.value.replace("_", " "), by=one.by, cause=one.text)
            for one in history
        ),
    )


def silence_line(silence: Silence) -> SilenceLine:
    """Return one silence as people read it."""
    matchers = silence.matchers.named.items()
    return SilenceLine(
        number=silence.id or 0,
        matchers=", ".join(f"{name} {value}" for name, value in matchers),
        author=silence.author,
        summary=silence.comment,
        until=format_moment(silence.over_at),
    )


def _recipient(recipient: Recipient) -> RecipientLine:
    told, muted = recipient.notified, recipient.muted
    again = f", {told.repeats} reminder{'' if told.repeats == 1 else 's'}" if told and told.repeats else ""
    return RecipientLine(
        receiver=f"{recipient.channel.value.replace('_', ' ')} to {recipient.receiver}",
        team=recipient.team,
        told=f"since {format_moment(told.first_notified_at)}, as {told.severity.value}{again}" if told else "not told",
        muted=muted.value.replace("_", " ") if muted else None,
    )
