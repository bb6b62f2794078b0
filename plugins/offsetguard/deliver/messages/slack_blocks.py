"""Block Kit's pieces and mrkdwn, each within Slack's limits, none in which foreign text could act as markup.

Names stand in code spans, where `*`, `_`, `~`, `@` and `:smile:` mean nothing, and so do figures that contain such;
whole sentences do not go through here at all but into plain_text objects.
Lengths are UTF-16 units, as Slack counts (JavaScript strings).
Source: https://docs.slack.dev/messaging/formatting-message-text (escape &, < and >, nothing else can be escaped).

Limits: https://docs.slack.dev/reference/block-kit/blocks (header 150, section text 3,000, 10 fields of 2,000, context
10 elements, button text 75, url 3,000, ids unique in a message).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from offsetguard.deliver.messages.wording import ELLIPSIS

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
    """Return a link; `url` comes from `wording.harmless_link`, `label` is a constant of ours."""
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


Block = dict[str, Any]

FIELDS_SHOWN = 10
CONTEXT_SHOWN = 10


def header(text: str) -> Block:
    """Return the bold line at the top."""
    return {"type": "header", "text": _plain_object(text, 150)}


def sentence(text: str, limit: int) -> Block:
    """Return text in which nothing is markup; line ends are kept."""
    return {"type": "section", "text": _plain_object(text, limit)}


def section(mrkdwn: str) -> Block:
    """Return text in Slack's markup: names in it went through `code` or `quiet`."""
    return {"type": "section", "text": _mrkdwn_object(mrkdwn)}


def fields(pairs: Sequence[tuple[str, str]]) -> Block:
    """Return a small table of two columns: labels, and values in Slack's markup."""
    return {
        "type": "section",
        "fields": [_mrkdwn_object(f"*{label}*\n{value}") for label, value in pairs[:FIELDS_SHOWN]],
    }


def context(*mrkdwn: str) -> Block:
    """Return small print in Slack's markup; empty texts are left out."""
    return {"type": "context", "elements": [_mrkdwn_object(text) for text in mrkdwn if text][:CONTEXT_SHOWN]}


def small_print(texts: Iterable[str], limit: int) -> list[Block]:
    """Return small print in which nothing is markup, or no block where there is nothing to say."""
    elements = [_plain_object(text, limit) for text in texts if text][:CONTEXT_SHOWN]
    return [{"type": "context", "elements": elements}] if elements else []


def commands(lines: Sequence[str]) -> list[Block]:
    """Return a block of code in which nothing is markup, one command a line; no block without a command."""
    code_block = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "\n".join(lines)}]}
    return [{"type": "rich_text", "elements": [code_block]}] if lines else []


def divider() -> Block:
    """Return a line across."""
    return {"type": "divider"}


def buttons(links: Sequence[tuple[str, str, str | None]], number: int) -> list[Block]:
    """Return buttons that open pages, as (id, label, address); `number` makes their ids unique in the message."""
    elements = [
        {"type": "button", "action_id": f"{name}_{number}", "text": _plain_object(label, 75), "url": url}
        for name, label, url in links
        if url is not None
    ]
    return [{"type": "actions", "block_id": f"actions_{number}", "elements": elements}] if elements else []


def _mrkdwn_object(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}  # verbatim: Slack makes no links and mentions of its own


def _plain_object(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": fit_plain(text, limit) or "-", "emoji": False}
