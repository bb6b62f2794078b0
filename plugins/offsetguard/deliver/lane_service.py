"""Serves one receiver: its messages one after the other; what became of each, and when to try again.

After a failure that may pass, everything else for the receiver waits, untried, so that it costs one time-out. What was
accepted is logged for as long as the claim lasts, however often the database has to be asked.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.deliver.channels.channel import Handover, Receipt, Transport, Unavailable
from offsetguard.deliver.in_doubt import InDoubt, Slot
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.digest import digest
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import Channel
from offsetguard.model.views import DigestView, MessageView
from offsetguard.store import notifications, outbox
from offsetguard.store.database_errors import what_failed
from offsetguard.store.models import OutboxRow
from offsetguard.store.outbox import Lane


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
        return self._lines(Result.RETRIED, Result.FAILED, Result.NOT_LOGGED)

    @property
    def lasting_reasons(self) -> tuple[str, ...]:
        """Those of `reasons` that no further attempt will mend by itself."""
        return self._lines(Result.FAILED, Result.NOT_LOGGED)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an operator should know although messages were accepted, each text once."""
        return tuple(dict.fromkeys(one.remark for one in self.deliveries if one.remark))

    def _lines(self, *results: Result) -> tuple[str, ...]:
        lines = (
            f"{one.channel} to {one.receiver}: {one.result}: {one.reason}{_behind(one)}"
            for one in self.deliveries
            if one.result in results
        )
        return (*lines, *self.troubles)

    def _count(self, result: Result) -> int:
        return sum(delivery.result is result for delivery in self.deliveries)


def _digest(views: Sequence[MessageView], thread_key: str) -> DigestView:
    return digest(views, thread_key=thread_key)


def _behind(delivery: Delivery) -> str:
    return f"; {delivery.waiting_behind} more wait behind it" if delivery.waiting_behind else ""


FIRST_WAIT_S = 30.0
LONGEST_BACKOFF_S = 1_800.0  # a mended connection is noticed within half an hour at the latest
NOT_TRIED = "not tried: "
WISHES_HEEDED = 20  # a receiver that wishes for one short pause after the other gets a long one
LONGEST_HASTE_S = 10.0  # heeded within the sweep


def wait_before_retry(attempts: int, key: str, retry_after_s: float | None = None) -> timedelta:
    """Return 30 s, 1 min, 2 min ... 30 min, plus up to a quarter; or what the receiver wished, and never less.

    `attempts`: those already made. A short wish is heeded at first, and a second later each time, so that many
    messages to a receiver that allows few a minute do not all ask again and again. The jitter comes from `key` and
    attempts, so that the same input gives the same wait and messages that failed together do not come back together.
    """
    if retry_after_s is not None and attempts <= WISHES_HEEDED:
        return timedelta(seconds=max(retry_after_s, min(float(attempts), LONGEST_HASTE_S)))
    doubled = FIRST_WAIT_S * 2.0 ** min(max(attempts - 1, 0), 16)
    digest = hashlib.sha256(f"{key} {attempts}".encode()).digest()
    jittered = min(doubled, LONGEST_BACKOFF_S) * (1 + digest[0] / 255 / 4)
    return timedelta(seconds=max(jittered, retry_after_s or 0.0))


WAITED_FOR = timedelta(seconds=LONGEST_HASTE_S)  # a receiver that wishes for so short a pause gets it within the sweep
GIVING_BACK_S = 15.0  # a row that cannot be given back is free when its claim ends
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

_log = logging.getLogger(__name__)
_Written = TypeVar("_Written")


