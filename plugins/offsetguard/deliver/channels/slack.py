"""Slack over its Web API: a thread of trouble has one parent, edited in place, and its updates below it.

Each step is bounded by the client's time-out, all of them together by `limit_s`, and every failure is classified. The
parent is edited before the reply is posted, because an edit may be repeated and a post may not: nothing can fail after
an acceptance, and an attempt that comes after a crash looks for its message, by the idempotency key in its metadata,
before it posts. That needs the scope `channels:history` (private channels: `groups:history`), and `channels:read`
(`groups:read`) where only the channel's name is known. Without them nothing can be looked up: the answer says so, and a
duplicate is possible. What a warning leaves to its thread is a message of its own, which is put into the outbox when
the warning is accepted: where it fails, it is tried again alone.

What a failed call means; Slack answers most faults with HTTP 200 and `{"ok": false, "error": ...}`:

| what happened                             | permanent | why |
|-------------------------------------------|-----|-----|
| the message or its channel is wrong       | yes | the same message will be refused again |
| the token is wrong, or lacks a scope      | no  | an operator mends the connection, then all that waited goes out |
| 429, or Slack says that it is busy        | no  | after Retry-After, when Slack names it |
| 5xx, no answer in time, closed connection | no  | whether the message was posted is unknown |
| an answer that is not what Slack says     | no  | the same: it is looked for before it is posted again |
| nobody listens, name unknown, TLS failed  | no  | the connection can be mended |

Source: https://docs.slack.dev/reference/methods/chat.postMessage#errors, conversations.history (and .replies,
users.conversations)
"""

import contextlib
import http
import itertools
import math
import re
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import LIMIT_S, Connection, Handover, Receipt, TookTooLong, Transport, bounded
from offsetguard.deliver.messages.slack import EVENT_TYPE, SlackMessage, render_slack
from offsetguard.deliver.messages.slack_blocks import Block
from offsetguard.deliver.one_request import NoAddress, ask
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import Declared
from offsetguard.model.views import MessageView
from offsetguard.store import notifications
from offsetguard.store.models import OutboxRow
from offsetguard.store.outbox import LONGEST_WAIT

CHANNEL = Declared(
    name="slack",
    receivers="slack",
    receiver="SlackChannelName",
    meaning="names or ids; the bot must be a member",
    title="Slack",
    title_zh="Slack 消息",
)

_PARENT_IS_GONE = {"thread_not_found", "message_not_found"}
_NOT_TO_BE_EDITED = {
    "edit_window_closed": "the workspace does not let messages be edited any more after a while",
    "cant_update_message": "the parent was posted by another app or token",
}
_TOKEN_IS_WRONG = {
    "not_authed",
    "invalid_auth",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "missing_scope",
    "no_permission",
    "access_denied",
    "ekm_access_denied",
    "org_login_required",
    "team_access_not_granted",
    "enterprise_is_restricted",
}
_LATER = {
    "ratelimited",
    "rate_limited",
    "message_limit_exceeded",
    "internal_error",
    "fatal_error",
    "service_unavailable",
    "request_timeout",
    "team_added_to_org",
}
_DO_NEXT = {
    "channel_not_found": "correct the channel in config/offsetguard.yml, or invite the app if it is private",
    "not_in_channel": "invite the app to the channel: /invite @OffsetGuard",
    "is_archived": "name another channel in config/offsetguard.yml",
    "thread_not_found": "somebody has deleted the message that these details belong to; nothing else is lost",
    "invalid_blocks": "this is a defect of OffsetGuard, please report it",
    "msg_blocks_too_long": "this is a defect of OffsetGuard, please report it",
    "msg_too_long": "this is a defect of OffsetGuard, please report it",
}
USUAL_WAIT_S = 30.0  # when Slack limits without saying for how long
LONGEST_WISH_S = LONGEST_WAIT.total_seconds()  # of Retry-After
_PAGE = 200  # what Slack recommends
_MAX_PAGES = 10
_CLOCK_SKEW = timedelta(hours=2)  # between our database's clock and Slack's: it may have jumped by an hour
_CONSEQUENCE = "a message that is sent again after a crash or a time-out may stand in Slack twice"
_ERROR_CODE = re.compile(r"[a-z][a-z0-9_]{1,79}")
_TEAM_ID = re.compile(r"[TE][A-Z0-9]{5,}")
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{5,}")  # names have no capital letters
_CANNOT_READ = {
    "not_in_channel": "the app is not a member of the channel",
    "channel_not_found": "the app cannot see the channel",
    "no_permission": "the token may not read the channel",
    "access_denied": "the token may not read the channel",
    "not_allowed_token_type": "the token is of a type that may not read channels",
}


