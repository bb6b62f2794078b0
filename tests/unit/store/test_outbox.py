"""The outbox hands each message to one deliverer at a time, in an order that makes sense, and forgets none."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from offsetguard.model.digest import digest
from offsetguard.model.incident import EventKind
from offsetguard.model.views import AnyView, DigestView
from offsetguard.store import notifications, outbox
from offsetguard.store.database import current_time, reading, writing
from offsetguard.store.incidents import events_of
from offsetguard.store.models import OutboxRow, Status
from offsetguard.store.outbox import Lane, due_lanes
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.databases import fresh_database
from offsetguard_peers.waiting import at_once

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
CLAIM = timedelta(minutes=1)
ORDERS = Lane("mail", "orders@example.org")


def put(
    engine: Engine,
    key: str = "key 1",
    *,
    lane: Lane = ORDERS,
    thread: str | None = None,
    now: datetime = NOW,
    view: AnyView = VIEW,
) -> bool:
    """Each message is of a thread of its own unless said otherwise."""
    view = view.model_copy(update={"thread_key": thread or key})
    with writing(engine) as session:
        return outbox.enqueue(
            session, idempotency_key=key, channel=lane.channel, receiver=lane.receiver, view=view, now=now
        )


def claim(engine: Engine, now: datetime = NOW, lane: Lane = ORDERS) -> OutboxRow | None:
    return outbox.claim_next(engine, lane, now=now, claim_ms=60_000)


def claimed(engine: Engine, now: datetime = NOW, lane: Lane = ORDERS) -> OutboxRow:
    message = claim(engine, now, lane)
    assert message is not None
    return message


def only(engine: Engine) -> OutboxRow:
    (message,) = outbox.messages(engine)
    return message


def test_a_claimed_message_says_what_was_enqueued(engine: Engine) -> None:
    assert put(engine, thread="thread 1")
    message = claimed(engine)
    assert message.view == VIEW
    assert (message.channel, message.receiver, message.attempts) == ("mail", "orders@example.org", 1)
    assert message.claimed_until == NOW + CLAIM


def test_the_same_key_is_enqueued_once(engine: Engine) -> None:
    assert put(engine)
    assert not put(engine, lane=Lane("mail", "somebody-else@example.org"))
    assert only(engine).receiver == "orders@example.org"


def test_a_claimed_message_is_not_claimed_again_until_the_claim_ends(engine: Engine) -> None:
    put(engine)
    assert due_lanes(engine, now=NOW) == [ORDERS]
    assert claim(engine)
    assert claim(engine, NOW + CLAIM - timedelta(seconds=1)) is None
    assert due_lanes(engine, now=NOW + CLAIM - timedelta(seconds=1)) == []
    assert due_lanes(engine, now=NOW + CLAIM) == [ORDERS]
    assert claimed(engine, NOW + CLAIM).attempts == 2


def test_a_lane_is_served_in_the_order_in_which_its_messages_were_written(engine: Engine) -> None:
    for key in ("first", "second", "third"):
        put(engine, key)
    assert [claimed(engine).idempotency_key for _ in range(3)] == ["first", "second", "third"]


def test_the_lane_that_waits_longest_is_named_first(engine: Engine) -> None:
    slack = Lane("slack", "#alerts")
    webhook = Lane("slack_webhook", "#alerts")
    for number, lane in enumerate((slack, ORDERS, webhook, slack)):
        put(engine, f"key {number}", lane=lane)
    assert due_lanes(engine, now=NOW) == [slack, ORDERS, webhook]


def test_nothing_goes_before_an_earlier_message_of_its_thread_to_the_same_receiver(engine: Engine) -> None:
    put(engine, "warning", thread="thread 1")
    put(engine, "resolved", thread="thread 1")
    put(engine, "other thread")
    put(engine, "other receiver", thread="thread 1", lane=Lane("slack", "#alerts"))
    warning = claimed(engine)
    assert [warning.idempotency_key, claimed(engine).idempotency_key] == ["warning", "other thread"]
    assert claim(engine) is None, "the warning is on its way"
    later = NOW + timedelta(minutes=9)
    outbox.mark_retry(engine, warning, next_attempt_at=later, error="451 try later")
    assert claim(engine) is None, "the warning has to be tried again"
    assert due_lanes(engine, now=NOW) == [Lane("slack", "#alerts")]
    assert claimed(engine, later).idempotency_key == "warning"
    outbox.mark_accepted(engine, warning, accepted_at=NOW, receipt="<1@offsetguard>")
    assert claimed(engine).idempotency_key == "resolved"


def test_what_waits_for_an_earlier_message_of_its_thread_says_so(engine: Engine) -> None:
    put(engine, "warning", thread="thread 1")
    put(engine, "resolved", thread="thread 1")
    assert outbox.say_what_waits_for_whom(engine, now=NOW) == 1
    reasons = {row.idempotency_key: row.last_error for row in outbox.messages(engine)}
    assert reasons == {"warning": None, "resolved": outbox.WAITS_FOR_EARLIER}


def test_more_may_wait_for_an_earlier_message_than_a_statement_may_have_values(tmp_path: Path) -> None:
    engine, most = fresh_database(f"sqlite:///{tmp_path}/own.db"), 40  # which nobody else has: it has a limit

    def lower_the_limit(connection: Any, *_: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, most)  # else 32,766 and more

    event.listen(engine, "checkout", lower_the_limit)
    for number in range(most + 2):
        put(engine, f"key {number}", thread="thread 1")
    assert outbox.say_what_waits_for_whom(engine, now=NOW) == most + 1
    assert outbox.say_what_waits_for_whom(engine, now=NOW) == 0
    engine.dispose()


def test_nothing_overtakes_a_digest_and_a_digest_overtakes_nothing(engine: Engine) -> None:
    """It may hold the warning that a later message resolves, or the end of an earlier one."""
    put(engine, "warning of one", thread="thread 1")
    put(engine, "digest", view=digest([VIEW, VIEW], thread_key=""))
    put(engine, "resolved", thread="thread 2")
    slack = Lane("slack", "#alerts")
    put(engine, "elsewhere", thread="thread 2", lane=slack)
    warning = claimed(engine)
    assert (warning.idempotency_key, claim(engine)) == ("warning of one", None)
    outbox.mark_accepted(engine, warning, accepted_at=NOW, receipt="<1@offsetguard>")
    sent = claimed(engine)
    outbox.mark_retry(engine, sent, next_attempt_at=NOW + timedelta(minutes=30), error="451 later")
    assert (sent.idempotency_key, claim(engine)) == ("digest", None), "the end waits for the warning in the digest"
    assert claimed(engine, lane=slack).idempotency_key == "elsewhere"
    assert outbox.say_what_waits_for_whom(engine, now=NOW) == 1
    again = claimed(engine, NOW + timedelta(minutes=30))
    outbox.mark_accepted(engine, again, accepted_at=NOW, receipt="<2@offsetguard>")
    assert claimed(engine).idempotency_key == "resolved"


def test_postponed_messages_wait_with_the_reason_and_others_are_not_concerned(engine: Engine) -> None:
    for key in ("tried", "waits", "waits too"):
        put(engine, key)
    put(engine, "elsewhere", lane=Lane("slack", "#alerts"))
    claimed(engine)
    until = NOW + timedelta(minutes=5)
    assert outbox.postpone(engine, ORDERS, now=NOW, until=until, reason="not tried: the server hangs") == 2
    rows = {row.idempotency_key: row for row in outbox.messages(engine)}
    assert {key for key, row in rows.items() if row.next_attempt_at == until} == {"waits", "waits too"}
    assert (rows["waits"].last_error, rows["waits"].attempts) == ("not tried: the server hangs", 0)


def test_acceptance_is_logged_once_and_ends_the_row(engine: Engine) -> None:
    put(engine, thread="thread 1")
    message = claimed(engine)
    assert outbox.mark_accepted(engine, message, accepted_at=NOW, receipt="<1@offsetguard>")
    assert not outbox.mark_accepted(engine, message, accepted_at=NOW, receipt="<2@offsetguard>")
    assert claim(engine, NOW + timedelta(days=1)) is None
    assert only(engine).status is Status.SENT
    (entry,) = notifications.thread(engine, thread_key="thread 1", channel="mail", receiver="orders@example.org")
    assert (entry.receipt, entry.accepted_at, entry.outbox_id) == ("<1@offsetguard>", NOW, message.id)
    assert not notifications.thread(engine, thread_key="thread 1", channel="slack", receiver="orders@example.org")


def test_each_incident_that_a_message_names_knows_whom_it_was_told_to(engine: Engine) -> None:
    put(engine, view=digest([VIEW, VIEW.model_copy(update={"rule_id": "other"})], thread_key="digest"))
    message = claimed(engine)
    assert isinstance(message.view, DigestView)
    outbox.mark_accepted(engine, message, accepted_at=NOW, receipt="<1@offsetguard>")
    outbox.mark_accepted(engine, message, accepted_at=NOW, receipt="<1@offsetguard>")
    with reading(engine) as session:
        for one in (*message.view.firing, *message.view.resolved):
            told = events_of(session, one.incident_id)
            assert [(event.kind, event.at) for event in told] == [(EventKind.NOTIFIED, NOW)] * 2, "by both causes, once"
            assert f"mail to {ORDERS.receiver} (team {VIEW.team})" in told[0].text


def test_a_retry_comes_back_at_its_time_with_the_reason_kept(engine: Engine) -> None:
    put(engine)
    later = NOW + timedelta(minutes=5)
    assert outbox.mark_retry(engine, claimed(engine), next_attempt_at=later, error="451 try later")
    assert claim(engine, later - timedelta(seconds=1)) is None
    again = claimed(engine, later)
    assert (again.attempts, again.last_error) == (2, "451 try later")


def test_an_ended_claim_can_neither_postpone_nor_fail_the_row_of_the_next_deliverer_but_accepts_it(
    engine: Engine,
) -> None:
    """The receiver has the message: sending it again would be the mistake."""
    put(engine)
    slow = claimed(engine)
    fast = claimed(engine, NOW + CLAIM)
    assert not outbox.mark_failed(engine, slow, error="connection reset")
    assert not outbox.mark_retry(engine, slow, next_attempt_at=NOW, error="connection reset")
    assert only(engine).claimed_until == fast.claimed_until
    assert outbox.mark_accepted(engine, slow, accepted_at=NOW, receipt="<1@offsetguard>")
    assert not outbox.mark_accepted(engine, fast, accepted_at=NOW, receipt="<1@offsetguard>"), "logged once"
    assert not outbox.mark_retry(engine, fast, next_attempt_at=NOW, error="451 try later")
    assert only(engine).status is Status.SENT


def test_a_failed_message_stays_with_its_reason_until_it_is_driven_again(engine: Engine) -> None:
    put(engine)
    assert outbox.mark_failed(engine, claimed(engine), error="550 no such user")
    assert claim(engine, NOW + timedelta(days=1)) is None
    failed = only(engine)
    assert (failed.status, failed.last_error) == (Status.FAILED, "550 no such user")
    assert outbox.redrive(engine, ids=[failed.id + 1]) == 0
    assert outbox.redrive(engine) == 1
    assert claimed(engine).attempts == 2, "it was tried before, so the receiver may be asked what it has"


def test_a_clock_that_jumps_ahead_ends_claims_early_and_one_that_jumps_back_late_and_both_lose_nothing(
    engine: Engine,
) -> None:
    put(engine)
    first = claimed(engine)
    ahead = claimed(engine, NOW + timedelta(hours=1))
    assert outbox.mark_accepted(engine, first, accepted_at=NOW, receipt="<1@offsetguard>")
    assert not outbox.mark_accepted(engine, ahead, accepted_at=NOW, receipt="<1@offsetguard>"), "logged once"
    put(engine, "key 2")
    outbox.mark_retry(engine, claimed(engine), next_attempt_at=NOW + timedelta(hours=1), error="451 later")
    assert claim(engine) is None, "not due yet, says the clock that jumped back"
    assert claimed(engine, NOW + timedelta(hours=1)).idempotency_key == "key 2"


def test_nothing_waits_for_times_that_were_written_before_the_clock_was_put_back(engine: Engine) -> None:
    """Neither what nobody tried, nor what is to be tried again, nor the claim of a deliverer that died."""
    put(engine, "held")
    held = claimed(engine)
    put(engine, "tried")
    outbox.mark_retry(engine, claimed(engine), next_attempt_at=NOW + timedelta(minutes=30), error="451 later")
    put(engine, "new")
    back = NOW - timedelta(hours=1)
    assert claim(engine, back) is None
    outbox.forget_what_lies_ahead(engine, now=back)
    assert {claimed(engine, back).idempotency_key for _ in range(2)} == {"tried", "new"}
    assert claim(engine, back) is None, "whoever holds it may be at it"
    assert claimed(engine, back + timedelta(minutes=2)).idempotency_key == "held"
    assert outbox.mark_accepted(engine, held, accepted_at=back, receipt="<1@offsetguard>"), "its deliverer lived"


def test_what_a_judge_writes_whose_clock_is_ahead_is_due_at_once(engine: Engine) -> None:
    with reading(engine) as session:
        now = current_time(session)
    put(engine, now=now + timedelta(minutes=10))
    message = claimed(engine, now + timedelta(seconds=30))
    assert message.created_at < now + timedelta(seconds=30), "Slack is asked for what was posted since"


def test_many_deliverers_at_once_never_hold_one_message_twice(engine: Engine) -> None:
    for number in range(20):
        put(engine, f"key {number}")
    held: list[int] = []

    def deliver() -> None:
        while due_lanes(engine, now=NOW):  # one whose rows others are looking at is told that there is none
            if message := claim(engine):
                held.append(message.id)

    at_once(4, deliver)
    assert len(held) == len(set(held)) == 20


def test_a_moment_without_a_zone_is_refused(engine: Engine) -> None:
    with pytest.raises(Exception, match=r"no time zone|offset-naive"):
        put(engine, now=datetime(2026, 11, 21, 10, 41))  # noqa: DTZ001 the mistake that is tested


def test_a_team_is_not_reached_while_none_of_its_receivers_has_accepted_what_is_old_enough(each_engine: Engine) -> None:
    def unreached(moment: datetime, cluster: str = VIEW.cluster) -> dict[str, int]:
        with reading(each_engine) as session:
            return {one.team: one.message_count for one in outbox.unreached(session, cluster, moment)}

    other = Lane("wecom", "night")
    of_a, of_b = (VIEW.model_copy(update={"team": team}) for team in ("a", "b"))
    put(each_engine, "of a", view=of_a)
    put(each_engine, "of a, in a digest", lane=other, view=of_a)  # digests have threads of their own
    put(each_engine, "of b", view=of_b)
    assert unreached(NOW - timedelta(seconds=1)) == {}, "too young"
    assert unreached(NOW, "another") == {}
    assert unreached(NOW) == {"a": 2, "b": 1}
    outbox.mark_accepted(each_engine, claimed(each_engine, lane=other), accepted_at=NOW, receipt="robot")
    assert unreached(NOW) == {"b": 1}
