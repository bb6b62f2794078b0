r"""Words that mail and Slack share, and text from brokers, logs and configurations made harmless to show.

A consumer group may be called anything. What could break a line, a header or the reading direction (control
characters, line ends, bidirectional marks, zero-width characters, lone surrogates) is shown as an escape such as
`\n` or `\u202e`: visible and harmless, instead of silently gone. What is markup to HTML is left to Jinja2's
autoescape, what is markup to Slack to `slack_blocks.py`.

`words` is the catalogue of who reads; `reader(view)` gives it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from offsetguard.catalogue import Catalogue, catalogue
from offsetguard.catalogue.text import ENGLISH_UTC, Locale, format_from_to
from offsetguard.model.errors import ConfigError
from offsetguard.model.verdicts import FURTHEST_MS
from offsetguard.model.views import (
    LEAST_LAG_POINTS,
    AnyView,
    Cause,
    DigestView,
    FigureView,
    IncidentView,
    MessageView,
    Record,
)

_View = TypeVar("_View", bound=Record)
ELLIPSIS = "…"
CALLED_BY = " ← "
_SHOWN_AS_ESCAPE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # Unicode general categories
_ESCAPE = re.compile(r"\\(?:[nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00[01][0-9a-f]{5})")
_LIMITS = {"summary": 250, "cause": 1_500, "do_next": 1_500, "resolution": 200, "label": 60, "value": 120, "title": 150}
_LIMITS |= {"changes": 300, "explains": 400, "cannot_tell": 400, "muted_when_resolved": 300, "acknowledgement": 500}
_LIMITS |= {"said": 500}
_LIMITS |= {"text": 1_500, "comment": 500, "unreadable": 500}
_COMMAND_LIMIT = 1_500
_NAME_LIMIT = 255  # RocketMQ's own limit for group and topic names


def harmless(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters in which nothing hides."""
    text = text[: limit + 1]
    return shorten(text if text.isprintable() else "".join(map(_shown, text)), limit)


def pasteable(commands: Iterable[str]) -> tuple[str, ...]:
    """Return the commands that can be shown as they are: one that is cut or escaped would do another thing."""
    return tuple(one for one in commands if len(one) <= _COMMAND_LIMIT and one.isprintable())


def shorten(text: str, limit: int) -> str:
    """Cut to `limit` characters, the last of them an ellipsis when something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def harmless_link(url: str | None) -> str | None:
    """Return an http or https address that can stand in a link, or None: better no link than a strange one."""
    if url is None or len(url) > 2_000 or any(c in '<>"|\\^`{}' or _shown(c) != c or c.isspace() for c in url):
        return None
    try:
        parts = urlsplit(url)
        return url if parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc else None
    except ValueError:
        return None


def bounded(view: MessageView, most: int) -> MessageView:
    """Return a view without the incidents beyond `most`, counted: what nobody reads need not be made harmless."""
    groups = {incident.consumer_group for incident in view.firing or view.resolved}
    return view.model_copy(
        update={
            "firing": view.firing[:most],
            "hidden_firing": view.hidden_firing + max(0, len(view.firing) - most),
            "resolved": view.resolved[:most],
            "hidden_resolved": view.hidden_resolved + max(0, len(view.resolved) - most),
            "group_count": max(view.group_count, len(groups)),
        }
    )


def harmless_view(view: _View) -> _View:
    """Return the view with every text made harmless; renderers start from this and cannot forget a field."""
    return type(view).model_validate(harmless_document(view.model_dump()))


def harmless_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with every text made harmless, by the names of its fields as in a view."""
    return {name: _walk(below, name) for name, below in document.items()}


def unescaped(name: str) -> str:
    """Return the name that `harmless` shows so: who reads an escape asks with it."""
    return _ESCAPE.sub(lambda found: found[0].encode("ascii").decode("unicode_escape"), name)


def _walk(value: Any, field: str) -> Any:
    if isinstance(value, dict):
        return harmless_document(value)
    if field == "commands":
        return pasteable(value)
    if isinstance(value, tuple | list):
        return tuple(_walk(below, field) for below in value)
    if field.endswith("_url"):
        return harmless_link(value)
    return harmless(value, _LIMITS.get(field, _NAME_LIMIT)) if type(value) is str else value


def _shown(character: str) -> str:
    if unicodedata.category(character) in _SHOWN_AS_ESCAPE:
        return character.encode("unicode_escape").decode("ascii")
    return character


RESOLVED = "resolved"
_ENGLISH = catalogue(ENGLISH_UTC)
_SEVERITIES = {"critical", "warning", "info"}


