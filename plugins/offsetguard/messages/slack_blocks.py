"""Block Kit's pieces as Slack takes them: each within its limit, none in which foreign text could act as markup.

Limits: https://docs.slack.dev/reference/block-kit/blocks (header 150, section text 3,000, 10 fields of 2,000, context
10 elements, button text 75, url 3,000, ids unique in a message).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetguard.messages.mrkdwn import fit_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """Return text in Slack's markup: names in it went through `mrkdwn.code` or `mrkdwn.quiet`."""
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
