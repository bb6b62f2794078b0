"""How an incident is shown on the command line: JSON that others script against, or lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetguard.cli.figure_words import plain, shown
from offsetguard.messages.hostile import harmless
from offsetguard.text import format_duration, format_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from offsetguard.incidents.history import IncidentEvent
    from offsetguard.incidents.incident import Incident
    from offsetguard.incidents.silence import Acknowledgement, Silence
    from offsetguard.rules.rule import Figure
    from offsetguard.store.listeners import Listener

_TEXT_LIMIT = 1_000


def incident_as_json(
    incident: Incident,
    acknowledgement: Acknowledgement | None,
    muting: Sequence[Silence],
    history: Sequence[IncidentEvent] | None = None,
    listeners: Sequence[Listener] = (),
) -> dict[str, Any]:
    """Return one incident; times are ISO 8601 in UTC. `muting`: silences. `history`: None where nobody asked for it."""
    subject, evidence = incident.subject, incident.evidence
    document: dict[str, Any] = {
        "id": incident.incident_id,
        "cluster": subject.cluster,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "rule": subject.rule_id,
        "severity": evidence.severity.value,
        "state": incident.state,
        "summary": evidence.summary,
        "cause": evidence.cause,
        "do_next": evidence.do_next,
        "opened_at": incident.opened_at.isoformat(),
        "last_seen_at": incident.last_seen_at.isoformat(),
        "seen_count": incident.seen_count,
        "peak": {incident.peak_figure: incident.peak} if incident.peak_figure else {},
        "unknown_since": _iso(incident.unknown_since),
        "unknown_because": incident.unknown_because,
        "resolved_at": _iso(incident.resolved_at),
        "resolution": incident.resolution,
        "escalation_level": incident.escalation_level,
        "acknowledged": acknowledgement
        and {
            "author": acknowledgement.author,
            "comment": acknowledgement.comment,
            "at": acknowledgement.at.isoformat(),
        },
        "silenced_by": [silence.id for silence in muting],
        "evidence": {name: plain(figure) for name, figure in evidence.figures.items()},
    }
    if history is not None:
        document["queues"] = [
            {
                "topic": queue.message_queue.topic,
                "broker_name": queue.message_queue.broker_name,
                "queue_id": queue.message_queue.queue_id,
                **{name: plain(figure) for name, figure in queue.figures.items()},
            }
            for queue in evidence.queues
        ]
        document["queue_count"] = evidence.queue_count
        document["told"] = [
            {
                "team": one.team,
                "channel": one.channel.value,
                "receiver": one.receiver,
                "first_told_at": one.told.first_told_at.isoformat() if one.told else None,
                "severity": one.told.severity.value if one.told else None,
                "repeats": one.told.repeats if one.told else 0,
                "muted": one.muted.value if one.muted else None,
            }
            for one in listeners
        ]
        document["history"] = [
            {"at": event.at.isoformat(), "kind": event.kind.value, "by": event.by, "text": event.text}
            for event in history
        ]
    return document


def incident_as_text(
    incident: Incident, acknowledgement: Acknowledgement | None, muting: Sequence[Silence], *, now: datetime
) -> str:
    """Return two lines: what is wrong, and since when, who looks after it and what mutes it."""
    evidence, subject = incident.evidence, incident.subject
    head = f"{incident.incident_id}  {evidence.severity.value.upper()}  {evidence.summary}"
    told = f"    {', '.join(_facts(incident, acknowledgement, muting, now))}"
    return f"{_safe(f'{head}  [{subject.rule_id}, {subject.cluster}]')}\n{_safe(told)}"


def incident_in_full(
    incident: Incident,
    acknowledgement: Acknowledgement | None,
    muting: Sequence[Silence],
    history: Sequence[IncidentEvent],
    listeners: Sequence[Listener],
    *,
    now: datetime,
) -> Iterator[str]:
    """Yield all that is known of an incident, for people."""
    evidence = incident.evidence
    yield incident_as_text(incident, acknowledgement, muting, now=now)
    yield _safe(f"  {evidence.cause}")
    yield _safe(f"  Do next: {evidence.do_next}")
    if acknowledgement is not None and acknowledgement.comment:
        yield _safe(f"  {acknowledgement.author}: {acknowledgement.comment}")
    for silence in muting:
        yield _safe(f"  silence {silence.id} by {silence.author}: {silence.comment}")
    yield from (_safe(f"    {name}: {shown(figure)}") for name, figure in evidence.figures.items())
    for queue in evidence.queues:
        where, figures = queue.message_queue, _listed(queue.figures)
        yield _safe(f"    {where.topic} {where.broker_name}/{where.queue_id}: {figures}")
    if evidence.queue_count > len(evidence.queues):
        yield f"    and {evidence.queue_count - len(evidence.queues)} more queues"
    for one in listeners:
        told = f"told since {format_moment(one.told.first_told_at)}" if one.told else "not told"
        muted = f", now {one.muted.value.replace('_', ' ')}" if one.muted else ""
        yield _safe(f"  {one.channel.value} to {one.receiver} (team {one.team}): {told}{muted}")
    for event in history:
        by = f" by {event.by}" if event.by else ""
        yield _safe(f"  {format_moment(event.at)}  {event.kind.value.replace('_', ' ')}{by}: {event.text}".rstrip(": "))


def _facts(
    incident: Incident, acknowledgement: Acknowledgement | None, muting: Sequence[Silence], now: datetime
) -> Iterator[str]:
    lasted = format_duration(incident.lasted_ms(now))
    if incident.resolved_at is not None:
        yield f"resolved {format_moment(incident.resolved_at)} after {lasted}: {incident.resolution}"
    else:
        yield f"open since {format_moment(incident.opened_at)} ({lasted})"
    yield f"seen {incident.seen_count} time{'' if incident.seen_count == 1 else 's'}"
    if incident.peak is not None:
        yield f"worst {incident.peak_figure} {incident.peak:,}"
    if incident.unknown_since is not None:
        yield f"UNKNOWN since {format_moment(incident.unknown_since)}: {incident.unknown_because}"
    if acknowledgement is not None:
        yield f"acknowledged by {acknowledgement.author}"
    if muting:
        yield f"silenced until {format_moment(max(silence.over_at for silence in muting))}"


def _listed(figures: Mapping[str, Figure]) -> str:
    return ", ".join(f"{name} {shown(figure)}" for name, figure in figures.items())


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _safe(text: str) -> str:
    return harmless(text, _TEXT_LIMIT)
