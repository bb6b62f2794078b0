"""One broker replica, and how it is asked: outcomes are counted, and patience has a limit.

A replica that hangs, dies or talks nonsense must cost the round no more than its own time-out. So it is given up
- at once, when it has never answered and cannot be reached or lets the first request time out,
- after STRIKES failures in a row otherwise (requests in flight together fail together: one time-out, many strikes).
After that nothing more is sent to it; what was not asked is one gap, and what was read before stays in the snapshot.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from offsetguard.collect.manifest import Gap, Outcome
from offsetguard.collect.request_ledger import RequestLedger, outcome_of
from offsetguard.errors import BrokerRefused, RocketMQError
from offsetguard.rocketmq.refusals import AccessDenied

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetguard.rocketmq.client import RocketMQClient
    from offsetguard.rocketmq.requests import Request

STRIKES = 3
MASTER_ID = 0
Body = TypeVar("Body")


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """One replica as the name server lists it."""

    broker_name: str
    broker_id: int  # 0 = master
    address: str  # "ip:port"

    @property
    def is_master(self) -> bool:
        """Offsets are read from masters only: a slave's are up to a minute old."""
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True)
class Answer(Generic[Body]):
    """One answer and when it came; `body` is None when the broker refused in a way that is an answer."""

    body: Body | None
    at: datetime


class ReplicaLink:
    """Asks one replica; keeps whether it answered, and why not."""

    def __init__(self, client: RocketMQClient, replica: Replica, ledger: RequestLedger, login_advice: str) -> None:
        """`login_advice`: what to do when the replica refuses the login; it names the configuration key."""
        self.replica = replica
        self.answered_at: datetime | None = None  # first answer
        self.failure: str | None = None  # why it was given up, or why it never answered
        self._client = client
        self._ledger = ledger
        self._login_advice = login_advice
        self._strikes = 0
        self._login_refused = False
        self._given_up: tuple[Outcome, str] | None = None
        self._unsent_count = 0

    async def ask(self, request: Request[Body], *, answers: Collection[int] = ()) -> Answer[Body] | None:
        """Send one request; None = not seen (the gap is in the ledger).

        `answers` are response codes that tell something (an offline group, a topic that is not there): no gap.
        """
        if self._given_up is not None:
            self._unsent_count += 1
            return None
        try:
            body = await self._client.call(self.replica.address, request)
        except BrokerRefused as refusal:
            if refusal.code in answers and not isinstance(refusal, AccessDenied):
                return self._answered(None)
            self._refused(refusal, str(request))
            return None
        except RocketMQError as error:
            self._failed(error, str(request))
            return None
        except asyncio.CancelledError:
            self._ledger.count(Outcome.TIMED_OUT)  # the round's deadline
            raise
        return self._answered(body)

    def leave_out(self, what: str, reason: str) -> None:
        """Record that a part of an answer cannot be believed."""
        self._add_gap(what, Outcome.UNDECODABLE, f"{self.replica.address}: {reason}")

    def cut_off(self, reason: str) -> None:
        """Record that the round ended before everything was asked."""
        self.failure = self.failure or reason
        self._add_gap("the rest of the round", Outcome.TIMED_OUT, reason)

    def close(self) -> None:
        """Record what was not asked any more after the replica was given up."""
        if self._given_up is not None and self._unsent_count:
            outcome, reason = self._given_up
            self._add_gap(f"{self._unsent_count} further requests, not sent", outcome, f"given up: {reason}")

    def _answered(self, body: Body | None) -> Answer[Body]:
        now = datetime.now(UTC)
        self._ledger.count(Outcome.ANSWERED)
        self._strikes = 0
        self.answered_at = self.answered_at or now
        return Answer(body, now)

    def _refused(self, refusal: BrokerRefused, what: str) -> None:
        self._ledger.count(Outcome.REFUSED)
        if not isinstance(refusal, AccessDenied):
            self.answered_at = self.answered_at or datetime.now(UTC)
            self._strikes = 0
            self._add_gap(what, Outcome.REFUSED, str(refusal))
            return
        reason = f"{refusal}; {self._login_advice}"
        if not self._login_refused:
            self._login_refused = True
            self._add_gap(what, Outcome.REFUSED, reason)
        self._strike(Outcome.REFUSED, reason)

    def _failed(self, error: RocketMQError, what: str) -> None:
        outcome = outcome_of(error)
        self._ledger.count(outcome)
        if self._given_up is None:
            self._add_gap(what, outcome, str(error))
        hopeless = self.answered_at is None and outcome in (Outcome.TIMED_OUT, Outcome.UNREACHABLE)
        self._strike(outcome, str(error), limit=1 if hopeless else STRIKES)

    def _strike(self, outcome: Outcome, reason: str, limit: int = STRIKES) -> None:
        self._strikes += 1
        self.failure = self.failure or reason
        if self._strikes >= limit and self._given_up is None:
            self._given_up = (outcome, reason)

    def _add_gap(self, what: str, outcome: Outcome, reason: str) -> None:
        replica = self.replica
        self._ledger.add_gap(
            Gap(
                address=replica.address,
                broker_name=replica.broker_name,
                broker_id=replica.broker_id,
                what=what,
                outcome=outcome,
                reason=reason,
            )
        )
