"""Slack over its Web API: one call per message, bounded by the client's time-out, every failure classified.

Slack answers most faults with HTTP 200 and `{"ok": false, "error": ...}`. An error that the message or the channel
causes is permanent; one that the token or the app causes is not: an operator mends the connection, and everything
that waited must then go out. After a time-out or a 5xx the message may have been posted all the same; the idempotency
key in its metadata tells the two apart for a reader of the channel's history.
Source: https://docs.slack.dev/reference/methods/chat.postMessage#errors
"""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from offsetguard.channels.receipt import Receipt
from offsetguard.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from slack_sdk.web import SlackResponse

    from offsetguard.messages.slack import SlackMessage

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
    "invalid_blocks": "this is a defect of OffsetGuard, please report it",
    "msg_blocks_too_long": "this is a defect of OffsetGuard, please report it",
}

_PARENT_IS_GONE = {"thread_not_found", "message_not_found"}
_USUAL_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """A Slack workspace; the client has a time-out (seconds) and no retry handlers: the outbox retries."""

    client: WebClient

    @classmethod
    def with_token(
        cls, token: str, *, base_url: str = WebClient.BASE_URL, timeout_s: int = 10, **options: Any
    ) -> SlackChannel:
        """Open a workspace by its bot token (`xoxb-...`, scope chat:write); `base_url` for test servers."""
        return cls(WebClient(token=token, base_url=base_url, timeout=timeout_s, retry_handlers=[], **options))

    def tell(
        self,
        message: SlackMessage,
        *,
        channel: str,
        parent_ts: str | None,
        idempotency_key: str,
        tried_before: bool,
        not_before: datetime | None = None,
        edit_parent: bool = True,
    ) -> Receipt:
        """Bring a thread to its newest state: post its parent, or edit the parent in place and reply below it.

        `channel`: the receiver, or, with a parent, the channel id of its receipt (`receipt.slack_parent`).
        `tried_before`: an earlier attempt may have been accepted, so look the message up by its idempotency key, from
        `not_before` (when it was put into the outbox) on, before posting it again.
        `edit_parent`: False when the parent shows a newer state already (a message that was re-driven).
        Raises DeliveryError, classified as said above.
        """
        return self.send(message, channel=channel, thread_ts=parent_ts)

    def send(self, message: SlackMessage, *, channel: str, thread_ts: str | None = None) -> Receipt:
        """Post to a channel, or below the message `thread_ts` and visible in the channel too.

        Returns `channel ts` (channel as id). Raises DeliveryError, classified as said above.
        """
        try:
            answer = self._post(message, channel, thread_ts)
        except SlackApiError as error:
            if thread_ts is None or error.response.get("error") not in _PARENT_IS_GONE:
                raise _refused(channel, error) from error
            return self.send(message, channel=channel)
        except TimeoutError as error:
            reason = f"Slack did not answer within {self.client.timeout} s; whether {channel} has it is unknown"
            raise DeliveryError(reason, permanent=False) from error
        except (SlackClientError, OSError, http.client.HTTPException) as error:
            raise DeliveryError(
                f"Slack cannot be reached at {self.client.base_url}: {error}", permanent=False
            ) from error
        return Receipt(f"{answer['channel']} {answer['ts']}")

    def _post(self, message: SlackMessage, channel: str, thread_ts: str | None) -> SlackResponse:
        in_thread: dict[str, Any] = {"thread_ts": thread_ts, "reply_broadcast": True} if thread_ts else {}
        return self.client.chat_postMessage(
            channel=channel,
            text=message.text,
            blocks=message.blocks,
            metadata=message.metadata,
            mrkdwn=False,
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
            **in_thread,
        )


def _refused(channel: str, error: SlackApiError) -> DeliveryError:
    response: Any = error.response
    status = response.status_code
    if status == http.HTTPStatus.TOO_MANY_REQUESTS:
        wait_s = _retry_after_s(response.headers) or _USUAL_WAIT_S
        reason = f"Slack allows no more messages to {channel} for {wait_s:g} s"
        return DeliveryError(reason, permanent=False, retry_after_s=wait_s)
    answer = response.data if isinstance(response.data, dict) else {}
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR or "error" not in answer:
        reason = f"Slack failed with HTTP {status}; whether {channel} has the message is unknown"
        return DeliveryError(reason, permanent=False)
    kind = str(answer["error"])
    details = "; ".join(str(line) for line in (answer.get("response_metadata") or {}).get("messages", []))
    reason = f"Slack refused the message to {channel}: {kind}{f' ({details})' if details else ''}"
    if kind in _TOKEN_IS_WRONG:
        return DeliveryError(f"{reason}; correct the Airflow connection (bot token, scope chat:write)", permanent=False)
    if kind in _LATER:
        return DeliveryError(reason, permanent=False, retry_after_s=_retry_after_s(response.headers))
    return DeliveryError(f"{reason}; {_DO_NEXT.get(kind, 'see the Slack API reference')}", permanent=True)


def _retry_after_s(headers: Mapping[str, Any]) -> float | None:
    """Read Retry-After (whole seconds); None when it is absent or not a number."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    first = str(value[0] if isinstance(value, list) and value else value)
    return float(first) if first.isdecimal() else None