class Clock:
    """The time of a sweep: what it was at the start, and what has passed since, whatever the machine's clock does."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._started_at = time.monotonic()

    def elapsed_s(self) -> float:
        """Return how long the sweep has lasted."""
        return time.monotonic() - self._started_at

    def now(self) -> datetime:
        """Return the moment."""
        return self._now + timedelta(seconds=self.elapsed_s())


@dataclass(frozen=True, slots=True)
class LaneService:
    """What serving any lane takes; used by several threads at once, changes nothing but the database."""

    engine: Engine
    clock: Clock
    in_doubt: InDoubt
    sweep_s: float  # no message is begun later than this
    claim_ms: int

    def serve(self, lane: Lane, transport: Transport | Unavailable) -> list[Delivery]:
        """Send what is due to one receiver, in order.

        Raises SQLAlchemyError only when nothing could be claimed: then nothing was sent that is not reported.
        """
        deliveries: list[Delivery] = []
        while self.clock.elapsed_s() < self.sweep_s:
            claimed_at = time.monotonic()
            message = self._claim(lane, transport, deliveries)
            if message is None:
                break
            slot = self.in_doubt.slot(lane.channel)
            try:
                delivery, again_at = self._deliver(message, transport, slot, claimed_at + self.claim_ms / 1000)
            finally:
                slot.leave()
            deliveries.append(delivery)
            if delivery.result is Result.NOT_LOGGED:
                break  # the next message could not be logged either
            if again_at is None:
                continue
            wait = again_at - self.clock.now()
            if wait > WAITED_FOR:
                break
            time.sleep(max(wait.total_seconds(), 0.0))
        return deliveries

    def _claim(self, lane: Lane, transport: Transport | Unavailable, before: list[Delivery]) -> OutboxRow | None:
        """Claim the next message once its receiver may be sent one more."""
        per_minute = transport.PER_MINUTE if isinstance(transport, Transport) else None
        try:
            if per_minute is not None:
                most = per_minute // 2  # what goes out within half a minute
                outbox.merge_waiting(self.engine, lane, now=self.clock.now(), more_than=most, digest=_digest)
                wait = notifications.wait_for_one(self.engine, lane, per_minute=per_minute, now=self.clock.now())
                time.sleep(wait.total_seconds())
            message = outbox.claim_next(self.engine, lane, now=self.clock.now(), claim_ms=self.claim_ms)
            if per_minute is not None and message is not None:
                notifications.take_one(self.engine, lane, per_minute=per_minute, now=self.clock.now())
            return message
        except SQLAlchemyError:
            if not before:
                raise
            return None  # the sweep asks again, and tells when the database is still gone

    def _deliver(
        self, message: OutboxRow, transport: Transport | Unavailable, slot: Slot, claim_ends_at: float
    ) -> tuple[Delivery, datetime | None]:
        """Try one message; the time is when the lane may go on, None for at once."""
        try:
            if why := outbox.why_off(self.engine, outbox.Lane(message.channel, message.receiver)):
                raise DeliveryError(f"{NOT_TRIED}{why.removeprefix(NOT_TRIED)}", permanent=True, gone=True)
            receipt = transport.deliver(message, Handover(self.engine, slot, self.clock.now()))
        except DeliveryError as error:
            if error.permanent:
                return self._keep_as_failed(message, str(error), off=error.gone), None
            again_at = self.clock.now() + wait_before_retry(
                message.attempts, message.idempotency_key, error.retry_after_s
            )
            return self._give_back(message, str(error), again_at), again_at
        except SQLAlchemyError as error:
            reason = f"{NOT_TRIED}the notification log could not be read: {what_failed(error)}"
            again_at = self.clock.now() + wait_before_retry(message.attempts, message.idempotency_key)
            return self._give_back(message, reason, again_at), again_at
        except Exception as error:  # noqa: BLE001 a defect of ours in one message must not stop the others: it is kept
            _log.exception("message %s: unexpected failure", message.id)
            reason = f"defect in OffsetGuard, please report it: {type(error).__name__}: {error}"
            return self._keep_as_failed(message, reason), None
        return self._log_acceptance(message, receipt, claim_ends_at), None

    def _log_acceptance(self, message: OutboxRow, receipt: Receipt, claim_ends_at: float) -> Delivery:
        accepted_at = self.clock.now()
        try:
            self._insist(
                f"message {message.id} was accepted ({receipt.text})",
                lambda: outbox.mark_accepted(
                    self.engine, message, accepted_at=accepted_at, receipt=receipt.text, follow_up=receipt.follow_up
                ),
                until=claim_ends_at,
            )
        except SQLAlchemyError as error:
            failed = what_failed(error)
            reason = f"accepted ({receipt.text}), but that could not be logged, so it is sent once more: {failed}"
            return self._delivery(message, Result.NOT_LOGGED, reason)
        return replace(self._delivery(message, Result.SENT, receipt.text), remark=receipt.remark)

    def _give_back(self, message: OutboxRow, reason: str, again_at: datetime) -> Delivery:
        lane = outbox.Lane(message.channel, message.receiver)
        behind = 0

        def give_back() -> None:
            nonlocal behind
            outbox.mark_retry(self.engine, message, next_attempt_at=again_at, error=reason)
            behind = outbox.postpone(
                self.engine,
                lane,
                now=self.clock.now(),
                until=again_at,
                reason=f"{NOT_TRIED}message {message.id} to the same receiver has to go first",
            )

        at = f"next attempt at {again_at:%H:%M:%S} UTC"
        try:
            self._insist(
                f"message {message.id} is to be tried again", give_back, until=time.monotonic() + GIVING_BACK_S
            )
        except SQLAlchemyError as error:
            at = f"nor could that be written ({what_failed(error)}): next attempt when its claim ends"
        delivery = self._delivery(message, Result.RETRIED, f"{reason}; {at}")
        return replace(delivery, waiting_behind=behind)

    def _keep_as_failed(self, message: OutboxRow, reason: str, *, off: bool = False) -> Delivery:
        try:
            self._insist(
                f"message {message.id} was refused for good",
                lambda: outbox.mark_failed(self.engine, message, error=reason, off=off),
                until=time.monotonic() + GIVING_BACK_S,
            )
        except SQLAlchemyError as error:
            reason = f"{reason}; that could not be written ({what_failed(error)}), so it is tried once more"
        return self._delivery(message, Result.FAILED, reason)

    def _insist(self, what: str, write: Callable[[], _Written], *, until: float) -> _Written:
        """Write until it succeeds or the (monotonic) time has come; then raise the last error."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return write()
            except SQLAlchemyError as error:
                if time.monotonic() + pause_s > until:
                    raise
                _log.error("%s, and the database does not take it; trying again: %s", what, what_failed(error))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _delivery(self, message: OutboxRow, result: Result, reason: str) -> Delivery:
        level = {Result.SENT: logging.INFO, Result.NOT_LOGGED: logging.ERROR}.get(result, logging.WARNING)
        shown = harmless(reason, 1_000)
        _log.log(level, "message %s by %s to %s: %s: %s", message.id, message.channel, message.receiver, result, shown)
        return Delivery(message.id, message.channel, message.receiver, result, shown)
