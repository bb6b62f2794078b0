"""One broker replica, and how it is asked: outcomes are counted, and patience has a limit.

A replica that hangs, dies or talks nonsense must cost the round no more than its own time-out. So it is given up
- at once, when it has never answered and cannot be reached or lets the first request time out,
- after STRIKES failures in a row otherwise (requests in flight together fail together: one time-out, many strikes).
After that nothing more is sent to it; what was not asked is one gap, and what was read before stays in the snapshot.

Many requests go out in batches. A round that is cut off loses the answers of the batch that was under way, so a batch
is as long as the replica answers in BATCH_S: long with a quick broker, which takes and answers many at a time for less
of its CPU; short with a slow one, which never has more than FIRST_BATCH of a kind before it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from offsetguard.collect.manifest import Gap, Outcome, RequestLedger, outcome_of
from offsetguard.model.errors import BrokerRefused, ConnectionLost, NotRecorded, RocketMQError, UndecodableBody
from offsetguard.model.offsets import MASTER_ID
from offsetguard.sources.rocketmq.codes import AccessDenied
from offsetguard.sources.rocketmq.requests import Request
from offsetguard.sources.rocketmq.transport import Transport

STRIKES = 3
BATCH_S = 0.1
FIRST_BATCH, LONGEST_BATCH = 16, 512
COSTLY_AT_ONCE = 8  # requests for which a broker looks into its store, queue by queue
CUT_OFF = "the deadline of the round passed; what was read until then is kept"
Body = TypeVar("Body")
Key = TypeVar("Key")
Answers = Collection[int | type[BrokerRefused]]
"""Refusals that tell something, by response code or by class: an offline group, a topic that is not there."""


class Replica(NamedTuple):
    """One replica as the name server lists it."""

    broker_name: str
    broker_id: int  # 0 = master
    address: str  # "ip:port" as listed

    @property
    def is_master(self) -> bool:
        """Offsets are read from masters only: a slave's are up to a minute old."""
        return self.broker_id == MASTER_ID

    def gap(self, what: str, outcome: Outcome, reason: str) -> Gap:
        """Return a record of what was not seen of it."""
        return Gap(
            address=self.address,
            broker_name=self.broker_name,
            broker_id=self.broker_id,
            what=what,
            outcome=outcome,
            reason=reason,
        )


@dataclass(frozen=True, slots=True)
class Answer(Generic[Body]):
    """One answer and when it came; `body` is None when the broker refused in a way that is an answer."""

    body: Body | None
    at: datetime


def unreadable_entries(address: str, request: Request[Body], answer: Body) -> Iterator[Gap]:
    """Yield a gap for each entry of an answer that could not be read."""
    unreadable: Mapping[str, str] = getattr(answer, "unreadable", {})
    for name, why in unreadable.items():
        reason = f"{address}: {request}: {ascii(name)[:200]} is left out: {why}"
        yield Gap(address=address, what=f"part of {request}", outcome=Outcome.UNDECODABLE, reason=reason)


