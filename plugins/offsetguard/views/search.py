"""One search for whatever has a name: groups, topics, brokers, clients and incidents of all clusters.

Also what comes near a name of which nothing is known, and incidents by the start of their id.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from offsetguard.catalogue import Catalogue, Sentence
from offsetguard.deliver.messages.wording import harmless
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.errors import UnknownName
from offsetguard.model.incident import Incident
from offsetguard.model.views import Record
from offsetguard.store import incidents
from offsetguard.views.listing import Asked

FOUND = 50  # on the page


class FoundKind(StrEnum):
    """What has a name."""

    GROUP = "group"
    TOPIC = "topic"
    BROKER = "broker"
    CLIENT = "client"
    INCIDENT = "incident"


class AskedSearch(BaseModel):
    """What a reader asked for; it stands in the address."""

    model_config = ConfigDict(frozen=True)

    q: Asked = ""  # part of a name in any case, or the start of an incident's id


class Found(Record):
    """One thing whose name has it."""

    kind: FoundKind
    cluster: str
    name: str
    consumer_group: str | None = None  # of a client
    summary: str | None = None  # of an incident


class SearchView(Record):
    """The whole view."""

    at: datetime
    asked: AskedSearch
    found: tuple[Found, ...]  # the nearest first
    found_count: int  # all of them
    only: Found | None  # there is nothing else of which this is the whole name, or part of it


class NamesOf(Record):
    """The newest names of a cluster."""

    cluster: str
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    brokers: tuple[str, ...]
    clients: tuple[tuple[str, str], ...]  # each with its group


def search_view(
    asked: AskedSearch, names: Iterable[NamesOf], incidents: Sequence[Incident], now: datetime, words: Catalogue
) -> SearchView:
    """Return the view; `incidents`: those whose id begins with what is asked for."""
    wanted = asked.q.strip()
    found = [*_named(wanted, names), *(_incident(one, words) for one in incidents)] if wanted else []
    found.sort(key=lambda one: (*_distance(one, wanted), list(FoundKind).index(one.kind), one.name, one.cluster))
    whole = [one for one in found if one.name == wanted]
    candidates = whole or found
    return SearchView(
        at=now,
        asked=asked,
        found=tuple(found[:FOUND]),
        found_count=len(found),
        only=candidates[0] if len(candidates) == 1 else None,
    )


def _named(wanted: str, names: Iterable[NamesOf]) -> Iterator[Found]:
    part = wanted.casefold()
    for one in names:
        kinds = ((FoundKind.GROUP, one.groups), (FoundKind.TOPIC, one.topics), (FoundKind.BROKER, one.brokers))
        for kind, of_kind in kinds:
            yield from (Found(kind=kind, cluster=one.cluster, name=name) for name in of_kind if part in name.casefold())
        for name, group in one.clients:
            if part in name.casefold():
                yield Found(kind=FoundKind.CLIENT, cluster=one.cluster, name=name, consumer_group=group)


def _incident(incident: Incident, words: Catalogue) -> Found:
    summary = IncidentWords(incident, words.locale).summary
    return Found(kind=FoundKind.INCIDENT, cluster=incident.subject.cluster, name=incident.incident_id, summary=summary)


def _distance(found: Found, wanted: str) -> tuple[bool, bool, int]:
    """Return how far a name is from what was asked for: all of it first, then what begins so, then short ones."""
    name, part = found.name.casefold(), wanted.casefold()
    return name != part, not name.startswith(part), len(name)


_NEAR = 3
_SEARCHED = 2_000  # incidents, the newest
_LENGTH = 100


def unknown(kind: str, name: str, known: Collection[str]) -> UnknownName:
    """Return the error for a name; `kind`: its word in the catalogue; `known`: all names of that kind."""
    by_lower = {one.lower(): one for one in known}
    near = [by_lower[one] for one in get_close_matches(name.lower(), by_lower, n=_NEAR)]
    about = {"kind": Sentence(kind), "name": harmless(name, _LENGTH)}
    if not near:
        return UnknownName(Sentence("unknown_name", **about))
    shown = ", ".join(f"'{harmless(one, _LENGTH)}'" for one in near)
    return UnknownName(Sentence("unknown_name_near", **about, near=shown))


def find_incident(session: Session, wanted: str) -> Incident:
    """Return the incident whose id is, or alone begins with, a text; raises UnknownName."""
    found = incidents.beginning_with(session, wanted, limit=_NEAR + 1) if wanted else []
    exact = [one for one in found if one.incident_id == wanted]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if found:
        shown = [f"{one.incident_id} ({harmless(IncidentWords(one).summary, 60)})" for one in found[:_NEAR]]
        more = ", ..." if len(found) > _NEAR else ""
        raise UnknownName(f"several incidents begin with {wanted!r}: {', '.join(shown)}{more}; write more of the id")
    raise unknown(
        "kind_incident", wanted, [one.incident_id for one in incidents.beginning_with(session, "", limit=_SEARCHED)]
    )
