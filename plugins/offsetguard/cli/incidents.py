"""`offsetguard incidents`: show what is wrong and since when, and say that you look after it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import click

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import format_duration, format_moment
from offsetguard.cli.finding_output import queue_documents, queue_text, stacks_document, stacks_text
from offsetguard.cli.output import show
from offsetguard.cli.parameters import WithExamples, author_option, check_cluster, format_option
from offsetguard.deliver.messages.wording import harmless, pasteable
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.incident import Incident, IncidentEvent
from offsetguard.model.notification import Acknowledgement, Silence
from offsetguard.store import incidents as store
from offsetguard.store import notifications, silences
from offsetguard.store.database import current_time, our_database, reading, writing
from offsetguard.store.notifications import Recipient
from offsetguard.views.search import find_incident

_TEXT_LIMIT = 200


@dataclass(frozen=True, slots=True)
class _Known:
    """All that is known of an incident; `history` and `recipients` only where one alone is shown."""

    incident: Incident
    acknowledgement: Acknowledgement | None
    muting: Sequence[Silence]
    history: Sequence[IncidentEvent] | None = None
    recipients: Sequence[Recipient] = ()


def _document(known: _Known) -> dict[str, Any]:
    incident, given = known.incident, known.acknowledgement
    subject, evidence, words = incident.subject, incident.evidence, IncidentWords(incident)
    document: dict[str, Any] = {
        "id": incident.incident_id,
        "cluster": subject.cluster,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "rule": incident.shown_by,
        "severity": evidence.severity,
        "state": incident.state,
        "summary": words.summary,
        "cause": words.cause,
        "do_next": evidence.do_next,
        "commands": list(evidence.commands),
        "audited": evidence.audited,
        "opened_at": incident.first_seen_at,
        "last_seen_at": incident.newest_seen_at,
        "seen_count": incident.seen_count,
        "peak": {incident.peak_figure: incident.peak} if incident.peak_figure else {},
        "unknown_since": incident.unknown_since,
        "unknown_because": incident.unknown_because,
        "resolved_at": incident.ended_at,
        "resolution": incident.resolution,
        "escalation_level": incident.escalation_level,
        "acknowledged": given and {"author": given.author, "comment": given.comment, "at": given.at},
        "silenced_by": [silence.id for silence in known.muting],
        "evidence": dict(evidence.figures),
    }
    if known.history is not None:
        document["changes"] = [{"at": one.at, "what": one.what} for one in incident.changes]
        document["stacks"] = stacks_document(evidence.stacks)
        document["queues"] = queue_documents(evidence.queues)
        document["queue_count"] = evidence.queue_count
        document["told"] = [
            {
                "team": one.team,
                "channel": one.channel,
                "receiver": one.receiver,
                "first_told_at": one.told_at,
                "severity": one.notified.severity if one.notified else None,
                "repeats": one.notified.repeats if one.notified else 0,
                "muted": one.muted,
                "undelivered": one.undelivered,
            }
            for one in known.recipients
        ]
        document["history"] = [
            {"at": event.at, "kind": event.kind, "by": event.by, "text": event.text} for event in known.history
        ]
    return document


def _texts(known: _Known, now: datetime) -> Iterator[str]:
    """Yield what is wrong; since when, who looks after it and what mutes it; and what is known of one alone."""
    incident, given = known.incident, known.acknowledgement
    subject, evidence, words = incident.subject, incident.evidence, IncidentWords(incident)
    head = f"{incident.incident_id}  {evidence.severity.upper()}  {words.summary}"
    yield f"{head}  [{incident.shown_by}, {subject.cluster}]"
    yield f"    {', '.join(_facts(known, now))}"
    if known.history is None:
        return
    yield f"  {words.cause}"
    yield f"  Do next: {evidence.do_next}"
    yield from (f"    {command}" for command in pasteable(evidence.commands))
    if not evidence.audited:
        yield f"  {catalogue().say('not_audited')}"
    if given is not None and given.comment:
        yield f"  {given.author}: {given.comment}"
    for silence in known.muting:
        yield f"  silence {silence.id} by {silence.author}: {silence.comment}"
    yield from (f"    {figure.label}: {figure.value}" for figure in words.figures())
    yield from map(queue_text, evidence.queues)
    yield from stacks_text(evidence.stacks)
    if incident.changes:
        yield f"  {catalogue().say('changed_before')}:"
        yield from (f"    {change}" for change in words.changes())
    if evidence.queue_count > len(evidence.queues):
        yield f"    and {evidence.queue_count - len(evidence.queues)} more queues"
    for one in known.recipients:
        since = "not told" if one.told_at is None else f"told since {format_moment(one.told_at)}"
        muted = f", now {one.muted.replace('_', ' ')}" if one.muted else ""
        yield f"  {one.channel} to {one.receiver} (team {one.team}): {since}{muted}"
        if one.undelivered:
            yield f"    not delivered: {one.undelivered}"
    for event in known.history:
        by = f" by {event.by}" if event.by else ""
        yield f"  {format_moment(event.at)}  {event.kind.replace('_', ' ')}{by}: {event.text}".rstrip(": ")


def _facts(known: _Known, now: datetime) -> Iterator[str]:
    incident = known.incident
    lasted = format_duration(incident.lasted_ms(now))
    if incident.ended_at is not None:
        yield f"resolved {format_moment(incident.ended_at)} after {lasted}: {incident.resolution}"
    else:
        yield f"open, first seen {format_moment(incident.first_seen_at)} ({lasted})"
    yield f"seen {incident.seen_count} time{'' if incident.seen_count == 1 else 's'}"
    if incident.peak is not None:
        yield f"worst {incident.peak_figure} {incident.peak:,}"
    if incident.unknown_since is not None:
        yield f"UNKNOWN since {format_moment(incident.unknown_since)}: {incident.unknown_because}"
    if known.acknowledgement is not None:
        yield f"acknowledged by {known.acknowledgement.author}"
    if known.muting:
        yield f"silenced until {format_moment(max(silence.over_at for silence in known.muting))}"


@click.group(cls=WithExamples)
def incidents() -> None:
    """Incidents: what is wrong, since when, what happened to it, and who looks after it.

    An incident is one finding of one rule about one consumer group and topic over time. It stays open while its
    evidence cannot be seen (UNKNOWN), and ends when its rule looked and did not find it (how often: docs/rules.md).
    Acknowledging says that you look after it: it goes on, and is neither told again nor escalated until it gets worse.

    \b
    Examples:
      offsetguard incidents list                          what is wrong now? worst first
      offsetguard incidents list --resolved --limit 20    what was wrong?
      offsetguard incidents show 3fa2b1                   all about one: the first digits of its id will do
      offsetguard incidents acknowledge 3fa2b1 --comment "restarting the consumers"
      offsetguard silences add --incident 3fa2b1 --for 2h --comment "known, fixed tonight"
    """


@incidents.command("list")
@click.option("--cluster", help="Only incidents of this cluster.")
@click.option("--resolved", is_flag=True, help="Those that are over, what ended last first; without it, open ones.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@format_option("incident")
def list_incidents(*, cluster: str | None, resolved: bool, limit: int, as_json: bool) -> None:
    """Show incidents: open ones worst first."""
    engine = our_database()
    check_cluster(engine, cluster)
    with reading(engine) as session:
        now = current_time(session)
        found = store.listed(session, store.Which(cluster=cluster or ""), over=resolved, limit=limit + 1)
        ids = [one.incident_id for one in found]
        acknowledged, active = silences.acknowledgements_of(session, ids), silences.active(session, now)
    known = [
        _Known(one, acknowledged.get(one.incident_id), [silence for silence in active if silence.matches(one)])
        for one in found[:limit]
    ]
    nothing = "No incident is over." if resolved else "Nothing is wrong."
    texts = chain.from_iterable(_texts(one, now) for one in known)
    show(map(_document, known), texts, as_json=as_json, nothing=nothing)
    if len(found) > limit and not as_json:
        click.echo(f"and more: --limit {2 * limit}")


@incidents.command("show")
@click.argument("incident_id", metavar="ID")
@format_option("incident", "text")
def show_incident(*, incident_id: str, as_json: bool) -> None:
    """Show one incident: texts, figures, queues, history, who was told, who acknowledged it and what mutes it."""
    with reading(our_database()) as session:
        now = current_time(session)
        one = find_incident(session, incident_id)
        known = _Known(
            one,
            silences.acknowledgements_of(session, [one.incident_id]).get(one.incident_id),
            [silence for silence in silences.active(session, now) if silence.matches(one)],
            store.events_of(session, one.incident_id),
            notifications.recipients_of(session, one),
        )
    show([_document(known)], _texts(known, now), as_json=as_json)


@incidents.command()
@click.argument("incident_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--comment", default="", help="What you do about it, for those who look at it, too.")
@author_option
@format_option("acknowledgement")
def acknowledge(*, incident_ids: tuple[str, ...], comment: str, author: str, as_json: bool) -> None:
    """Say that you look after incidents: they are neither told again nor escalated until they get worse.

    To hear nothing of them for a while, add a silence.
    """
    with writing(our_database()) as session:
        now = current_time(session)
        chosen = [find_incident(session, one) for one in incident_ids]
        given = [silences.acknowledge(session, one, author=author, comment=comment, now=now) for one in chosen]
    texts = (
        f"{one.incident_id}  {harmless(IncidentWords(incident).summary, _TEXT_LIMIT)}: acknowledged by {one.author}"
        for incident, one in zip(chosen, given, strict=True)
    )
    documents = ({"incident_id": one.incident_id, "author": one.author, "at": one.at} for one in given)
    show(documents, texts, as_json=as_json)
