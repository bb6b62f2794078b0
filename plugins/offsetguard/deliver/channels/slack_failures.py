"""What a failed call of Slack's Web API means: whether a retry can help, when, and what an operator can do.

Slack answers most faults with HTTP 200 and `{"ok": false, "error": ...}`.

| what happened                             | permanent | why |
|-------------------------------------------|-----|-----|
| the message or its channel is wrong       | yes | the same message will be refused again |
| the token is wrong, or lacks a scope      | no  | an operator mends the connection, then all that waited goes out |
| 429, or Slack says that it is busy        | no  | after Retry-After, when Slack names it |
| 5xx, no answer in time, closed connection | no  | whether the message was posted is unknown |
| nobody listens, name unknown, TLS failed  | no  | the connection can be mended |

Source: https://docs.slack.dev/reference/methods/chat.postMessage#errors
"""

from __future__ import annotations

import contextlib
import http
import http.client
from collections.abc import Iterator, Mapping
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from offsetguard.deliver.channels.receipt import TookTooLong
from offsetguard.model.errors import DeliveryError

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
    "msg_too_long": "this is a defect of OffsetGuard, please report it",
}
USUAL_WAIT_S = 30.0  # when Slack limits without saying for how long


@contextlib.contextmanager
def failures_classified(client: WebClient, channel: str) -> Iterator[None]:
    """Raise DeliveryError for whatever goes wrong in calls about a channel, classified as in the table above."""
    try:
        yield
    except SlackApiError as error:
        raise _refused(channel, error) from error
    except TimeoutError as error:
        limit_s = error.limit_s if isinstance(error, TookTooLong) else client.timeout
        reason = f"Slack did not answer within {limit_s:g} s; whether {channel} has the message is unknown"
        raise DeliveryError(reason, permanent=False) from error
    except (SlackClientError, OSError, http.client.HTTPException) as error:
        raise DeliveryError(f"Slack cannot be reached at {client.base_url}: {error}", permanent=False) from error


def kind_of(error: SlackApiError) -> str:
    """Return Slack's error code, or nothing when it answered with something else."""
    answer: Any = error.response.data
    return str(answer.get("error", "")) if isinstance(answer, dict) else ""


def retry_after_s(headers: Mapping[str, Any]) -> float | None:
    """Read Retry-After (whole seconds); None when it is absent or not a number."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    first = str(value[0] if isinstance(value, list) and value else value)
    return float(first) if first.isdecimal() else None


def _refused(channel: str, error: SlackApiError) -> DeliveryError:
    response: Any = error.response
    status, kind = response.status_code, kind_of(error)
    if status == http.HTTPStatus.TOO_MANY_REQUESTS:
        wait_s = retry_after_s(response.headers) or USUAL_WAIT_S
        reason = f"Slack allows no more messages to {channel} for {wait_s:g} s"
        return DeliveryError(reason, permanent=False, retry_after_s=wait_s)
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR or not kind:
        reason = f"Slack failed with HTTP {status}; whether {channel} has the message is unknown"
        return DeliveryError(reason, permanent=False)
    details = "; ".join(str(line) for line in (response.data.get("response_metadata") or {}).get("messages", []))
    reason = f"Slack refused the message to {channel}: {kind}{f' ({details})' if details else ''}"
    if kind in _TOKEN_IS_WRONG:
        return DeliveryError(f"{reason}; correct the Airflow connection (bot token, scope chat:write)", permanent=False)
    if kind in _LATER:
        return DeliveryError(reason, permanent=False, retry_after_s=retry_after_s(response.headers))
    return DeliveryError(f"{reason}; {_DO_NEXT.get(kind, 'see the Slack API reference')}", permanent=True)
