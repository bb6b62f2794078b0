"""The inside of the Slack simulation: channels, messages, and what each Web API method checks and answers.

No HTTP here: `call(method, arguments, token)` takes decoded arguments and returns Slack's JSON. The errors are those of
https://docs.slack.dev/reference/methods (auth.test, chat.postMessage, chat.update, conversations.history/replies).
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from offsetguard_peers.slack_blocks import MAX_TOTAL_CHARACTERS, block_problems, total_characters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BOT_TOKEN = "xoxb-offsetguard-test"
TEAM_ID, BOT_USER_ID, BOT_ID = "T0OFFSETG", "U0OFFSETG", "B0OFFSETG"
SHOWN_CHARACTERS = 40_000  # a longer `text` of chat.postMessage is cut
UPDATE_CHARACTERS = 4_000  # chat.update refuses a longer `text`

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of the workspace; our bot may not be in it."""

    id: str
    name: str
    bot_is_member: bool = True
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class PostedMessage:
    """A message that Slack keeps; `ts` identifies it in its channel."""

    channel: Channel
    ts: str
    text: str
    blocks: Sequence[Mapping[str, Any]] = ()
    thread_ts: str | None = None
    reply_broadcast: bool = False
    metadata: Mapping[str, Any] | None = None
    edited_ts: str | None = None
    through_webhook: bool = False

    def as_json(self, *, with_metadata: bool = True) -> Answer:
        """Write it as Slack does."""
        message: Answer = {"type": "message", "user": BOT_USER_ID, "bot_id": BOT_ID, "ts": self.ts, "text": self.text}
        message |= {"blocks": list(self.blocks)} if self.blocks else {}
        message |= {"thread_ts": self.thread_ts} if self.thread_ts else {}
        message |= {"edited": {"user": BOT_USER_ID, "ts": self.edited_ts}} if self.edited_ts else {}
        message |= {"metadata": dict(self.metadata)} if self.metadata and with_metadata else {}
        return message


class SlackRefused(Exception):
    """`ok: false`; the text is Slack's error code."""

    def __init__(self, error: str, **more: object) -> None:
        """`more`: further fields of the answer."""
        super().__init__(error)
        self.answer: Answer = {"ok": False, "error": error, **more}


