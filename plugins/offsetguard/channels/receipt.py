"""What a receiver gives in return for a message, and what stands in for a channel that cannot be opened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of acceptance, by which the message can be found again: Message-ID, or Slack's `channel ts`."""

    text: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A channel without a usable connection; its messages wait with the reason, since an operator can mend it."""

    reason: str  # names the connection and says what to do