def reader(view: AnyView) -> Catalogue:
    """Return the catalogue of who reads a view; English in UTC where this release does not know their language."""
    try:
        return catalogue(Locale.of(view.language, view.time_zone))
    except (ValueError, ConfigError):
        return _ENGLISH


def status(view: MessageView) -> str:
    """Return the severity while something fires, else `resolved`: a word for programs, in no language."""
    return view.severity if view.firing else RESOLVED


def status_word(status: str, words: Catalogue = _ENGLISH) -> str:
    """Return a status or a severity as people read it."""
    if status == RESOLVED:
        return words.say("resolved")
    return words.say(f"severity_{status}") if status in _SEVERITIES else status


def subject(view: MessageView, words: Catalogue = _ENGLISH) -> str:
    """Return who is concerned and the rule's title, e.g. `[CRITICAL] orders-cluster · order-group · messages pile up`.

    Without figures: mail programs take mails with another subject for another conversation.
    """
    incidents = view.firing or view.resolved
    if len(incidents) != 1 or _hidden(view):
        about: str | None = counted(view, words)
    else:
        about = incidents[0].consumer_group or incidents[0].topic
    head = f"[{status_word(status(view), words).upper()}] {view.cluster}"
    return " · ".join([head, *([about] if about else []), view.title])


def in_brief(view: MessageView, words: Catalogue = _ENGLISH) -> str:
    """Return the whole message in one line: of one incident its headline, of several how many groups and the title."""
    incidents = view.firing or view.resolved
    if len(incidents) != 1 or _hidden(view):
        return f"{counted(view, words)} · {view.title}"
    return headline(incidents[0], words) if view.firing else ending(incidents[0], words)


def headline(incident: IncidentView, words: Catalogue = _ENGLISH) -> str:
    """Return the summary, led by what is new of it and by the group's (or topic's) name where it does not say that."""
    name = incident.consumer_group or incident.topic
    said = incident.summary if name is None or name in incident.summary else f"{name} · {incident.summary}"
    return said if incident.news is None else words.say(f"news_{incident.news}", said=said)


def ending(incident: IncidentView, words: Catalogue = _ENGLISH) -> str:
    """Return e.g. `order-group · caught up after 41 min`."""
    name = incident.consumer_group or incident.topic or incident.summary
    how = resolution(incident, words)
    if incident.resolved_at is None:
        return words.say("ended", name=name, how=how)
    lasted_ms = _lasted_ms(incident.opened_at, incident.resolved_at)
    return words.say("ended_after", name=name, how=how, lasted_ms=lasted_ms)


def counted(view: MessageView, words: Catalogue = _ENGLISH) -> str:
    """Return `3 consumer groups`, or `3 findings` where they are not about groups."""
    incidents = view.firing or view.resolved
    hidden = _hidden(view)
    groups = {incident.consumer_group for incident in incidents}
    if None in groups:
        return words.say("findings", count=len(incidents) + hidden)
    return words.say("consumer_groups", count=max(len(groups), view.group_count) if hidden else len(groups))


def history(incident: IncidentView, words: Catalogue = _ENGLISH) -> str:
    """Return since when and how often, or from when to when once it has resolved."""
    opened_at, ended_at = incident.opened_at, incident.resolved_at
    if ended_at is not None:
        start, end = format_from_to(opened_at, ended_at, words.locale)
        return words.say("lasted", lasted_ms=_lasted_ms(opened_at, ended_at), start=start, end=end)
    if incident.seen_count <= 1:
        return words.say("seen_once", opened_at=opened_at)
    lasted_ms = _lasted_ms(opened_at, incident.last_seen_at)
    return words.say("seen_often", opened_at=opened_at, lasted_ms=lasted_ms, count=incident.seen_count)


def resolution(incident: IncidentView, words: Catalogue = _ENGLISH) -> str:
    """Return how it ended, in a few words."""
    return incident.resolution or words.say("no_longer_found")


def label(figure: FigureView) -> str:
    """Return a figure's label as it stands at the head of a table row."""
    return _capital(figure.label)


def why_now(view: MessageView, words: Catalogue = _ENGLISH) -> str:
    """Return one sentence that says why this message was sent now; empty for a reason that sends none."""
    return words.say(f"why_{view.reason.value}") if view.reason.is_sent else ""


def notes(view: MessageView, words: Catalogue = _ENGLISH) -> Iterator[str]:
    """Give what a reader must know before the rest: told late, escalated, told before, what it mutes."""
    yield from told_late(view, words)
    yield from of_cause(view, words)


def told_late(view: MessageView | DigestView, words: Catalogue = _ENGLISH) -> Iterator[str]:
    """Give that a message is about the past, where it is."""
    if view.late:
        yield words.say("told_late")


