"""Text for Slack's mrkdwn, in which nothing that a broker says can act as markup.

Names stand in code spans, where `*`, `_`, `~`, `@` and `:smile:` mean nothing, and so do figures that contain such;
whole sentences do not go through here at all but into plain_text objects.
Lengths are UTF-16 units, as Slack counts (JavaScript strings).
Source: https://docs.slack.dev/messaging/formatting-message-text (escape &, < and >, nothing else can be escaped).
"""

from __future__ import annotations

import re

from offsetguard.messages.hostile import ELLIPSIS

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BACKTICK_LOOKALIKE = "\N{MODIFIER LETTER GRAVE ACCENT}"  # a code span cannot contain a backtick
_ACTIVE = re.compile(r"[*_~`@#<>&|]|:[^\s:]*[a-z][^\s:]*:|^\s*[•>-]", re.IGNORECASE)


def code(text: str, limit: int = 300) -> str:
    """Return a code span of at most `limit` units; empty text becomes a dash, since an empty span is no span."""
    return f"`{fit(text.replace('`', _BACKTICK_LOOKALIKE) or '-', limit - 2)}`"


def quiet(text: str, limit: int) -> str:
    """Return text as it is where nothing in it could act as markup, else a code span."""
    return code(text, limit) if not text.strip() or _ACTIVE.search(text) else fit(text, limit)


def link(url: str, label: str) -> str:
    """Return a link; `url` comes from `hostile.harmless_link`, `label` is a constant of ours."""
    return f"<{url.replace('&', '&amp;')}|{label}>"


def fit(text: str, limit: int) -> str:
    """Escape &, < and > and cut to `limit` units without cutting an entity."""
    return _cut([_ENTITIES.get(character, character) for character in text], limit)


def fit_plain(text: str, limit: int) -> str:
    """Cut plain text to `limit` units."""
    return _cut(list(text), limit)


def _cut(pieces: list[str], limit: int) -> str:
    whole = "".join(pieces)
    if units(whole) <= limit:
        return whole
    kept, room = [], limit - 1
    for piece in pieces:
        room -= units(piece)
        if room < 0:
            break
        kept.append(piece)
    return "".join(kept) + ELLIPSIS


def units(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)