@dataclass(frozen=True, slots=True)
class SlackChannel(Transport):
    """A Slack workspace; the client has seconds for each request and no retry handlers: the outbox retries."""

    client: WebClient
    limit_s: float = LIMIT_S  # for all that one message takes

    LANES: ClassVar = 8
    CONNECTION_FIELD: ClassVar = "slack_connection"
    CONNECTION_NEEDS: ClassVar = "password"
    CONNECTION_ADVICE: ClassVar = (
        "create one of type slack with the bot token (xoxb-..., scopes chat:write and channels:history) as password "
        "(delivery.slack_connection names it)"
    )

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> "SlackChannel":
        """Open Slack by the provider's type `slack`: password = bot token; extra `base_url`, `timeout`, `proxy`."""
        del delivery
        options = {name: connection.extra[name] for name in ("base_url", "proxy") if connection.extra.get(name)}
        return cls.with_token(connection.password or "", timeout=math.ceil(connection.timeout_s), **options)

    @classmethod
    def with_token(cls, token: str, **options: Any) -> "SlackChannel":
        """Open a workspace by its bot token (`xoxb-...`, scope chat:write); `options`: of `WebClient`."""
        return cls(_Client(token=token, retry_handlers=[], **options))

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Post the parent of a thread, or edit it and reply below it: the log knows the parent."""
        rendered = rendered_for_slack(message)
        engine, channel, receiver = handover.engine, message.channel, message.receiver
        accepted = notifications.thread(engine, thread_key=message.thread_key, channel=channel, receiver=receiver)
        tried_before = message.attempts > 1
        known = None
        if tried_before and not accepted:
            known = notifications.newest_receipt(engine, channel=channel, receiver=receiver)
        receipt = self.send(
            rendered,
            receiver,
            below=accepted[-1].receipt if accepted else None,
            tried_before=tried_before,
            not_before=message.created_at,
            known_channel_id=known.split()[0] if known else None,  # for the look-up, which wants an id
            edit_parent=all(entry.outbox_id < message.id for entry in accepted),  # not by a message that was re-driven
        )
        return replace(receipt, follow_up=rendered.follow_up)

    def send(
        self,
        message: SlackMessage,
        receiver: str,
        *,
        below: str | None = None,
        tried_before: bool = False,
        not_before: datetime | None = None,
        known_channel_id: str | None = None,
        edit_parent: bool = True,
    ) -> Receipt:
        """Bring a thread to its newest state: post its parent, or edit the parent in place and reply below it.

        `below`: the newest receipt of the thread; its last part is the parent.
        `tried_before`: an earlier attempt may have been accepted, so look the message up by its idempotency key, from
        `not_before` (when it was put into the outbox) on, before posting it again; in `known_channel_id`, when the id
        of a channel that is configured by name is known.
        `edit_parent`: False when the parent shows a newer state already (a message that was re-driven).
        Raises DeliveryError, classified as in the table above.
        """
        channel, parent_ts = (receiver, None) if below is None else (below.split()[0], below.split()[-1])

        def attempt(given_up: threading.Event) -> Receipt:
            one = _Attempt(self.client, message, tried_before, not_before, given_up)
            if parent_ts is None:
                return one.post(channel, known_channel_id or channel)
            try:
                return one.update(channel, parent_ts, edit_parent=edit_parent and not message.is_details)
            except SlackApiError as error:
                if message.is_details or _kind_of(error) not in _PARENT_IS_GONE:
                    raise
            return one.post(channel, channel, replaces_parent=True)

        with _failures_classified(self.client, channel):
            return bounded(self.limit_s, attempt, f"slack {channel}")


class _Client(WebClient):
    """slack_sdk's client, with our way to ask: the token goes to no other host, and nothing is read without end."""

    def _perform_urllib_http_request_internal(self, url: str, req: urllib.request.Request) -> dict[str, Any]:
        answer = ask(
            "POST",
            url,
            body=req.data,  # type: ignore[arg-type] # bytes
            headers=dict(req.header_items()),
            limit_s=self.timeout,
            proxy=self.proxy,
        )
        return {"status": answer.status, "headers": answer.headers, "body": answer.body.decode(answer.encoding)}


