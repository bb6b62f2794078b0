"""What became of the messages of one sweep, in words for the task's log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetguard.receivers import Channel


class Result(StrEnum):
    """What became of one claimed message."""

    SENT = "sent"
    RETRIED = "retried"  # back in the outbox, due later
    FAILED = "failed"  # stays in the outbox until it is re-driven
    NOT_LOGGED = "not logged"  # accepted, but the database was gone for the whole claim: it is sent once more


@dataclass(frozen=True, slots=True)
class Delivery:
    """One claimed message and what became of it."""

    outbox_id: int
    channel: Channel
    receiver: str
    result: Result
    reason: str  # the receipt, or why not
    remark: str | None = None  # what an operator should know although it was accepted
    waiting_behind: int = 0  # further messages to the same receiver that were due and wait untried


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """All of one sweep: of each message the last that became of it, in the order of the outbox."""

    deliveries: tuple[Delivery, ...] = ()
    troubles: tuple[str, ...] = ()  # of the database: what could not be asked for or written

    @property
    def sent(self) -> int:
        """Messages that their receiver accepted."""
        return self._count(Result.SENT) + self._count(Result.NOT_LOGGED)

    @property
    def retried(self) -> int:
        """Messages that will be tried again, or for the first time, later."""
        return self._count(Result.RETRIED) + sum(delivery.waiting_behind for delivery in self.deliveries)

    @property
    def failed(self) -> int:
        """Messages that were refused for good and wait for an operator."""
        return self._count(Result.FAILED)

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each message that was tried and not sent, and for each trouble of the database."""
        not_sent = (
            f"{one.channel} to {one.receiver}: {one.result}: {one.reason}{_behind(one)}"
            for one in self.deliveries
            if one.result is not Result.SENT
        )
        return (*not_sent, *self.troubles)

    @property
    def lasting_reasons(self) -> tuple[str, ...]:
        """Those of `reasons` that no further attempt will mend by itself."""
        refused = (
            f"{one.channel} to {one.receiver}: {one.result}: {one.reason}"
            for one in self.deliveries
            if one.result in (Result.FAILED, Result.NOT_LOGGED)
        )
        return (*refused, *self.troubles)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know although messages were accepted, each text once."""
        return tuple(dict.fromkeys(one.remark for one in self.deliveries if one.remark))

    def _count(self, result: Result) -> int:
        return sum(delivery.result is result for delivery in self.deliveries)


def _behind(delivery: Delivery) -> str:
    return f"; {delivery.waiting_behind} more wait behind it" if delivery.waiting_behind else ""
