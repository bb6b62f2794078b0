"""The outbox hands each message to one deliverer at a time, and forgets none."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from offsetguard.messages.view import MessageView, NotificationReason
from offsetguard.store import notification_log, outbox
from offsetguard.store.database import writing
from offsetguard.store.outbox import Channel, OutboxMessage, Status

if TYPE_CHECKING:
    from sqlalchemy import Engine

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
VIEW = MessageView(
    team="orders",
    cluster="demo",
    rule_id="accumulation",
    severity="critical",
    title="orders stopped",
    reason=NotificationReason.FIRST,
    interval_start=NOW - timedelta(minutes=2),
    thread_key="thread 1",
)


def put(engine: Engine, key: str = "key 1", *, receiver: str = "orders@example.org", now: datetime = NOW) -> bool:
    with writing(engine) as session:
        return outbox.enqueue(session, idempotency_key=key, channel=Channel.MAIL, receiver=receiver, view=VIEW, now=now)


def claim(engine: Engine, now: datetime = NOW, limit: int = 10) -> list[OutboxMessage]:
    return outbox.claim_due(engine, now=now, limit=limit, claim_ms=60_000)


def only(engine: Engine) -> OutboxMessage:
    (message,) = outbox.messages(engine)
    return message


def test_a_claimed_message_says_what_was_enqueued(engine: Engine) -> None:
    assert put(engine)
    (message,) = claim(engine)
    assert message.view == VIEW
    assert (message.channel, message.receiver, message.attempts) == (Channel.MAIL, "orders@example.org", 1)
    assert message.claimed_until == NOW + timedelta(minutes=1)


def test_the_same_key_is_enqueued_once(engine: Engine) -> None:
    assert put(engine)
    assert not put(engine, receiver="somebody-else@example.org")
    assert only(engine).receiver == "orders@example.org"


def test_a_claimed_message_is_not_claimed_again_until_the_claim_ends(engine: Engine) -> None:
    put(engine)
    assert len(claim(engine)) == 1
    assert claim(engine, NOW + timedelta(seconds=59)) == []
    (again,) = claim(engine, NOW + timedelta(seconds=60))
    assert again.attempts == 2


def test_claims_are_oldest_first_and_bounded(engine: Engine) -> None:
    for minute in (2, 0, 1):
        put(engine, f"key {minute}", now=NOW + timedelta(minutes=minute))
    keys = [message.idempotency_key for message in claim(engine, NOW + timedelta(minutes=5), limit=2)]
    assert keys == ["key 0", "key 1"]


def test_acceptance_is_logged_once_and_ends_the_row(engine: Engine) -> None:
    put(engine)
    (message,) = claim(engine)
    assert outbox.mark_accepted(engine, message, accepted_at=NOW, receipt="<1@offsetguard>")
    assert not outbox.mark_accepted(engine, message, accepted_at=NOW, receipt="<2@offsetguard>")
    assert claim(engine, NOW + timedelta(days=1)) == []
    assert only(engine).status is Status.SENT
    (entry,) = notification_log.thread(engine, thread_key="thread 1", receiver="orders@example.org")
    assert (entry.receipt, entry.accepted_at, entry.outbox_id) == ("<1@offsetguard>", NOW, message.id)


def test_an_acceptance_counts_even_when_the_claim_had_ended(engine: Engine) -> None:
    """The receiver has the message: sending it again would be the mistake."""
    put(engine)
    (slow,) = claim(engine)
    (fast,) = claim(engine, NOW + timedelta(minutes=2))
    assert outbox.mark_accepted(engine, slow, accepted_at=NOW, receipt="<1@offsetguard>")
    assert not outbox.mark_retry(engine, fast, next_attempt_at=NOW, error="451 try later")
    assert only(engine).status is Status.SENT


def test_a_retry_comes_back_at_its_time_with_the_reason_kept(engine: Engine) -> None:
    put(engine)
    (message,) = claim(engine)
    later = NOW + timedelta(minutes=5)
    assert outbox.mark_retry(engine, message, next_attempt_at=later, error="451 try later")
    assert claim(engine, later - timedelta(seconds=1)) == []
    (again,) = claim(engine, later)
    assert (again.attempts, again.last_error) == (2, "451 try later")


def test_an_ended_claim_can_neither_postpone_nor_fail_the_row_of_the_next_deliverer(engine: Engine) -> None:
    put(engine)
    (slow,) = claim(engine)
    (fast,) = claim(engine, NOW + timedelta(minutes=1))
    assert not outbox.mark_failed(engine, slow, error="connection reset")
    assert not outbox.mark_retry(engine, slow, next_attempt_at=NOW, error="connection reset")
    assert only(engine).claimed_until == fast.claimed_until


def test_a_failed_message_stays_with_its_reason_until_it_is_driven_again(engine: Engine) -> None:
    put(engine)
    (message,) = claim(engine)
    assert outbox.mark_failed(engine, message, error="550 no such user")
    assert claim(engine, NOW + timedelta(days=1)) == []
    failed = only(engine)
    assert (failed.status, failed.last_error) == (Status.FAILED, "550 no such user")
    assert outbox.redrive(engine, now=NOW, ids=[failed.id + 1]) == 0
    assert outbox.redrive(engine, now=NOW) == 1
    (again,) = claim(engine)
    assert again.attempts == 1


def test_many_deliverers_at_once_never_hold_one_message_twice(engine: Engine) -> None:
    for number in range(20):
        put(engine, f"key {number}")
    held: list[int] = []
    start = threading.Barrier(4)

    def deliver() -> None:
        start.wait()
        while claimed := claim(engine, limit=3):
            held.extend(message.id for message in claimed)

    deliverers = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in deliverers:
        thread.start()
    for thread in deliverers:
        thread.join()
    assert len(held) == len(set(held)) == 20


def test_a_moment_without_a_zone_is_refused(engine: Engine) -> None:
    with pytest.raises(Exception, match="no time zone"):
        put(engine, now=datetime(2026, 11, 21, 10, 41))  # noqa: DTZ001 the mistake that is tested