@dataclass(slots=True)
class SlackWorkspace:
    """One workspace with one bot. `messages` are all that were accepted, in the order of their `ts`."""

    channels: Sequence[Channel] = (
        Channel("C0ALERTS", "alerts"),
        Channel("C0OPS", "ops"),
        Channel("C0STRANGE", "not-invited", bot_is_member=False),
        Channel("C0OLD", "archived", is_archived=True),
    )
    token: str = BOT_TOKEN
    scopes: frozenset[str] = frozenset({"chat:write", "channels:history"})
    messages: list[PostedMessage] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _fractions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def call(self, method: str, arguments: Mapping[str, Any], token: str | None) -> Answer:
        """Answer a Web API method; faults are `{"ok": false, "error": ...}`, never exceptions."""
        methods: dict[str, tuple[Callable[[Mapping[str, Any]], Answer], str | None]] = {
            "api.test": (lambda _: {}, None),
            "auth.test": (self._auth_test, None),
            "chat.postMessage": (self._post, "chat:write"),
            "chat.update": (self._update, "chat:write"),
            "conversations.history": (self._history, "channels:history"),
            "conversations.replies": (self._replies, "channels:history"),
        }
        try:
            if method not in methods:
                raise SlackRefused("unknown_method", req_method=method)
            self._check_token(token)
            answer, scope = methods[method]
            if scope is not None and scope not in self.scopes:
                raise SlackRefused("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))
            with self._lock:
                return {"ok": True, **answer(arguments)}
        except SlackRefused as refused:
            return refused.answer

    def post_through_webhook(self, channel: Channel, payload: object) -> str:
        """Answer an incoming webhook in plain text: `ok`, or the error code."""
        if not isinstance(payload, dict):
            return "invalid_payload"
        if channel.is_archived:
            return "channel_is_archived"
        try:
            text, blocks = _content(payload)
        except SlackRefused as refused:
            return str(refused)
        with self._lock:
            self.messages.append(PostedMessage(channel, self._next_ts(), text, blocks, through_webhook=True))
        return "ok"

    def find(self, channel: Channel, ts: object) -> PostedMessage | None:
        """Look a message up by its channel and ts."""
        return next((each for each in self.messages if each.channel == channel and each.ts == ts), None)

    def _check_token(self, token: str | None) -> None:
        if not token:
            raise SlackRefused("not_authed")
        if token != self.token:
            raise SlackRefused("invalid_auth")

    def _auth_test(self, arguments: Mapping[str, Any]) -> Answer:
        return {
            "url": "https://offsetguard-test.slack.com/",
            "team": "OffsetGuard test",
            "user": "offsetguard",
            "team_id": TEAM_ID,
            "user_id": BOT_USER_ID,
            "bot_id": BOT_ID,
            "is_enterprise_install": False,
        }

    def _post(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._channel(arguments, by_name=True)
        if channel.is_archived:
            raise SlackRefused("is_archived")
        if not channel.bot_is_member:
            raise SlackRefused("not_in_channel")
        text, blocks = _content(arguments)
        thread_ts = arguments.get("thread_ts")
        if thread_ts is not None and self.find(channel, thread_ts) is None:
            raise SlackRefused("thread_not_found")
        message = PostedMessage(
            channel,
            self._next_ts(),
            text[:SHOWN_CHARACTERS],
            blocks,
            thread_ts=thread_ts,
            reply_broadcast=_flag(arguments.get("reply_broadcast")),
            metadata=_metadata(arguments),
        )
        self.messages.append(message)
        return {"channel": channel.id, "ts": message.ts, "message": message.as_json()}

    def _update(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._channel(arguments, by_name=False)
        known = self.find(channel, arguments.get("ts"))
        if known is None:
            raise SlackRefused("message_not_found")
        if known.through_webhook:
            raise SlackRefused("cant_update_message")
        text, blocks = _content(arguments)
        if len(text) > UPDATE_CHARACTERS:
            raise SlackRefused("msg_too_long")
        metadata = _metadata(arguments) if "metadata" in arguments else known.metadata
        changed = replace(known, text=text, blocks=blocks, metadata=metadata, edited_ts=self._next_ts())
        self.messages[self.messages.index(known)] = changed
        return {"channel": channel.id, "ts": changed.ts, "text": text, "message": changed.as_json()}

    def _history(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._readable(arguments)
        shown = [
            each
            for each in self.messages
            if each.channel == channel and (each.thread_ts in (None, each.ts) or each.reply_broadcast)
        ]
        return _page(list(reversed(shown)), arguments)

    def _replies(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._readable(arguments)
        parent = self.find(channel, arguments.get("ts"))
        if parent is None:
            raise SlackRefused("thread_not_found")
        thread = [each for each in self.messages if each == parent or each.thread_ts == parent.ts]
        return _page([each for each in thread if each.channel == channel], arguments)

    def _readable(self, arguments: Mapping[str, Any]) -> Channel:
        channel = self._channel(arguments, by_name=False)
        if not channel.bot_is_member:
            raise SlackRefused("not_in_channel")
        return channel

    def _channel(self, arguments: Mapping[str, Any], *, by_name: bool) -> Channel:
        """Only chat.postMessage takes a name; everything else wants the id."""
        wanted = str(arguments.get("channel") or "")
        for channel in self.channels:
            if wanted == channel.id or (by_name and wanted.removeprefix("#") == channel.name):
                return channel
        raise SlackRefused("channel_not_found")

    def _next_ts(self) -> str:
        return f"{int(time.time())}.{next(self._fractions):06}"


def _content(arguments: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Check text and blocks of a message."""
    text = arguments.get("text") or ""
    blocks = _decoded(arguments.get("blocks"), error="invalid_blocks_format") or []
    if not isinstance(text, str):
        raise SlackRefused("invalid_arguments", response_metadata={"messages": ["[ERROR] text must be a string"]})
    if not text.strip() and not blocks:
        raise SlackRefused("no_text")
    if problems := [str(problem) for problem in block_problems(blocks)]:
        messages = [f"[ERROR] {problem}" for problem in problems]
        raise SlackRefused("invalid_blocks", errors=problems, response_metadata={"messages": messages})
    if total_characters(blocks) > MAX_TOTAL_CHARACTERS:
        raise SlackRefused("msg_blocks_too_long")
    assert isinstance(blocks, list)
    return text, blocks


def _metadata(arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    metadata = _decoded(arguments.get("metadata"), error="invalid_metadata_format")
    if metadata is None:
        return None
    right = isinstance(metadata, dict) and isinstance(metadata.get("event_type"), str) and metadata["event_type"]
    if not right or not isinstance(metadata.get("event_payload"), dict):
        raise SlackRefused("invalid_metadata_schema")
    return dict(metadata)


def _decoded(value: Any, *, error: str) -> Any:
    """Structures arrive as JSON in JSON bodies, and as text in forms."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise SlackRefused(error) from None


def _page(messages: Sequence[PostedMessage], arguments: Mapping[str, Any]) -> Answer:
    oldest, latest = arguments.get("oldest"), arguments.get("latest")
    inclusive = _flag(arguments.get("inclusive"))
    within = [each for each in messages if _within(each.ts, oldest, latest, inclusive=inclusive)]
    start = int(arguments.get("cursor") or 0)
    limit = min(int(arguments.get("limit") or 100), 999)
    more = len(within) > start + limit
    with_metadata = _flag(arguments.get("include_all_metadata"))
    shown = [each.as_json(with_metadata=with_metadata) for each in within[start : start + limit]]
    cursor = str(start + limit) if more else ""
    return {"messages": shown, "has_more": more, "response_metadata": {"next_cursor": cursor}}


def _within(ts: str, oldest: Any, latest: Any, *, inclusive: bool) -> bool:
    if inclusive and ts in (oldest, latest):
        return True
    return (not oldest or float(ts) > float(oldest)) and (not latest or float(ts) < float(latest))


def _flag(value: object) -> bool:
    return value in (True, "true", "1", 1)
