"""Looks a message up in Slack by the idempotency key in its metadata, before it is posted a second time.

Needs the scope `channels:history` (private channels: `groups:history`), and `channels:read` (`groups:read`) where only
the channel's name is known. Without them nothing can be looked up: the answer says so, and a duplicate is possible.
Source: https://docs.slack.dev/reference/methods/conversations.history (and .replies, users.conversations)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse

from offsetguard.deliver.channels.slack_failures import kind_of
from offsetguard.deliver.messages.slack import EVENT_TYPE

PAGE = 200  # what Slack recommends
MAX_PAGES = 10
CLOCK_SKEW = timedelta(minutes=5)  # between our clock and Slack's
_CONSEQUENCE = "a message that is sent again after a crash or a time-out may stand in Slack twice"
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{5,}")  # names have no capital letters
_CANNOT_READ = {
    "not_in_channel": "the app is not a member of the channel",
    "channel_not_found": "the app cannot see the channel",
    "no_permission": "the token may not read the channel",
    "access_denied": "the token may not read the channel",
    "not_allowed_token_type": "the token is of a type that may not read channels",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A message that Slack accepted."""

    channel: str  # id
    ts: str


class CannotTellError(Exception):
    """Slack cannot be asked; the text says why and what follows, equal for all messages that it concerns."""


def find_posted(
    client: WebClient, channel: str, idempotency_key: str, *, thread_ts: str | None, not_before: datetime | None
) -> Found | None:
    """Return the message with this key, in the channel or in a thread of it, or None.

    `not_before`: when the first attempt may have been; None reads the newest `MAX_PAGES * PAGE` messages.
    Raises CannotTellError when the token may not look, and slack_sdk's errors for all other failures.
    """
    oldest = None if not_before is None else f"{(not_before - CLOCK_SKEW).timestamp():.6f}"
    arguments: dict[str, Any] = {"oldest": oldest, "limit": PAGE, "include_all_metadata": True}
    try:
        channel_id = _channel_id(client, channel)
        if thread_ts is None:
            pages = client.conversations_history(channel=channel_id, **arguments)
        else:
            pages = client.conversations_replies(channel=channel_id, ts=thread_ts, **arguments)
        for message in _each(pages, "messages"):
            if _key_of(message) == idempotency_key:
                return Found(channel_id, str(message["ts"]))
    except SlackApiError as error:
        if kind_of(error) == "thread_not_found":
            return None
        if reason := _why_not(error):
            raise CannotTellError(f"{reason}, so {_CONSEQUENCE}") from error
        raise
    return None


def _key_of(message: dict[str, Any]) -> str | None:
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") != EVENT_TYPE:
        return None
    key = (metadata.get("event_payload") or {}).get("idempotency_key")
    return key if isinstance(key, str) else None


def _channel_id(client: WebClient, channel: str) -> str:
    """Return the id of a channel that the app is in; reading wants ids where posting takes names."""
    if _CHANNEL_ID.fullmatch(channel):
        return channel
    lacking: SlackApiError | None = None
    for kind in ("public_channel", "private_channel"):
        try:
            listed = client.users_conversations(types=kind, exclude_archived=True, limit=PAGE)
            for each in _each(listed, "channels"):
                if each["name"] == channel.removeprefix("#"):
                    return str(each["id"])
        except SlackApiError as error:
            if kind_of(error) != "missing_scope":
                raise
            lacking = lacking or error
    if lacking is not None:
        raise lacking
    raise CannotTellError(f"{_CANNOT_READ['not_in_channel']}, so {_CONSEQUENCE}")


def _each(pages: SlackResponse, name: str) -> Iterator[dict[str, Any]]:
    for page in itertools.islice(pages, MAX_PAGES):
        yield from page[name]


def _why_not(error: SlackApiError) -> str | None:
    kind = kind_of(error)
    if kind == "missing_scope":
        answer: Any = error.response
        return f"the Slack token lacks the scope {str(answer.get('needed', ''))[:80]}"
    return _CANNOT_READ.get(kind)
