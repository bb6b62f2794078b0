r"""The one place where text from brokers, logs and configurations becomes harmless to show.

A consumer group may be called anything. What could break a line, a header or the reading direction (control
characters, line ends, bidirectional marks, zero-width characters, lone surrogates) is shown as an escape such as
`\n` or `\u202e`: visible and harmless, instead of silently gone. What is markup to HTML is left to Jinja2's
autoescape, what is markup to Slack to `mrkdwn.py`.
"""

from __future__ import annotations

import unicodedata
from typing import Any, TypeVar
from urllib.parse import urlsplit

from offsetguard.messages.view import Record

_View = TypeVar("_View", bound=Record)
ELLIPSIS = "…"
_SHOWN_AS_ESCAPE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # Unicode general categories
_LIMITS = {"summary": 250, "cause": 1_500, "do_next": 1_500, "resolution": 200, "label": 60, "value": 120, "title": 150}
_LIMITS |= {"explains": 400, "cannot_tell": 400, "muted_when_resolved": 300, "acknowledgement": 500}
_NAME_LIMIT = 255  # RocketMQ's own limit for group and topic names


def harmless(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters in which nothing hides."""
    text = text[: limit + 1]
    return shorten(text if text.isprintable() else "".join(map(_shown, text)), limit)


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


def harmless_view(view: _View) -> _View:
    """Return the view with every text made harmless; renderers start from this and cannot forget a field."""
    return type(view).model_validate(_walk(view.model_dump(), ""))


def _walk(value: Any, field: str) -> Any:
    if isinstance(value, dict):
        return {name: _walk(below, name) for name, below in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_walk(below, field) for below in value)
    if field.endswith("_url"):
        return harmless_link(value)
    return harmless(value, _LIMITS.get(field, _NAME_LIMIT)) if type(value) is str else value


def _shown(character: str) -> str:
    if unicodedata.category(character) in _SHOWN_AS_ESCAPE:
        return character.encode("unicode_escape").decode("ascii")
    return character