class ReplicaLink:
    """Asks one replica; keeps whether it answered, and why not."""

    def __init__(
        self,
        transport: Transport,
        replica: Replica,
        ledger: RequestLedger,
        login_advice: str,
        *,
        reached_at: str | None = None,
        cluster_key: str = "",
    ) -> None:
        """`login_advice`: what to do when the replica refuses the login; it names the configuration key.

        `reached_at`: where the replica is asked when that is not the address that the name server lists; errors name
        both, and `cluster_key` says where in the configuration the one leads to the other.
        """
        self.replica, self.cluster_key = replica, cluster_key
        self.answered_at: datetime | None = None  # first answer
        self.failure: str | None = None  # why it was given up, or why it never answered
        self._transport = transport
        self._address = reached_at or replica.address
        self._mapped = ""  # what errors add about the address
        if self._address != replica.address:
            listed = f"{replica.broker_name} is listed as {replica.address}"
            self._mapped = f" ({listed}; {cluster_key}.address_map leads to {reached_at})"
        self._ledger = ledger
        self._login_advice = login_advice
        self._strikes = 0
        self._understood = False  # some answer could be read
        self._login_refused = False
        self._given_up: tuple[Outcome, str] | None = None
        self._unsent_count = 0
        self._was_cut_off = False
        self._named: set[str] = set()  # requests that the ledger names as missing
        self._batch = FIRST_BATCH

    async def ask(self, request: Request[Body], *, answers: Answers = ()) -> Answer[Body] | None:
        """Send one request; None = not seen (the gap is in the ledger).

        `answers` are refusals that tell something: no gap, and the answer's body is None.
        """
        (answer,) = await self.ask_many([request], answers=answers)
        return answer

    async def ask_many(self, requests: Sequence[Request[Body]], *, answers: Answers = ()) -> list[Answer[Body] | None]:
        """Send many requests at once and wait for all; the answers stand in their order, each as `ask` gives it.

        Their time is the one at which the last of them was there: no offset was read later.
        """
        if self._given_up is not None:
            self._leave_unsent(requests, *self._given_up)
            return [None] * len(requests)
        try:
            outcomes = await self._transport.call_many(self._address, requests)
        except asyncio.CancelledError:
            self._cut_short(requests)
            raise
        now = self._transport.now(self._address)
        return [
            self._outcome(request, outcome, now, answers) for request, outcome in zip(requests, outcomes, strict=True)
        ]

    async def ask_each(
        self, requests: Mapping[Key, Request[Body]], *, answers: Answers = (), at_once: int = LONGEST_BATCH
    ) -> AsyncIterator[tuple[Key, Answer[Body]]]:
        """Send any number of requests in batches of at most `at_once`; yields the keys of those that were answered.

        A round that is cut off keeps what was yielded before; what was not sent any more is named in the ledger.
        """
        waiting = list(requests.items())
        position = 0
        try:
            while position < len(waiting):
                batch = waiting[position : position + min(self._batch, at_once)]
                position += len(batch)
                given = await self._timed([request for _, request in batch], answers)
                for (key, _), answer in zip(batch, given, strict=True):
                    if answer is not None:
                        yield key, answer
        except asyncio.CancelledError:
            self._leave_unsent([request for _, request in waiting[position:]], Outcome.TIMED_OUT, CUT_OFF)
            raise

    async def ask_client(self, request: Request[Body]) -> Answer[Body] | RocketMQError:
        """Send a request that the replica passes on to a client; what goes wrong is returned.

        A failure is the client's: no gap and no strike of the replica.
        """
        if self._given_up is not None:
            return ConnectionLost(self._address, f"{request}, not sent: the broker was given up: {self._given_up[1]}")
        try:
            body = await self._transport.call(self._address, request)
        except RocketMQError as error:
            if not isinstance(error, NotRecorded):
                self._ledger.count(outcome_of(error))
            return error
        except asyncio.CancelledError:
            self._ledger.count(Outcome.TIMED_OUT)
            raise
        return self._answered(body, self._transport.now(self._address))

    def leave_out(self, what: str, reason: str) -> None:
        """Record that a part of an answer cannot be believed."""
        self._ledger.add_gap(self.replica.gap(what, Outcome.UNDECODABLE, f"{self._address}: {reason}"))

    def cut_off(self) -> None:
        """Record that the round ended before everything was asked."""
        self._was_cut_off = True
        self.failure = self.failure or CUT_OFF
        self._ledger.add_gap(self.replica.gap("the rest of the round", Outcome.TIMED_OUT, CUT_OFF), sums_up=True)

    def close(self, unread: Sequence[Request[Any]] = ()) -> None:
        """Record what was not asked any more after the replica was given up, or the round had ended.

        `unread`: what the round would have asked and has no answer of; those that are missing already are not repeated.
        """
        if self._given_up is not None or self._was_cut_off:
            left = [request for request in unread if str(request) not in self._named]
            self._leave_unsent(left, *(self._given_up or (Outcome.TIMED_OUT, CUT_OFF)))
        if self._given_up is not None and self._unsent_count:
            outcome, reason = self._given_up
            what = f"{self._unsent_count} further requests, not sent"
            self._ledger.add_gap(self.replica.gap(what, outcome, f"given up: {reason}"), sums_up=True)

    async def _timed(self, batch: Sequence[Request[Body]], answers: Answers) -> list[Answer[Body] | None]:
        began = time.monotonic()
        outcomes = await self.ask_many(batch, answers=answers)
        quick = time.monotonic() - began < BATCH_S
        self._batch = min(self._batch * 2, LONGEST_BATCH) if quick else max(self._batch // 2, FIRST_BATCH)
        return outcomes

    def _outcome(
        self, request: Request[Body], outcome: Body | RocketMQError, now: datetime, answers: Answers
    ) -> Answer[Body] | None:
        if not isinstance(outcome, RocketMQError):
            for gap in unreadable_entries(self._address, request, outcome):
                self._ledger.add_gap(self.replica.gap(gap.what, gap.outcome, gap.reason))
            return self._answered(outcome, now)
        if not isinstance(outcome, BrokerRefused):
            self._failed(outcome, str(request))
            return None
        if type(outcome) in answers or (outcome.code in answers and not isinstance(outcome, AccessDenied)):
            return self._answered(None, now)
        self._refused(outcome, str(request), now)
        return None

    def _answered(self, body: Body | None, now: datetime) -> Answer[Body]:
        self._ledger.count(Outcome.ANSWERED)
        self._strikes = 0
        self._understood = True
        self.answered_at = self.answered_at or now
        return Answer(body, now)

    def _refused(self, refusal: BrokerRefused, what: str, now: datetime) -> None:
        self._ledger.count(Outcome.REFUSED)
        if not isinstance(refusal, AccessDenied):
            self.answered_at = self.answered_at or now
            self._strikes = 0
            self._missing(what, Outcome.REFUSED, f"{refusal}{self._mapped}")
            return
        reason = f"{refusal}{self._mapped}; {self._login_advice}"
        self._missing(what, Outcome.REFUSED, reason, is_gap=not self._login_refused)
        self._login_refused = True
        self._strike(Outcome.REFUSED, reason)

    def _failed(self, error: RocketMQError, what: str) -> None:
        outcome = outcome_of(error)
        reason = f"{error}{self._mapped}"
        self._ledger.count(outcome)
        self._missing(what, outcome, reason, is_gap=self._given_up is None)
        if isinstance(error, NotRecorded) or (isinstance(error, UndecodableBody) and self._understood):
            return  # it is quick, and other answers may be right: what a client made of its own is no reason to give up
        hopeless = self.answered_at is None and outcome in (Outcome.TIMED_OUT, Outcome.UNREACHABLE)
        self._strike(outcome, reason, limit=1 if hopeless else STRIKES)

    def _missing(self, what: str, outcome: Outcome, reason: str, *, is_gap: bool = True) -> None:
        """Name a request; `is_gap`: the manifest has it as well, else one that stands for many."""
        self._named.add(what)
        gap = self.replica.gap(what, outcome, reason)
        (self._ledger.add_gap if is_gap else self._ledger.list_missing)(gap)

    def _strike(self, outcome: Outcome, reason: str, limit: int = STRIKES) -> None:
        self._strikes += 1
        self.failure = self.failure or reason
        if self._strikes >= limit and self._given_up is None:
            self._given_up = (outcome, reason)

    def _cut_short(self, requests: Sequence[Request[Body]]) -> None:
        for request in requests:
            self._ledger.count(Outcome.TIMED_OUT)
            self._missing(str(request), Outcome.TIMED_OUT, CUT_OFF, is_gap=False)

    def _leave_unsent(self, requests: Sequence[Request[Body]], outcome: Outcome, reason: str) -> None:
        self._unsent_count += len(requests)
        for request in requests:
            self._named.add(str(request))
            self._ledger.list_missing(self.replica.gap(f"{request}, not sent", outcome, reason))