@dataclass(slots=True)
class _Attempt:
    """One attempt to bring one message out; collects what an operator should know of it.

    A message of Slack's is named by the id of its channel and its `ts`.
    """

    client: WebClient
    message: SlackMessage
    tried_before: bool
    not_before: datetime | None  # when the first attempt may have been; None reads the newest `_MAX_PAGES * _PAGE`
    given_up: threading.Event  # set: the outbox will try again, so nothing may be changed any more
    remark: str | None = None
    team: str | None = None  # the id of the workspace, where Slack's answer has it

    def post(self, channel: str, readable: str, *, replaces_parent: bool = False) -> Receipt:
        """Post a parent; `readable` is the channel's id, where it is known."""
        channel_id, ts = self._found(readable, None) or self._post(channel, self.message.blocks)
        return self._receipt(channel_id, ts, *([ts] if replaces_parent else []))

    def update(self, channel: str, parent_ts: str, *, edit_parent: bool) -> Receipt:
        """Edit the parent and reply to it."""
        if found := self._found(channel, parent_ts):
            return self._receipt(*found, parent_ts)
        in_channel = self.message.in_channel
        if edit_parent and not self._edited(channel, parent_ts):
            in_channel = True  # nobody would see it
        blocks = self.message.blocks if self.message.reply_blocks is None else self.message.reply_blocks
        return self._receipt(*self._post(channel, blocks, thread_ts=parent_ts, reply_broadcast=in_channel), parent_ts)

    def _receipt(self, channel: str, *moments: str) -> Receipt:
        return Receipt(" ".join([channel, *([self.team] if self.team else []), *moments]), self.remark)

    def _found(self, channel: str, thread_ts: str | None) -> tuple[str, str] | None:
        """Return what an earlier attempt has posted, in the channel or in a thread of it; what cannot be asked: None.

        Raises slack_sdk's errors when it may be asked later: nothing is posted blindly.
        """
        if not self.tried_before:
            return None
        try:
            channel_id = _channel_id(self.client, channel)
            if channel_id is None:
                reason: str | None = _CANNOT_READ["not_in_channel"]
            else:
                ts = self._ts_of_ours(channel_id, thread_ts)
                return None if ts is None else (channel_id, ts)
        except SlackApiError as error:
            if _kind_of(error) == "thread_not_found":
                return None
            reason = _why_not(error)
            if reason is None:
                raise
        self.remark = f"{reason}, so {_CONSEQUENCE}"
        return None

    def _ts_of_ours(self, channel_id: str, thread_ts: str | None) -> str | None:
        oldest = None if self.not_before is None else f"{(self.not_before - _CLOCK_SKEW).timestamp():.6f}"
        arguments: dict[str, Any] = {"oldest": oldest, "limit": _PAGE, "include_all_metadata": True}
        if thread_ts is None:
            pages = self.client.conversations_history(channel=channel_id, **arguments)
        else:
            pages = self.client.conversations_replies(channel=channel_id, ts=thread_ts, **arguments)
        key = _key_of(self.message.metadata)
        ours = (_text(one, "ts") for one in _each(pages, "messages") if _key_of(one.get("metadata")) == key)
        return next(ours, None)

    def _edited(self, channel: str, parent_ts: str) -> bool:
        """Bring the parent to the newest state; its metadata stays, so that it can still be looked up."""
        self._stop_if_given_up()
        try:
            text, blocks = self.message.text, self.message.blocks
            self.client.chat_update(channel=channel, ts=parent_ts, text=text, blocks=blocks, link_names=False)
        except SlackApiError as error:
            reason = _NOT_TO_BE_EDITED.get(_kind_of(error))
            if reason is None:
                raise
            self.remark = f"{reason}, so it keeps showing an older state; updates stand in the channel instead"
            return False
        return True

    def _post(self, channel: str, blocks: list[Block], **in_thread: Any) -> tuple[str, str]:
        self._stop_if_given_up()
        answer = self.client.chat_postMessage(
            channel=channel,
            text=self.message.text,
            blocks=blocks,
            metadata=self.message.metadata,
            mrkdwn=False,
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
            **in_thread,
        )
        message: Any = answer.get("message")
        team = message.get("team") if isinstance(message, dict) else None
        self.team = team if isinstance(team, str) and _TEAM_ID.fullmatch(team) else None
        return _text(answer, "channel"), _text(answer, "ts")

    def _stop_if_given_up(self) -> None:
        if self.given_up.is_set():
            raise TimeoutError  # nobody waits for it


