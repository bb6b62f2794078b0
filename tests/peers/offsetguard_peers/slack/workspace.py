"""The inside of the Slack simulation: channels, messages, and what each Web API method checks and answers.

No HTTP here: `call(method, arguments, token)` takes decoded arguments and returns Slack's JSON. The errors are those of
https://docs.slack.dev/reference/methods (chat.postMessage, chat.update, conversations.history/replies,
users.conversations), as are the pages of long lists (limit up to 999, opaque cursors, time range).
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from offsetguard_peers.slack.blocks import MAX_TOTAL_CHARACTERS, block_problems, total_characters
from offsetguard_peers.slack.limits import RateLimits

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


BOT_TOKEN = "xoxb-offsetguard-test"
BOT_USER_ID, BOT_ID = "U0OFFSETG", "B0OFFSETG"
SHOWN_CHARACTERS = 40_000  # a longer `text` of chat.postMessage is cut
UPDATE_CHARACTERS = 4_000  # chat.update refuses a longer `text`
METADATA_BYTES = 16_384
SCOPES = frozenset({"chat:write", "channels:history", "channels:read"})

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of the workspace; our bot may not be in it."""

    id: str
    name: str
    bot_is_member: bool = True
    is_archived: bool = False
    is_private: bool = False

    @property
    def kind(self) -> str:
        """What the scopes call it: `channels` or `groups`."""
        return "groups" if self.is_private else "channels"


CHANNELS = (
    Channel("C0ALERTS", "alerts"),
    Channel("C0OPSROOM", "ops"),
    Channel("C0STRANGE", "not-invited", bot_is_member=False),
    Channel("C0OLD", "archived", is_archived=True),
    Channel("G0SECRET", "private", is_private=True),
)


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
    is_tombstone: bool = False  # deleted, but its replies are still there

    def as_json(self, *, with_metadata: bool = True) -> Answer:
        """Write it as Slack does."""
        message: Answer = {"type": "message", "user": BOT_USER_ID, "bot_id": BOT_ID, "ts": self.ts, "text": self.text}
        message |= {"blocks": list(self.blocks)} if self.blocks else {}
        message |= {"thread_ts": self.thread_ts} if self.thread_ts else {}
        message |= {"edited": {"user": BOT_USER_ID, "ts": self.edited_ts}} if self.edited_ts else {}
        message |= {"metadata": dict(self.metadata)} if self.metadata and with_metadata else {}
        return message | ({"subtype": "tombstone"} if self.is_tombstone else {})


