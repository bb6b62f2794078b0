"""What a receiver gives in return for a message, and what stands in for a channel that cannot be opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of acceptance, by which the message can be found again.

    Mail: the Message-ID. Slack: `channel ts` of a message of its own, `channel ts parent_ts` of a reply, and
    `channel ts ts` of a parent posted in place of one that is gone. A webhook gives nothing to find a message by.
    """

    text: str
    remark: str | None = None  # what an operator should know although the message was accepted; equal texts: say once


@dataclass(frozen=True, slots=True)
class SlackParent:
    """The message of a thread that is edited in place and has the updates below it."""

    channel: str  # the channel's id, as Slack gave it
    ts: str


def slack_parent(receipts: Sequence[str]) -> SlackParent | None:
    """Return the parent of a thread from the receipts of what was accepted in it, oldest first.

    The newest receipt that names a parent decides, since a deleted parent is replaced by a new one.
    """
    for receipt in reversed(receipts):
        parts = receipt.split()
        if len(parts) == 3:
            return SlackParent(parts[0], parts[2])
    return SlackParent(*receipts[0].split()) if receipts else None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A channel without a usable connection; its messages wait with the reason, since an operator can mend it."""

    reason: str  # names the connection and says what to do
