"""Slack over an incoming webhook: one message per call, and nothing more.

A webhook cannot edit a message, reply in a thread or look a message up. So every update and the resolution is a
message of its own, and a message that is sent again after a crash or a time-out can be a duplicate.
The address is a secret (whoever has it can post): it is in no error, no log and no repr.

Answers are plain text, `ok` or an error code:

| what happened                                  | permanent | why |
|------------------------------------------------|-----|-----|
| no_service, invalid_token and the like         | no  | the webhook is gone: with a new address all must go |
| channel gone or archived, posting prohibited   | yes | the webhook belongs to its channel |
| any other 4xx                                  | yes | this message will be refused again |
| 429                                            | no  | after Retry-After |
| 5xx, no answer in time, an answer not of Slack | no  | whether the message was posted is unknown |

Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors
"""

import http
import json
import math
from dataclasses import dataclass, field
from typing import ClassVar

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import LIMIT_S, Connection, Handover, Receipt, Transport
from offsetguard.deliver.channels.slack import USUAL_WAIT_S, rendered_for_slack, retry_after_s
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.deliver.one_request import Answer, NoAddress, NotAnswered, ask
from offsetguard.model.channels import Declared
from offsetguard.model.errors import DeliveryError
from offsetguard.store.models import OutboxRow

CHANNEL = Declared(
    name="slack_webhook",
    receivers="slack_webhooks",
    meaning="Airflow connections; can only add messages",
    title="Slack webhook",
    title_zh="Slack Webhook 消息",
    note="a Slack webhook can only add messages: repeats and ends are new messages, none is edited, threaded or marked "
    "as over, and after a crash one may come twice; with a bot token (delivery.slack_connection) and a channel in "
    "`slack` they are",
)

_WEBHOOK_IS_GONE = {"no_service", "no_service_id", "no_active_hooks", "no_team", "team_disabled", "invalid_token"}
_DO_NEXT = {
    "channel_is_archived": "make a webhook for another channel and put its address into the Airflow connection",
    "channel_not_found": "make a webhook for another channel and put its address into the Airflow connection",
    "action_prohibited": "ask the workspace's admins: they restrict webhooks",
    "posting_to_general_channel_denied": "ask the workspace's admins, or make a webhook for another channel",
    "invalid_blocks": "this is a defect of OffsetGuard, please report it",
    "invalid_payload": "this is a defect of OffsetGuard, please report it",
}

_HEADERS = {"Content-Type": "application/json;charset=utf-8"}


@dataclass(frozen=True, slots=True)
class SlackWebhookChannel(Transport):
    """An incoming webhook; `name` is what errors call it: the Airflow connection id.

    `timeout_s` bounds the whole of a call.
    """

    name: str
    url: str = field(repr=False)
    timeout_s: int = 10
    proxy: str | None = field(default=None, repr=False)

    LANES: ClassVar = 16  # webhooks lead to as many places as there are
    CONNECTION_FIELD: ClassVar = None
    CONNECTION_NEEDS: ClassVar = "password"
    CONNECTION_ADVICE: ClassVar = (
        "create one of type slackwebhook with the webhook's address as password "
        "(slack_webhooks in the configuration names it)"
    )

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> "SlackWebhookChannel":
        """Open an incoming webhook by the provider's type `slackwebhook`.

        Password: the whole address, or what comes after the host's `https://hooks.slack.com/services`; extra `timeout`,
        `proxy`.
        """
        del delivery
        url = connection.password or ""
        if not url.startswith(("http://", "https://")):  # put together as the provider does
            host = connection.host or "hooks.slack.com/services"
            base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
            url = f"{base.rstrip('/')}/{url.lstrip('/')}"
        proxy = connection.extra.get("proxy") or None
        return cls(connection.conn_id, url, math.ceil(connection.timeout_s), proxy)

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Post a message."""
        rendered = rendered_for_slack(message)
        handover.slot.enter()
        return self.send(rendered)

    def send(self, message: SlackMessage) -> Receipt:
        """Post a message; the receipt only says through which webhook.

        Raises DeliveryError, classified as in the table above.
        """
        body = {"text": message.text, "blocks": message.blocks, "unfurl_links": False, "unfurl_media": False}
        limit_s = min(self.timeout_s, LIMIT_S)
        try:
            answer = ask(
                "POST", self.url, body=json.dumps(body).encode(), headers=_HEADERS, limit_s=limit_s, proxy=self.proxy
            )
        except TimeoutError:
            raise self._unknown(f"Slack did not answer within {limit_s:g} s") from None
        except NotAnswered as error:
            raise DeliveryError(f"{self._name} cannot be reached: {error}", permanent=False) from None
        except NoAddress:
            raise self._wrong_address() from None
        if answer.status == http.HTTPStatus.OK and answer.body.strip() == b"ok":
            return Receipt(f"webhook {self.name}")
        raise self._refused(answer)

    @property
    def _name(self) -> str:
        return f"the Slack webhook of the Airflow connection {self.name!r}"

    def _wrong_address(self) -> DeliveryError:
        reason = f"{self._name} has no address of the form https://hooks.slack.com/services/...; correct the connection"
        return DeliveryError(reason, permanent=False)

    def _unknown(self, what: str) -> DeliveryError:
        reason = f"{self._name}: {what}; whether the channel has the message is unknown"
        return DeliveryError(reason, permanent=False)

    def _refused(self, answer: Answer) -> DeliveryError:
        status, kind = answer.status, " ".join(answer.body[:1_000].decode("utf-8", "replace").split())[:100]
        if status == http.HTTPStatus.TOO_MANY_REQUESTS:
            wait_s = retry_after_s(answer.headers) or USUAL_WAIT_S
            reason = f"{self._name} may post no more for {wait_s:g} s"
            return DeliveryError(reason, permanent=False, retry_after_s=wait_s)
        if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._unknown(f"Slack failed with HTTP {status}")
        if status < http.HTTPStatus.BAD_REQUEST:
            return self._unknown("the answer is not Slack's; a proxy may stand in between")
        reason = f"{self._name} refused the message: HTTP {status} {kind}"
        if kind in _WEBHOOK_IS_GONE:
            return DeliveryError(f"{reason}; put the address of a new webhook into the connection", permanent=False)
        return DeliveryError(f"{reason}; {_DO_NEXT.get(kind, 'see the Slack API reference')}", permanent=True)