def footnote(view: MessageView | DigestView, words: Catalogue = _ENGLISH) -> str:
    """Return that figures came without the check; empty where all of them passed it."""
    return "" if all(incident.audited for incident in view.firing) else words.say("not_audited")


def of_cause(cause: Cause, words: Catalogue = _ENGLISH) -> Iterator[str]:
    """Give what a reader must know of one cause: escalated, told before, what it mutes, what goes on unlisted."""
    if cause.escalated_from is not None:
        yield words.say("escalated_from", team=cause.escalated_from)
    if cause.repeat_count > 0:
        yield words.say("repeated", count=cause.repeat_count)
    if cause.muted_count > 0:
        yield words.say("not_told", count=cause.muted_count)
    if cause.goes_on_count > 0:
        yield words.say("goes_on", count=cause.goes_on_count)


def beside(
    incident: IncidentView, shown: int, words: Catalogue = _ENGLISH
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Give what stands beside the finding: a heading, at most `shown` lines, and how many more there are."""
    lists = (
        ("changed_before", incident.changes, len(incident.changes), "change"),
        ("also_explains", incident.explains, incident.explained_count, "finding"),
        ("cannot_tell", incident.cannot_tell, incident.cannot_tell_count, "question"),
    )
    for head, lines, count, what in lists:
        if count or lines:
            yield words.say(head), lines[:shown], more(count - min(len(lines), shown), what, words)


def threads(
    incident: IncidentView, frames: int, words: Catalogue = _ENGLISH
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Give what the threads of a client did, as `beside` does: a line for each stack, at most `frames` of its frames.

    Of more the outermost is the last one: the listener.
    """
    shown = [(one.said, _fewer(one.frames, frames)) for one in incident.stacks]
    lines = [
        words.say("stack_line", said=said, frames=CALLED_BY.join(of_it)) if of_it else said for said, of_it in shown
    ]
    if lines:
        yield words.say("threads_did"), tuple(lines), ""


def more(hidden: int, what: str, words: Catalogue = _ENGLISH) -> str:
    """Return `and 12 more queues`, or nothing when nothing is hidden; `what`: queue, finding, question, resolved."""
    return words.say(f"more_{what}", hidden=hidden) if hidden > 0 else ""


def forecasts(incident: IncidentView, words: Catalogue = _ENGLISH) -> Iterator[tuple[str, str]]:
    """Give (what, when) of what is forecast about the backlog."""
    for head, stated in (("drained_in", incident.drain_ms), ("lost_in", incident.loss_ms)):
        if stated is not None:
            yield _capital(words.say(head)), _range(*stated, words)


def acknowledged(incident: IncidentView, words: Catalogue = _ENGLISH) -> str | None:
    """Return who looks after it; None: nobody said so."""
    by, at = incident.acknowledged_by, incident.acknowledged_at
    if by is None or at is None:
        return None
    if not incident.acknowledgement:
        return words.say("acknowledged", by=by, at=at)
    return words.say("acknowledged_saying", by=by, at=at, comment=incident.acknowledgement)


def mutes(incident: IncidentView, words: Catalogue = _ENGLISH) -> str | None:
    """Return how many others are not told because of it; None: none."""
    return words.say("mutes", count=incident.muted_count) if incident.muted_count > 0 else None


def lag_in_words(incident: IncidentView, words: Catalogue = _ENGLISH) -> str | None:
    """Return what the picture of the lag shows; None: there is none."""
    curve = incident.lag_curve
    if len(curve) < LEAST_LAG_POINTS:
        return None
    start, end = format_from_to(curve[0].at, curve[-1].at, words.locale)
    peak = max(curve, key=lambda point: point.lag)
    return words.say(
        "lag_course",
        name=incident.consumer_group or incident.topic or "",
        start=start,
        end=end,
        first=curve[0].lag,
        peak=peak.lag,
        peak_at=f"{peak.at.astimezone(words.locale.zone):%H:%M}",
        last=curve[-1].lag,
    )


def _fewer(frames: tuple[str, ...], most: int) -> tuple[str, ...]:
    return frames if len(frames) <= most else (*frames[: most - 1], ELLIPSIS, frames[-1])


def _range(low_ms: int, high_ms: int, words: Catalogue) -> str:
    if high_ms >= FURTHEST_MS:
        return words.say("range_or_later", low_ms=low_ms)
    key = "range_at_most" if low_ms <= 0 else "range_between"
    return words.say(key, high_ms=high_ms) if low_ms <= 0 else words.say(key, low_ms=low_ms, high_ms=high_ms)


def _hidden(view: MessageView) -> int:
    return view.hidden_firing if view.firing else view.hidden_resolved


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lasted_ms(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds()) * 1_000
