"""`offsetguard incidents`: what is wrong, since when, what happened to it, and who looks after it."""

from __future__ import annotations

import difflib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from offsetguard.cli.incident_lines import incident_as_json, incident_as_text, incident_in_full
from offsetguard.cli.output import wants_json
from offsetguard.cli.parameters import author_option, format_option
from offsetguard.errors import SilenceError
from offsetguard.messages.hostile import harmless
from offsetguard.store import acknowledgements, incident_events, listeners, silences
from offsetguard.store import incidents as store
from offsetguard.store.database import open_database, reading, writing
from offsetguard.workspace import Workspace

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    from offsetguard.incidents.incident import Incident

_OTHERS_SEARCHED, _OTHERS_SHOWN = 2_000, 3
_TEXT_LIMIT = 200


@click.group()
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
    """  # noqa: D301 click wants the character itself


@incidents.command("list")
@click.option("--cluster", help="Only incidents of this cluster.")
@click.option("--resolved", is_flag=True, help="Those that are over, what ended last first; without it, open ones.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@format_option("incident")
def list_incidents(*, cluster: str | None, resolved: bool, limit: int, output_format: str) -> None:
    """Show incidents: open ones worst first."""
    now, as_json = datetime.now(UTC), wants_json(output_format)
    with reading(_engine()) as session:
        chosen = store.newest_resolved if resolved else store.worst_open
        found = chosen(session, cluster=cluster, limit=limit + 1)
        shown = found[:limit]
        acknowledged = acknowledgements.of(session, [one.incident_id for one in shown])
        active = silences.active(session, now)
    for one in shown:
        told = (acknowledged.get(one.incident_id), [silence for silence in active if silence.matches(one)])
        click.echo(json.dumps(incident_as_json(one, *told)) if as_json else incident_as_text(one, *told, now=now))
    if as_json:
        return
    if not found:
        click.echo("No incident is over." if resolved else "Nothing is wrong.")
    elif len(found) > limit:
        click.echo(f"and more: --limit {2 * limit}")


@incidents.command()
@click.argument("incident_id", metavar="ID")
@format_option("incident", "text")
def show(*, incident_id: str, output_format: str) -> None:
    """Show one incident: texts, figures, queues, history, who was told, who acknowledged it and what mutes it."""
    now = datetime.now(UTC)
    with reading(_engine()) as session:
        one = find_incident(session, incident_id)
        history = incident_events.of_incident(session, one.incident_id)
        acknowledged = acknowledgements.of(session, [one.incident_id]).get(one.incident_id)
        muting = [silence for silence in silences.active(session, now) if silence.matches(one)]
        concerned = listeners.of_incident(session, one)
    if wants_json(output_format):
        click.echo(json.dumps(incident_as_json(one, acknowledged, muting, history, concerned)))
    else:
        for line in incident_in_full(one, acknowledged, muting, history, concerned, now=now):
            click.echo(line)


@incidents.command()
@click.argument("incident_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--comment", default="", help="What you do about it, for those who look at it, too.")
@author_option()
@format_option("acknowledgement")
def acknowledge(*, incident_ids: tuple[str, ...], comment: str, author: str, output_format: str) -> None:
    """Say that you look after incidents: they are neither told again nor escalated until they get worse.

    To hear nothing of them for a while, add a silence.
    """
    now = datetime.now(UTC)
    with writing(_engine()) as session:
        chosen = [find_incident(session, one) for one in incident_ids]
        given = [acknowledgements.acknowledge(session, one, author=author, comment=comment, now=now) for one in chosen]
    for incident, one in zip(chosen, given, strict=True):
        if wants_json(output_format):
            click.echo(json.dumps({"incident_id": one.incident_id, "author": one.author, "at": one.at.isoformat()}))
        else:
            summary = harmless(incident.evidence.summary, _TEXT_LIMIT)
            click.echo(f"{one.incident_id}  {summary}: acknowledged by {harmless(one.author, _TEXT_LIMIT)}")


def find_incident(session: Session, wanted: str) -> Incident:
    """Return the incident whose id is, or alone begins with, a text; raises SilenceError that names near ones."""
    found = store.beginning_with(session, wanted, limit=_OTHERS_SHOWN + 1) if wanted else []
    exact = [one for one in found if one.incident_id == wanted]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if found:
        raise SilenceError(f"several incidents begin with {wanted!r}: {_named(found)}; write more of the id")
    known = {one.incident_id: one for one in store.beginning_with(session, "", limit=_OTHERS_SEARCHED)}
    near = difflib.get_close_matches(wanted, known, n=_OTHERS_SHOWN, cutoff=0.7)
    hint = f"; do you mean {_named([known[one] for one in near])}?" if near else ": see `offsetguard incidents list`"
    raise SilenceError(f"there is no incident {wanted!r}{hint}")


def _named(found: list[Incident]) -> str:
    shown = [f"{one.incident_id} ({harmless(one.evidence.summary, 60)})" for one in found[:_OTHERS_SHOWN]]
    return ", ".join(shown) + (", ..." if len(found) > _OTHERS_SHOWN else "")


def _engine() -> Engine:
    return open_database(Workspace.from_environment().database_url)
