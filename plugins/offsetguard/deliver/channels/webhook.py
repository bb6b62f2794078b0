"""A webhook of anybody's: a CloudEvents envelope, signed as Standard Webhooks say; see docs/webhook.md.

| what happened                   | permanent | why |
|---------------------------------|-----------|-----|
| 2xx                             | -   | accepted |
| 410                             | yes | the receiver wants nothing any more: it is switched off |
| 400, 413, 422                   | yes | this message will be refused again |
| 3xx                             | no  | a signed message is sent to no other address |
| any other 4xx                   | no  | the connection or the receiver can be mended |
| 429, 5xx                        | no  | after Retry-After; after 5xx whether it has the message is unknown |

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md,
https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md (envelope).
"""

import base64
import binascii
import http
import ipaddress
import socket
import time
from dataclasses import dataclass, field
from typing import ClassVar, Self
from urllib.parse import urlsplit

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Connection, Handover, Malformed, Receipt
from offsetguard.deliver.channels.one_post import OnePost, signature
from offsetguard.deliver.messages.cloud_event import MEDIA_TYPE, cloud_event
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import Declared
from offsetguard.store.models import OutboxRow

CHANNEL = Declared(
    name="webhook",
    receivers="webhooks",
    meaning="Airflow connections of receivers of signed JSON, see docs/webhook.md",
    title="webhook",
    title_zh="Webhook",
    digests=True,
)

_KEY = "whsec_"
_REFUSES_THIS = {400, 413, 422}


@dataclass(frozen=True, slots=True)
class Webhook(OnePost):
    """A receiver; `keys`: each message is signed with all of them, so that one can be replaced."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    may_lead_inward: bool = False

    SERVICE: ClassVar = "the receiver"
    KIND: ClassVar = "webhook"
    HOST: ClassVar = "host"
    PATH: ClassVar = "/"
    CONNECTION_ADVICE: ClassVar = (
        'create one of type generic with the address as password and {"secret": "whsec_..."} as extra '
        "(webhooks in the configuration names it)"
    )

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> Self:
        """Open a receiver by a connection of type `generic`.

        Password: the address; extra `secret`: the key, or a list of keys; extra `timeout`, `proxy`.
        """
        secret = connection.extra.get("secret") or []
        keys = tuple(map(_key, secret if isinstance(secret, list) else [secret]))
        if not keys:
            raise Malformed(f'write the key as {{"secret": "{_KEY}..."}} into its extra')
        return cls(*cls.parts(connection), keys, delivery.receivers_may_lead_inward)

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Post a message."""
        body = cloud_event(message.view, event_id=message.idempotency_key, at=message.created_at)
        handover.slot.enter()
        return self.send(body, message.idempotency_key)

    def send(self, body: bytes, message_id: str, *, at_s: float | None = None) -> Receipt:
        """Post a body, signed; raises DeliveryError, classified as in the table above."""
        self._stop_if_inward()
        timestamp = round(time.time() if at_s is None else at_s)
        signed = f"{message_id}.{timestamp}.".encode() + body
        headers = {
            "Content-Type": MEDIA_TYPE,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(f"v1,{signature(key, signed)}" for key in self.keys),
        }
        status = self.post(self.url, body, headers).status
        if status < http.HTTPStatus.MULTIPLE_CHOICES:
            return Receipt(f"webhook {self.name}")
        if status == http.HTTPStatus.GONE:
            reason = (
                f"{self.who} answers 410, so it is switched off: take it out of the configuration, or, once it wants "
                "messages again, `offsetguard outbox redrive --all`"
            )
            raise DeliveryError(reason, permanent=True, gone=True)
        reason = f"{self.who} refused the message: HTTP {status}"
        if status in _REFUSES_THIS:
            raise DeliveryError(f"{reason}; see docs/webhook.md for what it is sent", permanent=True)
        raise DeliveryError(f"{reason}; correct the connection or the receiver", permanent=False)

    def elsewhere(self) -> DeliveryError:
        """Return the error of a redirect."""
        reason = f"{self.who} redirects, which is not followed: write where it leads to into the connection"
        return DeliveryError(reason, permanent=False)

    def may_reach(self, address: str) -> bool:
        """Whether it is none of this host or network, unless those are allowed."""
        return self.may_lead_inward or ipaddress.ip_address(address.partition("%")[0]).is_global

    def _stop_if_inward(self) -> None:
        """Raise DeliveryError for an address of this host or network: whoever may write connections may not see it."""
        if self.may_lead_inward:
            return
        try:
            parts = urlsplit(self.url)
            found = socket.getaddrinfo(parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            reason = f"{self.who} cannot be reached: its name cannot be resolved ({type(error).__name__})"
            raise DeliveryError(reason, permanent=False) from None
        if not all(self.may_reach(str(address[0])) for *_, address in found):
            reason = f"{self.who} leads inward; where that is meant, set delivery.receivers_may_lead_inward"
            raise DeliveryError(reason, permanent=False)


def _key(text: object) -> bytes:
    try:
        return base64.b64decode(str(text).removeprefix(_KEY), validate=True)
    except binascii.Error:
        raise Malformed(f"its extra `secret` is not {_KEY} and base64") from None
