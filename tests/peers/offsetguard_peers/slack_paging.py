"""How the Slack simulation refuses, and how it gives long lists in pages.

Source: https://docs.slack.dev/reference/methods/conversations.history (limit up to 999, opaque cursors, time range).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetguard_peers.slack_workspace import PostedMessage

MAX_PAGE = 999


class SlackRefused(Exception):
    """`ok: false`; the text is Slack's error code."""

    def __init__(self, error: str, **more: object) -> None:
        """`more`: further fields of the answer."""
        super().__init__(error)
        self.answer: dict[str, Any] = {"ok": False, "error": error, **more}


def page_of(messages: Sequence[PostedMessage], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Answer with one page of messages, as conversations.history and conversations.replies do."""
    oldest, latest = _moment(arguments, "oldest"), _moment(arguments, "latest")
    inclusive = flag(arguments.get("inclusive"))
    within = [each for each in messages if _within(each.ts, oldest, latest, inclusive=inclusive)]
    start, limit, cursor = window(len(within), arguments)
    with_metadata = flag(arguments.get("include_all_metadata"))
    shown = [each.as_json(with_metadata=with_metadata) for each in within[start : start + limit]]
    return {"messages": shown, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


def window(total: int, arguments: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return where a page begins, how long it is, and the cursor of the next one: opaque to clients."""
    try:
        limit = int(arguments.get("limit") or 100)
    except ValueError:
        raise SlackRefused("invalid_limit") from None
    if not 1 <= limit <= MAX_PAGE:
        raise SlackRefused("invalid_limit")
    try:
        cursor = base64.b64decode(str(arguments.get("cursor") or ""), validate=True).decode()
        start = int(cursor.removeprefix("next:")) if cursor else 0
    except ValueError:
        raise SlackRefused("invalid_cursor") from None
    following = base64.b64encode(f"next:{start + limit}".encode()).decode() if total > start + limit else ""
    return start, limit, following


def _moment(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    try:
        return None if value in (None, "") else f"{float(str(value)):.6f}"
    except ValueError:
        raise SlackRefused(f"invalid_ts_{name}") from None


def _within(ts: str, oldest: str | None, latest: str | None, *, inclusive: bool) -> bool:
    if inclusive and ts in (oldest, latest):
        return True
    return (oldest is None or float(ts) > float(oldest)) and (latest is None or float(ts) < float(latest))


def flag(value: object) -> bool:
    """Read a boolean as it arrives in JSON, a form or an address."""
    return value in (True, "true", "1", 1)