def rendered_for_slack(message: OutboxRow, *, in_threads: bool = True) -> SlackMessage:
    """Return what a message says in Slack; raises TypeError for a digest or a report, which are for mail only."""
    view = message.view
    if not isinstance(view, MessageView):
        raise TypeError(f"a {type(view).__name__} is for mail only")
    return render_slack(view, idempotency_key=message.idempotency_key, in_threads=in_threads)


@contextlib.contextmanager
def _failures_classified(client: WebClient, channel: str) -> Iterator[None]:
    """Raise DeliveryError for whatever goes wrong in calls about a channel, classified as in the table above."""
    try:
        try:
            yield
        except SlackApiError as error:
            raise _refused(channel, error) from error
    except DeliveryError:
        raise
    except TimeoutError as error:
        limit_s = error.limit_s if isinstance(error, TookTooLong) else client.timeout
        reason = f"Slack did not answer within {limit_s:g} s; whether {channel} has the message is unknown"
        raise DeliveryError(reason, permanent=False) from error
    except NoAddress as error:
        reason = "the Airflow connection has a base_url or a token that cannot be used; correct it"
        raise DeliveryError(reason, permanent=False) from error
    except (SlackClientError, OSError) as error:
        raise DeliveryError(f"Slack cannot be reached at {client.base_url}: {error}", permanent=False) from error
    except Exception as error:  # nothing but calls and their answers stands in there, which may be of any form
        why = str(error) if isinstance(error, _NotSlack) else type(error).__name__
        raise DeliveryError(_unknown_answer(channel, why), permanent=False) from error


def _unknown_answer(channel: str, why: str) -> str:
    return (
        f"the answer is not Slack's ({why}); a proxy may stand in between; whether {channel} has the message is unknown"
    )


def _kind_of(error: SlackApiError) -> str:
    """Return Slack's error code, or nothing when it answered with something else."""
    answer: Any = error.response.data
    return str(answer.get("error", "")) if isinstance(answer, dict) else ""


