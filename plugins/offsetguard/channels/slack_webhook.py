"""Slack over an incoming webhook: one message per call, and nothing more.

A webhook cannot edit a message, reply in a thread or look a message up. So every update and the resolution is a
message of its own, and a message that is sent again after a crash or a time-out can be a duplicate.
The address is a secret (whoever has it can post): it is in no error, no log and no repr.
Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks (errors at the end)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard.errors import DeliveryError

if TYPE_CHECKING:
    from offsetguard.channels.receipt import Receipt
    from offsetguard.messages.slack import SlackMessage


@dataclass(frozen=True, slots=True)
class SlackWebhookChannel:
    """An incoming webhook; `name` is what errors call it (the Airflow connection id), `timeout_s` bounds a call."""

    name: str
    url: str = field(repr=False)
    timeout_s: int = 10
    proxy: str | None = field(default=None, repr=False)

    def send(self, message: SlackMessage) -> Receipt:
        """Post a message; the receipt only says through which webhook. Raises DeliveryError, classified."""
        raise DeliveryError(f"webhook {self.name}: not built yet", permanent=False)
