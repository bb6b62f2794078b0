"""Bounds a call to a receiver as a whole: time-outs of single steps let a peer drip one byte at a time for ever.

What a receiver gives in return for a message, and what stands in for a channel that cannot be opened.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

LIMIT_S = 90.0  # shorter than a claim in the outbox lasts: nobody else may try the same message meanwhile
_Answer = TypeVar("_Answer")


class TookTooLong(TimeoutError):
    """A call as a whole took longer than it may."""

    def __init__(self, limit_s: float) -> None:
        """Keep how long it may take."""
        super().__init__(f"not done within {limit_s:g} s")
        self.limit_s = limit_s


def bounded(limit_s: float, call: Callable[[threading.Event], _Answer], name: str) -> _Answer:
    """Return what a call returns, or raise what it raises, or TookTooLong.

    The call goes on in a thread that dies with the process; it is given an event that is set once nobody waits for it
    any more, and must do nothing further then.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    given_up = threading.Event()

    def run() -> None:
        try:
            done.put((call(given_up), None))
        except BaseException as error:  # noqa: BLE001 it is raised where somebody waits for it
            done.put((None, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        answer, error = done.get(timeout=limit_s)
    except queue.Empty:
        given_up.set()
        raise TookTooLong(limit_s) from None
    if error is not None:
        raise error
    return answer  # type: ignore[no-any-return]


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
