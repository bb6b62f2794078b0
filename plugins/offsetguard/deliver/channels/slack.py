"""Slack over its Web API: a thread of trouble has one parent, edited in place, and its updates below it.

Each step is bounded by the client's time-out, all of them together by `limit_s`, and every failure is classified
(`slack_failures`). The parent is edited before the reply is posted, because an edit may be repeated and a post may not:
nothing can fail after an acceptance, and an attempt that comes after a crash looks for its message (`slack_search`)
before it posts.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse

from offsetguard.deliver.channels.receipt import LIMIT_S, Receipt, bounded
from offsetguard.deliver.channels.slack_failures import failures_classified, kind_of
from offsetguard.deliver.channels.slack_search import CannotTellError, Found, find_posted
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.deliver.messages.slack_blocks import Block

_PARENT_IS_GONE = {"thread_not_found", "message_not_found"}
_NOT_TO_BE_EDITED = {
    "edit_window_closed": "the workspace does not let messages be edited any more after a while",
    "cant_update_message": "the parent was posted by another app or token",
}


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """A Slack workspace; the client has a time-out (seconds) and no retry handlers: the outbox retries."""

    client: WebClient
    limit_s: float = LIMIT_S  # for all that one message takes

    @classmethod
    def with_token(
        cls,
        token: str,
        *,
        base_url: str = WebClient.BASE_URL,
        timeout_s: int = 10,
        limit_s: float = LIMIT_S,
        **options: Any,
    ) -> SlackChannel:
        """Open a workspace by its bot token (`xoxb-...`, scope chat:write); `base_url` for test servers."""
        client = WebClient(token=token, base_url=base_url, timeout=timeout_s, retry_handlers=[], **options)
        return cls(client, limit_s)

    def tell(
        self,
        message: SlackMessage,
        *,
        channel: str,
        parent_ts: str | None,
        idempotency_key: str,
        tried_before: bool,
        not_before: datetime | None = None,
        known_channel_id: str | None = None,
        edit_parent: bool = True,
    ) -> Receipt:
        """Bring a thread to its newest state: post its parent, or edit the parent in place and reply below it.

        `channel`: the receiver, or, with a parent, the channel id of its receipt (`receipt.slack_parent`).
        `tried_before`: an earlier attempt may have been accepted, so look the message up by its idempotency key, from
        `not_before` (when it was put into the outbox) on, before posting it again; in `known_channel_id`, when the id
        of a channel that is configured by name is known.
        `edit_parent`: False when the parent shows a newer state already (a message that was re-driven).
        Raises DeliveryError, classified as `slack_failures` says.
        """

        def attempt(given_up: threading.Event) -> Receipt:
            one = _Attempt(self.client, message, idempotency_key, tried_before, not_before, given_up)
            if parent_ts is None:
                return one.post(channel, known_channel_id or channel)
            try:
                return one.update(channel, parent_ts, edit_parent=edit_parent)
            except SlackApiError as error:
                if kind_of(error) not in _PARENT_IS_GONE:
                    raise
            return one.post(channel, channel, in_place_of=parent_ts)

        with failures_classified(self.client, channel):
            return bounded(self.limit_s, attempt, f"slack {channel}")


@dataclass(slots=True)
class _Attempt:
    """One attempt to bring one message out; collects what an operator should know of it."""

    client: WebClient
    message: SlackMessage
    idempotency_key: str
    tried_before: bool
    not_before: datetime | None
    given_up: threading.Event  # set: the outbox will try again, so nothing may be changed any more
    remark: str | None = None

    def post(self, channel: str, readable: str, *, in_place_of: str | None = None) -> Receipt:
        """Post a parent; `readable` is the channel's id, where it is known."""
        if found := self._found(readable, None):
            channel_id, ts = found.channel, found.ts
        else:
            answer = self._post(channel, self.message.blocks)
            channel_id, ts = answer["channel"], answer["ts"]
        return self._receipt(channel_id, ts, *([ts] if in_place_of else []))

    def update(self, channel: str, parent_ts: str, *, edit_parent: bool) -> Receipt:
        """Edit the parent and reply to it."""
        if found := self._found(channel, parent_ts):
            return self._receipt(found.channel, found.ts, parent_ts)
        in_channel = self.message.in_channel
        if edit_parent and not self._edited(channel, parent_ts):
            in_channel = True  # nobody would see it
        blocks = self.message.blocks if self.message.reply_blocks is None else self.message.reply_blocks
        answer = self._post(channel, blocks, thread_ts=parent_ts, reply_broadcast=in_channel)
        return self._receipt(answer["channel"], answer["ts"], parent_ts)

    def _receipt(self, *parts: str) -> Receipt:
        return Receipt(" ".join(parts), self.remark)

    def _found(self, channel: str, thread_ts: str | None) -> Found | None:
        if not self.tried_before:
            return None
        try:
            return find_posted(
                self.client, channel, self.idempotency_key, thread_ts=thread_ts, not_before=self.not_before
            )
        except CannotTellError as error:
            self.remark = str(error)
            return None

    def _edited(self, channel: str, parent_ts: str) -> bool:
        """Bring the parent to the newest state; its metadata stays, so that it can still be looked up."""
        self._stop_if_given_up()
        try:
            self.client.chat_update(
                channel=channel, ts=parent_ts, text=self.message.text, blocks=self.message.blocks, link_names=False
            )
        except SlackApiError as error:
            reason = _NOT_TO_BE_EDITED.get(kind_of(error))
            if reason is None:
                raise
            self.remark = f"{reason}, so it keeps showing an older state; updates stand in the channel instead"
            return False
        return True

    def _post(self, channel: str, blocks: list[Block], **in_thread: Any) -> SlackResponse:
        self._stop_if_given_up()
        return self.client.chat_postMessage(
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

    def _stop_if_given_up(self) -> None:
        if self.given_up.is_set():
            raise TimeoutError  # nobody waits for it
