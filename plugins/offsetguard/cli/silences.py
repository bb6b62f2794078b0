"""`offsetguard silences`: hear nothing of certain incidents for a while."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import click

from offsetguard.catalogue.text import format_duration, format_moment
from offsetguard.cli.output import show
from offsetguard.cli.parameters import DURATION, MOMENT, WithExamples, author_option, format_option
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import SilenceError
from offsetguard.model.notification import Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents as incident_store
from offsetguard.store import silences as store
from offsetguard.store.columns import values_of
from offsetguard.store.database import current_time, database_time, open_database, our_database, reading, writing
from offsetguard.views.search import find_incident

_TEXT_LIMIT = 500
_COUNTED_INCIDENTS = 20_000


@click.group(cls=WithExamples)
def silences() -> None:
    """Silences: hear nothing of certain incidents for a while.

    What is silenced is still found, kept and shown, and one that was told of before still tells that it has resolved.
    A silence needs matchers (globs, all of which must match), an end, an author and a comment: others will ask.

    \b
    Examples:
      offsetguard silences add --group "batch-*" --for 2h --comment "load test"
      offsetguard silences add --incident 3fa2b1 --until 2026-11-23T08:00Z --comment "known, fixed on Monday"
      offsetguard silences add --cluster staging --severity warning --for 7d --comment "critical ones only"
      offsetguard silences list
      offsetguard silences expire 4                      hear of them again at once
    """


@silences.command("list")
@click.option("--all", "every", is_flag=True, help="Those that are over, too.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@format_option("silence")
def list_silences(*, every: bool, limit: int, as_json: bool) -> None:
    """Show silences that mute now or will later, with who wanted them and why."""
    with reading(our_database()) as session:
        now = current_time(session)
        found = store.newest(session, limit=limit) if every else store.not_over(session, now)[:limit]
    nothing = "There never was a silence." if every else "Nothing is silenced."
    _show(found, now, as_json=as_json, nothing=nothing)


@silences.command()
@click.option("--cluster", help="Glob on the cluster's name.")
@click.option("--group", "consumer_group", help="Glob on the consumer group's name.")
@click.option("--topic", help="Glob on the topic's name.")
@click.option("--rule", help="Glob on the rule's id, such as accumulation: see docs/rules.md.")
@click.option(
    "--severity",
    type=click.Choice([one.value for one in Severity]),
    help="Only incidents up to this severity: with warning, critical ones are heard.",
)
@click.option("--incident", "incident_id", metavar="ID", help="Exactly what this incident is about, and its return.")
@click.option("--for", "lasting", type=DURATION, help="How long, e.g. 30m, 2h, 7d.")
@click.option("--until", type=MOMENT, help="When it ends, e.g. 2026-11-23T08:00Z; instead of --for.")
@click.option("--from", "since", type=MOMENT, help="When it starts; without it, now.")
@click.option("--comment", required=True, help="Why: others will ask.")
@author_option
@format_option("silence")
def add(
    *,
    incident_id: str | None,
    lasting: timedelta | None,
    until: datetime | None,
    since: datetime | None,
    comment: str,
    author: str,
    as_json: bool,
    severity: str | None,
    **globs: str | None,
) -> None:
    """Hear nothing of incidents that match, for a while."""
    if (lasting is None) == (until is None):
        raise click.UsageError("say how long: --for 2h, or --until 2026-11-23T08:00Z")
    if incident_id is not None and any((severity, *globs.values())):
        raise click.UsageError("--incident says all: leave --cluster, --group, --topic, --rule and --severity out")
    engine = open_database(Workspace.from_environment().database_url)  # it may come before all else
    now = database_time(engine)
    starts_at = since or now
    ends_at = until or starts_at + (lasting or timedelta())
    if ends_at <= now:
        raise click.UsageError("a silence that is over already mutes nothing: see --for and --until")
    with writing(engine) as session:
        if incident_id is None:
            matchers = Matchers(**globs, severity=Severity(severity) if severity else None)
        else:
            matchers = Matchers.of(find_incident(session, incident_id).shown_as)
        silence = store.add(session, Silence(matchers, author.strip(), comment.strip(), starts_at, ends_at, now))
        open_ones = incident_store.listed(session, incident_store.Which(), over=False, limit=_COUNTED_INCIDENTS)
    muted = sum(silence.matches(one) for one in open_ones)
    document = {**_document(silence, now), "open_incidents": muted}
    texts = (*_texts(silence, now), f"    matches {muted} of {len(open_ones)} open incidents")
    show([document], texts, as_json=as_json, limit=_TEXT_LIMIT)


@silences.command()
@click.argument("silence_ids", metavar="NUMBER...", nargs=-1, required=True, type=int)
@format_option("silence")
def expire(*, silence_ids: tuple[int, ...], as_json: bool) -> None:
    """End silences before their time: what still fires is heard of again at once."""
    with writing(our_database()) as session:
        now = current_time(session)
        for silence_id in silence_ids:
            if not store.expire(session, silence_id, now=now):
                known = store.by_id(session, silence_id)
                others = ", ".join(str(one.id) for one in store.not_over(session, now)) or "none"
                why = "is over already" if known else "does not exist"
                raise SilenceError(
                    f"silence {silence_id} {why}; those that are not over: {others}; nothing was changed"
                )
        found = [store.by_id(session, silence_id) for silence_id in silence_ids]
    _show([one for one in found if one is not None], now, as_json=as_json)


def _show(found: Sequence[Silence], now: datetime, *, as_json: bool, nothing: str | None = None) -> None:
    texts = chain.from_iterable(_texts(one, now) for one in found)
    show((_document(one, now) for one in found), texts, as_json=as_json, nothing=nothing, limit=_TEXT_LIMIT)


def _document(silence: Silence, now: datetime) -> dict[str, Any]:
    matchers, ends_at = silence.matchers.named, silence.over_at
    return values_of(silence) | {"state": _state(silence, now), "matchers": matchers, "ends_at": ends_at}


def _texts(silence: Silence, now: datetime) -> Iterator[str]:
    matchers = ", ".join(f"{name} {value}" for name, value in silence.matchers.named.items())
    left = round((silence.over_at - now).total_seconds() * 1000)
    ends = f"until {format_moment(silence.over_at)}" + (f", {format_duration(left)} left" if left > 0 else "")
    yield f"{silence.id}  {_state(silence, now)}  {matchers}"
    yield f"    from {format_moment(silence.starts_at)} {ends}, by {silence.author}: {silence.comment}"


def _state(silence: Silence, now: datetime) -> str:
    if silence.active_at(now):
        return "active"
    return "waiting" if now < silence.starts_at and now < silence.over_at else "over"