def retry_after_s(headers: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Read Retry-After, seconds or a date (RFC 9110, 10.2.3), of at most an hour; None when it is absent or neither.

    Whoever wishes for a year gets an hour: nobody would hear of anything until then.
    """
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    first = str(value[0] if isinstance(value, list) and value else value).strip()
    if first.isascii() and first.isdecimal():
        return min(float(first[:20]), LONGEST_WISH_S)
    try:
        moment = parsedate_to_datetime(first)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max((moment - (now or datetime.now(UTC))).total_seconds(), 0.0), LONGEST_WISH_S)


def _refused(channel: str, error: SlackApiError) -> DeliveryError:
    response: Any = error.response
    status, kind = response.status_code, _kind_of(error)
    if status == http.HTTPStatus.TOO_MANY_REQUESTS:
        wait_s = retry_after_s(response.headers) or USUAL_WAIT_S
        reason = f"Slack allows no more messages to {channel} for {wait_s:g} s"
        return DeliveryError(reason, permanent=False, retry_after_s=wait_s)
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        reason = f"Slack failed with HTTP {status}; whether {channel} has the message is unknown"
        return DeliveryError(reason, permanent=False)
    if not _ERROR_CODE.fullmatch(kind):  # slack_sdk puts what it could not read there
        return DeliveryError(_unknown_answer(channel, f"HTTP {status}, no JSON"), permanent=False)
    details = "; ".join(map(str, (response.data.get("response_metadata") or {}).get("messages") or []))
    reason = f"Slack refused the message to {channel}: {kind}{f' ({details})' if details else ''}"
    if kind in _TOKEN_IS_WRONG:
        return DeliveryError(f"{reason}; correct the Airflow connection (bot token, scope chat:write)", permanent=False)
    if kind in _LATER:
        return DeliveryError(reason, permanent=False, retry_after_s=retry_after_s(response.headers))
    return DeliveryError(f"{reason}; {_DO_NEXT.get(kind, 'see the Slack API reference')}", permanent=True)


def _key_of(metadata: dict[str, Any] | None) -> str | None:
    """Return the idempotency key of a message of ours; None: it is somebody else's."""
    if metadata is None or metadata.get("event_type") != EVENT_TYPE:
        return None
    key = (metadata.get("event_payload") or {}).get("idempotency_key")
    return key if isinstance(key, str) else None


def _channel_id(client: WebClient, channel: str) -> str | None:
    """Return the id of a channel, None when the app is not in it; reading wants ids where posting takes names."""
    if _CHANNEL_ID.fullmatch(channel):
        return channel
    lacking: SlackApiError | None = None
    for kind in ("public_channel", "private_channel"):
        try:
            listed = client.users_conversations(types=kind, exclude_archived=True, limit=_PAGE)
            for each in _each(listed, "channels"):
                if _text(each, "name") == channel.removeprefix("#"):
                    return _text(each, "id")
        except SlackApiError as error:
            if _kind_of(error) != "missing_scope":
                raise
            lacking = lacking or error
    if lacking is not None:
        raise lacking
    return None


def _each(pages: SlackResponse, name: str) -> Iterator[dict[str, Any]]:
    for page in itertools.islice(pages, _MAX_PAGES):
        listed = page.get(name)
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise _NotSlack(f"it has no list of {name}")
        if not isinstance(page.get("response_metadata") or {}, dict):
            raise _NotSlack("it does not say whether more follows")
        yield from listed


class _NotSlack(Exception):
    """An answer that is not what Slack says, a proxy's for one; the text says why."""


def _text(answer: Mapping[str, Any] | SlackResponse, name: str) -> str:
    """Return a text of an answer; raises _NotSlack where it has none of that name."""
    text = answer.get(name)
    if not isinstance(text, str) or not text:
        raise _NotSlack(f"it names no {name}")
    return text


def _why_not(error: SlackApiError) -> str | None:
    """Return why Slack cannot be asked, equal for all messages that it concerns; None: it can, later."""
    kind = _kind_of(error)
    if kind == "missing_scope":
        answer: Any = error.response
        return f"the Slack token lacks the scope {str(answer.get('needed', ''))[:80]}"
    return _CANNOT_READ.get(kind)
