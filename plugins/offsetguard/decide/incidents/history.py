"""What happened to an incident, one row each."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from offsetguard.catalogue import Sentence, Translated
from offsetguard.catalogue.text import Language, Locale
from offsetguard.decide.incidents.lifecycle import Changes
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.incident import EventKind, Incident, IncidentEvent


def history_of(before: Iterable[Incident], changes: Changes, read_at: datetime) -> tuple[IncidentEvent, ...]:
    """Return what a judgement did to incidents, by what they were before; nothing changed = no event.

    `read_at`: when the judged round had been read.
    """
    known = {incident.incident_id: incident for incident in before}
    opened = (IncidentEvent(one.incident_id, read_at, EventKind.OPENED, _opened(one)) for one in changes.opened)
    later = (
        IncidentEvent(after.incident_id, read_at, kind, text)
        for after in (*changes.seen_again, *changes.unknown, *changes.calm, *changes.resolved)
        if after.incident_id in known
        for kind, text in _differences(known[after.incident_id], after)
    )
    return (*opened, *later)


def _opened(incident: Incident) -> Sentence:
    figures = {"severity": _severity(incident), "summary": summary_of(incident)}
    if incident.seen_count > 1:
        return Sentence("event_opened_after", **figures, count=incident.seen_count)
    return Sentence("event_opened", **figures)


def _differences(before: Incident, after: Incident) -> Iterator[tuple[EventKind, str]]:
    was, now = before.evidence.severity, after.evidence.severity
    if was is not now:
        kind = EventKind.WORSE if now.rank > was.rank else EventKind.BETTER
        yield kind, Sentence("event_changed", was=_severity(before), now=_severity(after), summary=summary_of(after))
    elif before.shown_by != after.shown_by:
        kind = EventKind.WORSE if after.evidence.stage > before.evidence.stage else EventKind.BETTER
        yield kind, Sentence("event_opened", severity=_severity(after), summary=summary_of(after))
    if after.evidence.audited and not before.evidence.audited:
        yield EventKind.CONFIRMED, Sentence("event_confirmed")
    if after.is_over:
        yield EventKind.RESOLVED, _in_every_language(after, lambda said: said.resolution or "")
    elif before.unknown_since is None and after.unknown_since is not None:
        yield EventKind.UNKNOWN, after.unknown_because or Sentence("event_unseen")
    elif before.unknown_since is not None and after.unknown_since is None:
        yield EventKind.VISIBLE, Sentence("event_visible")


def _severity(incident: Incident) -> Sentence:
    return Sentence(f"severity_{incident.evidence.severity.value}")


def summary_of(incident: Incident) -> Translated:
    """Return its few words in every language, with the figures of this moment: the next one replaces them."""
    return _in_every_language(incident, lambda said: said.summary)


def _in_every_language(incident: Incident, said: Callable[[IncidentWords], str]) -> Translated:
    return Translated({language: said(IncidentWords(incident, Locale(language))) for language in Language})
