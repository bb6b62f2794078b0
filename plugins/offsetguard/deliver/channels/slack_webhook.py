"""Slack over an incoming webhook: one message per call, and nothing more; every update is a message of its own.

Answers are plain text, `ok` or an error code:

| what happened                                  | permanent | why |
|------------------------------------------------|-----|-----|
| no_service, invalid_token and the like         | no  | the webhook is gone: with a new address all must go |
| channel gone or archived, posting prohibited   | yes | the webhook belongs to its channel |
| any other 4xx                                  | yes | this message will be refused again |

What holds for all that post once: `one_post.py`.

Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors
"""

import http
import json
from typing import ClassVar, Self

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Connection, Handover, Receipt
from offsetguard.deliver.channels.one_post import OnePost
from offsetguard.deliver.channels.slack import rendered_for_slack
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.deliver.one_request import Answer
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import Declared
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


class SlackWebhookChannel(OnePost):
    """An incoming webhook."""

    __slots__ = ()

    SERVICE: ClassVar = "Slack"
    KIND: ClassVar = "webhook"
    HOST: ClassVar = "hooks.slack.com/services"
    PATH: ClassVar = "/"
    CONNECTION_ADVICE: ClassVar = (
        "create one of type slackwebhook with the webhook's address as password "
        "(slack_webhooks in the configuration names it)"
    )

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> Self:
        """Open an incoming webhook by the provider's type `slackwebhook`.

        Password: the whole address, or what comes after the host's `https://hooks.slack.com/services`; extra `timeout`,
        `proxy`.
        """
        del delivery
        return cls(*cls.parts(connection))

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Post a message."""
        rendered = rendered_for_slack(message, in_threads=False)
        handover.slot.enter()
        return self.send(rendered)

    def send(self, message: SlackMessage) -> Receipt:
        """Post a message; the receipt only says through which webhook.

        Raises DeliveryError, classified as in the table above.
        """
        body = {"text": message.text, "blocks": message.blocks, "unfurl_links": False, "unfurl_media": False}
        answer = self.post(self.url, json.dumps(body).encode())
        if answer.status == http.HTTPStatus.OK and answer.body.strip() == b"ok":
            return Receipt(f"webhook {self.name}")
        raise self._refused(answer)

    def _refused(self, answer: Answer) -> DeliveryError:
        status, kind = answer.status, " ".join(answer.body[:1_000].decode("utf-8", "replace").split())[:100]
        if status < http.HTTPStatus.BAD_REQUEST:
            return self.not_theirs()
        reason = f"{self.who} refused the message: HTTP {status} {kind}"
        if kind in _WEBHOOK_IS_GONE:
            return DeliveryError(f"{reason}; put the address of a new webhook into the connection", permanent=False)
        return DeliveryError(f"{reason}; {_DO_NEXT.get(kind, 'see the Slack API reference')}", permanent=True)