@dataclass(slots=True)
class SlackWorkspace:
    """One workspace with one bot. `messages` are all that were accepted, in the order of their `ts`."""

    channels: Sequence[Channel] = CHANNELS
    token: str = BOT_TOKEN
    team: str | None = None  # its id, which answers to posts have; None: they have it not
    scopes: frozenset[str] = SCOPES
    messages: list[PostedMessage] = field(default_factory=list)
    clock: Callable[[], float] = time.time  # seconds since the epoch
    edit_window_s: float | None = None  # how long after posting a message may be edited; None: for ever
    limits: RateLimits | None = None  # without, Slack is patient
    message_file: Path | None = None  # where messages are kept when this process ends, however it ends
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _fractions: itertools.count[int] = field(init=False)

    def __post_init__(self) -> None:
        """Read the messages of an earlier process, and count on behind their `ts`."""
        if self.message_file is not None and self.message_file.exists():
            channels = {each.id: each for each in self.channels}
            for kept in json.loads(self.message_file.read_text(encoding="utf-8")):
                self.messages.append(PostedMessage(**{**kept, "channel": channels[kept["channel"]["id"]]}))
        given = [ts for each in self.messages for ts in (each.ts, each.edited_ts) if ts is not None]
        self._fractions = itertools.count(max((int(ts.partition(".")[2]) for ts in given), default=99) + 1)

    def call(self, method: str, arguments: Mapping[str, Any], token: str | None) -> Answer:
        """Answer a Web API method; faults are `{"ok": false, "error": ...}`.

        Raises only RateLimitedError, which Slack tells by HTTP 429.
        """
        methods: dict[str, tuple[Callable[[Mapping[str, Any]], Answer], frozenset[str]]] = {
            "api.test": (lambda _: {}, frozenset()),
            "chat.postMessage": (self._post, frozenset({"chat:write"})),
            "chat.update": (self._update, frozenset({"chat:write"})),
            "conversations.history": (self._history, frozenset({"channels:history", "groups:history"})),
            "conversations.replies": (self._replies, frozenset({"channels:history", "groups:history"})),
            "users.conversations": (self._conversations, frozenset({"channels:read", "groups:read"})),
        }
        try:
            if method not in methods:
                raise SlackRefused("unknown_method", req_method=method)
            self._check_token(token)
            answer, one_of = methods[method]
            if one_of and not one_of & self.scopes:
                raise self._missing_scope(",".join(sorted(one_of)))
            with self._lock:
                if self.limits is not None:
                    self.limits.take(method, str(arguments.get("channel")))
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
            if self.limits is not None:
                self.limits.take("webhook", channel.id)
            self.messages.append(PostedMessage(channel, self._next_ts(), text, blocks, through_webhook=True))
            self._keep()
        return "ok"

    def delete(self, ts: str) -> None:
        """Delete a message as a person would; where replies are left, a tombstone stands in its place."""
        with self._lock:
            for message in [each for each in self.messages if each.ts == ts]:
                place = self.messages.index(message)
                if any(each.thread_ts == ts for each in self.messages):
                    gone = "This message was deleted."
                    self.messages[place] = PostedMessage(message.channel, ts, gone, thread_ts=ts, is_tombstone=True)
                else:
                    del self.messages[place]
            self._keep()

    def find(self, channel: Channel, ts: object) -> PostedMessage | None:
        """Look a message up by its channel and ts."""
        return next((each for each in self.messages if each.channel == channel and each.ts == ts), None)

    def _check_token(self, token: str | None) -> None:
        if not token:
            raise SlackRefused("not_authed")
        if token != self.token:
            raise SlackRefused("invalid_auth")

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
            reply_broadcast=flag(arguments.get("reply_broadcast")),
            metadata=_metadata(arguments),
        )
        self.messages.append(message)
        self._keep()
        return {
            "channel": channel.id,
            "ts": message.ts,
            "message": message.as_json() | ({"team": self.team} if self.team else {}),
        }

    def _update(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._channel(arguments, by_name=False)
        known = self.find(channel, arguments.get("ts"))
        if known is None or known.is_tombstone:
            raise SlackRefused("message_not_found")
        if known.through_webhook:
            raise SlackRefused("cant_update_message")
        if self.edit_window_s is not None and self.clock() - float(known.ts) > self.edit_window_s:
            raise SlackRefused("edit_window_closed")
        text, blocks = _content(arguments)
        if len(text) > UPDATE_CHARACTERS:
            raise SlackRefused("msg_too_long")
        metadata = _metadata(arguments) if "metadata" in arguments else known.metadata
        changed = replace(known, text=text, blocks=blocks, metadata=metadata, edited_ts=self._next_ts())
        self.messages[self.messages.index(known)] = changed
        self._keep()
        return {"channel": channel.id, "ts": changed.ts, "text": text, "message": changed.as_json()}

    def _history(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._readable(arguments)
        shown = [
            each
            for each in self.messages
            if each.channel == channel and (each.thread_ts in (None, each.ts) or each.reply_broadcast)
        ]
        return page_of(list(reversed(shown)), arguments)

    def _replies(self, arguments: Mapping[str, Any]) -> Answer:
        channel = self._readable(arguments)
        parent = self.find(channel, arguments.get("ts"))
        if parent is None:
            raise SlackRefused("thread_not_found")
        thread = [each for each in self.messages if each == parent or each.thread_ts == parent.ts]
        return page_of([each for each in thread if each.channel == channel], arguments)

    def _conversations(self, arguments: Mapping[str, Any]) -> Answer:
        """List the channels that the bot is in."""
        kinds = {"public_channel": "channels", "private_channel": "groups"}
        wanted = [kinds.get(kind, kind) for kind in str(arguments.get("types") or "public_channel").split(",")]
        for kind in wanted:
            if f"{kind}:read" not in self.scopes:
                raise self._missing_scope(f"{kind}:read")
        mine = [
            {"id": each.id, "name": each.name, "is_private": each.is_private, "is_archived": each.is_archived}
            for each in self.channels
            if each.bot_is_member and each.kind in wanted
            if not (each.is_archived and flag(arguments.get("exclude_archived")))
        ]
        start, limit, cursor = window(len(mine), arguments)
        return {"channels": mine[start : start + limit], "response_metadata": {"next_cursor": cursor}}

    def _readable(self, arguments: Mapping[str, Any]) -> Channel:
        channel = self._channel(arguments, by_name=False)
        if f"{channel.kind}:history" not in self.scopes:
            raise self._missing_scope(f"{channel.kind}:history")
        if not channel.bot_is_member:
            raise SlackRefused("channel_not_found" if channel.is_private else "not_in_channel")
        return channel

    def _missing_scope(self, needed: str) -> SlackRefused:
        return SlackRefused("missing_scope", needed=needed, provided=",".join(sorted(self.scopes)))

    def _channel(self, arguments: Mapping[str, Any], *, by_name: bool) -> Channel:
        """Only chat.postMessage takes a name; everything else wants the id."""
        wanted = str(arguments.get("channel") or "")
        for channel in self.channels:
            if wanted == channel.id or (by_name and wanted.removeprefix("#") == channel.name):
                return channel
        raise SlackRefused("channel_not_found")

    def _keep(self) -> None:
        """Write all messages, before anybody is told that one was accepted."""
        if self.message_file is not None:
            unfinished = self.message_file.with_suffix(".unfinished")
            unfinished.write_text(json.dumps([asdict(each) for each in self.messages]), encoding="utf-8")
            unfinished.replace(self.message_file)

    def _next_ts(self) -> str:
        return f"{int(self.clock())}.{next(self._fractions):06}"


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
    if len(json.dumps(metadata).encode()) > METADATA_BYTES:
        raise SlackRefused("metadata_too_large")
    return dict(metadata)


def _decoded(value: Any, *, error: str) -> Any:
    """Structures arrive as JSON in JSON bodies, and as text in forms."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise SlackRefused(error) from None
