"""Names that people ask for: what comes near one of which nothing is known, and incidents by the start of their id."""

from collections.abc import Collection
from difflib import get_close_matches

from sqlalchemy.orm import Session

from offsetguard.catalogue import Sentence
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import UnknownName
from offsetguard.model.incident import Incident
from offsetguard.store import incidents

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
