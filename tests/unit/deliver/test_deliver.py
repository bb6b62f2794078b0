"""Whatever receivers do, each message is accepted once, none is lost, and nobody waits for somebody else's receiver."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from offsetguard.deliver.channels.channel import Unavailable
from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.deliver import deliver_due
from offsetguard.deliver.lane_service import Result, wait_before_retry
from offsetguard.store import outbox
from offsetguard.store.models import Status
from offsetguard.store.outbox import WAITS_FOR_EARLIER
from offsetguard_peers.databases import newest_accepted
from offsetguard_peers.delivery.world import DETAILED, LATER, NOW, RESOLVED, VIEW
from offsetguard_peers.delivery.world import DeliveryWorld as World
from offsetguard_peers.slack.server import Failure
from offsetguard_peers.waiting import wait_until


def test_due_messages_are_accepted_once_and_logged_with_their_receipts(world: World) -> None:
    world.put("m", "orders@example.com")
    world.put("s", "#alerts")
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert (report.sent, report.retried, report.failed, report.reasons) == (2, 0, 0, ())
    mail, posted = world.smtp.mails[0], world.slack.messages[0]
    receipts = {entry.receiver: entry.receipt for entry in newest_accepted(world.engine)}
    assert receipts == {
        "orders@example.com": mail.message["Message-ID"],
        "#alerts": f"C0ALERTS {posted.ts}",
    }
    assert str(mail.message["Subject"]).startswith("[CRITICAL] orders-cluster · order-group")
    assert deliver_due(world.engine, world.channels, now=LATER).deliveries == ()
    assert world.accepted() == ["#alerts", "orders@example.com"]


FAILURES: list[tuple[str, Callable[[World], object], Callable[[World], object]]] = [
    ("mail deferred", lambda w: w.smtp.answer_next_mail("451 later"), lambda w: None),
    ("mail server down", lambda w: w.smtp.close_port(), lambda w: w.smtp.open_port()),
    ("mail server hangs", lambda w: w.smtp.hang_at_data(), lambda w: w.smtp.hang_at_data(False)),
    (
        "slack limits",
        lambda w: w.slack.fail_next("chat.postMessage", Failure(status=429, retry_after_s=60)),
        lambda w: None,
    ),
]


@pytest.mark.parametrize(("how", "breaks", "mends"), FAILURES, ids=[f[0] for f in FAILURES])
def test_what_fails_for_now_is_kept_with_its_reason_and_accepted_once_later(
    world: World, how: str, breaks: Callable[[World], object], mends: Callable[[World], object]
) -> None:
    world.put("m", "orders@example.com")
    world.put("s", "#alerts")
    breaks(world)
    impatient = replace(world, patience_s=2.0) if how == "mail server hangs" else world
    report = deliver_due(world.engine, impatient.channels, now=NOW)
    assert (report.sent, report.retried, report.failed) == (1, 1, 0), "the other channel is not concerned"
    (waiting,) = [row for row in world.rows().values() if row.status is Status.PENDING]
    assert waiting.last_error is not None
    assert report.reasons[0].startswith(f"{waiting.channel} to {waiting.receiver}: retried: {waiting.last_error}")
    assert deliver_due(world.engine, world.channels, now=NOW + timedelta(seconds=1)).deliveries == ()
    mends(world)
    assert deliver_due(world.engine, world.channels, now=LATER).sent == 1
    assert world.accepted() == ["#alerts", "orders@example.com"]


def test_a_refused_receiver_fails_for_good_stays_visible_and_delays_nobody(world: World) -> None:
    """mqcloud puts all receivers into one mail, which the server refuses because of one: mail to nobody."""
    world.put("bad", "nobody@example.com")
    world.put("good", "orders@example.com")
    world.put("gone", "#archived")
    world.put("there", "#alerts")
    world.smtp.answer_recipient("nobody@example.com", "550 5.1.1 no such user")
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert (report.sent, report.retried, report.failed) == (2, 0, 2)
    assert report.reasons[0].startswith("mail to nobody@example.com: failed: ")
    assert report.lasting_reasons == report.reasons
    assert "no such user" in str(world.rows()["bad"].last_error)
    assert "is_archived" in str(world.rows()["gone"].last_error)
    assert [row.status for row in world.rows().values()].count(Status.FAILED) == 2
    assert deliver_due(world.engine, world.channels, now=LATER).deliveries == ()
    world.smtp.answer_recipient("nobody@example.com", None)
    outbox.redrive(world.engine)
    assert deliver_due(world.engine, world.channels, now=LATER).sent == 1
    assert "nobody@example.com" in world.accepted()


def test_mail_that_is_written_while_a_webhook_hangs_does_not_wait_for_it(world: World) -> None:
    world.put("s", "dead-webhook")
    arrived = threading.Event()

    def hang_until_the_mail_is_there() -> None:
        world.put("m", "orders@example.com")
        wait_until(lambda: world.smtp.mails, "the mail, which does not wait for the webhook")
        arrived.set()

    world.slack.when("webhook", hang_until_the_mail_is_there)
    patient = replace(world, patience_s=120.0)
    assert deliver_due(world.engine, patient.channels, now=NOW).sent == 2
    assert arrived.is_set(), "the mail waited for the webhook"


def test_messages_to_a_webhook_stand_one_below_the_other(world: World) -> None:
    world.put("1", "hook")
    world.put("2", "hook", RESOLVED)
    assert deliver_due(world.engine, world.channels, now=NOW).sent == 2
    assert [(message.through_webhook, message.thread_ts) for message in world.slack.messages] == [(True, None)] * 2
    assert [entry.receipt for entry in newest_accepted(world.engine)] == ["webhook hook"] * 2


WEBHOOK_FAILURES = [
    (Failure(error="invalid_token"), Result.RETRIED, "put the address of a new webhook into the connection"),
    (Failure(error="channel_is_archived"), Result.FAILED, "make a webhook for another channel"),
]


@pytest.mark.parametrize(("failure", "result", "reason"), WEBHOOK_FAILURES, ids=["mended", "for good"])
def test_a_webhook_that_fails_keeps_its_message_with_the_reason(
    world: World, failure: Failure, result: Result, reason: str
) -> None:
    world.put("s", "hook")
    world.slack.fail_next("webhook", failure)
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert [one.result for one in report.deliveries] == [result]
    assert reason in str(world.rows()["s"].last_error)
    outbox.redrive(world.engine)
    assert deliver_due(world.engine, world.channels, now=LATER).sent == 1


def test_a_short_pause_that_slack_wishes_for_is_kept_within_the_sweep(world: World) -> None:
    world.put("s", "#alerts")
    world.put("t", "#alerts", RESOLVED)
    world.slack.fail_next("chat.postMessage", Failure(status=429, retry_after_s=1))
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert (report.sent, report.retried, report.reasons) == (2, 0, ())
    assert [row.attempts for row in (world.rows()["s"], world.rows()["t"])] == [2, 1]


def test_what_an_operator_should_know_although_it_was_accepted_is_told_once(world: World) -> None:
    world.slack.workspace.scopes = frozenset({"chat:write"})
    world.slack.fail_next("chat.postMessage", Failure(status=503, after_posting=True))
    for thread in ("thread 1", "thread 2"):
        world.put(thread, "#alerts", VIEW.model_copy(update={"thread_key": thread}))
    world.slack.fail_next("chat.postMessage", Failure(status=503, after_posting=True))
    assert deliver_due(world.engine, world.channels, now=NOW).retried == 2
    assert deliver_due(world.engine, world.channels, now=LATER).retried == 2, "the second failure"
    report = deliver_due(world.engine, world.channels, now=LATER + timedelta(minutes=10))
    assert report.sent == 2
    (remark,) = report.remarks
    assert "scope" in remark


def test_a_missing_connection_keeps_messages_with_the_reason(world: World) -> None:
    world.put("s", "#alerts")
    reason = "there is no Airflow connection offsetguard_slack: create it under Admin > Connections"
    without = replace(world.channels, slack=Unavailable(reason))
    assert reason in deliver_due(world.engine, without, now=NOW).reasons[0]
    assert world.rows()["s"].last_error == reason
    assert deliver_due(world.engine, world.channels, now=LATER).sent == 1


def test_a_webhook_that_cannot_be_opened_stops_nobody_else_and_shows_no_secret(world: World) -> None:
    world.put("h", "hook")
    world.put("m", "orders@example.com")

    def raises(name: str) -> SlackWebhookChannel:
        raise RuntimeError(f"{name}: hunter2")

    report = deliver_due(world.engine, replace(world.channels, webhook=raises), now=NOW)
    assert (report.sent, report.retried) == (1, 1)
    assert world.rows()["h"].last_error == "webhook 'hook' could not be opened: RuntimeError"


def test_a_receiver_that_hangs_costs_one_time_out_and_holds_nobody_up(world: World) -> None:
    for number in range(10):
        world.put(f"slow {number}", "#alerts")
    world.put("m", "orders@example.com")
    world.slack.fail_next("chat.postMessage", *[Failure(hang=True)] * 10)
    impatient = replace(world.channels, slack=replace(world, patience_s=2.0).channels.slack)
    report = deliver_due(world.engine, impatient, now=NOW)
    assert (report.sent, report.retried) == (1, 10)
    (reason,) = report.reasons
    assert reason.endswith("; 9 more wait behind it"), "one time-out for all of them"
    reasons = [row.last_error for row in world.rows().values() if row.status is Status.PENDING]
    assert reasons.count("not tried: message 1 to the same receiver has to go first") == 9


def test_a_resolution_never_overtakes_the_warning_that_it_resolves(world: World) -> None:
    world.put("warning", "orders@example.com")
    world.smtp.answer_next_mail("451 later")
    assert deliver_due(world.engine, world.channels, now=NOW).retried == 1
    world.put("resolved", "orders@example.com", RESOLVED)
    assert deliver_due(world.engine, world.channels, now=NOW + timedelta(seconds=5)).deliveries == ()
    assert world.rows()["resolved"].last_error == WAITS_FOR_EARLIER
    assert deliver_due(world.engine, world.channels, now=LATER).sent == 2
    subjects = [str(mail.message["Subject"]).split()[0] for mail in world.smtp.mails]
    assert subjects == ["[CRITICAL]", "[RESOLVED]"]


def test_messages_of_one_thread_stand_below_the_first_in_slack(world: World) -> None:
    world.put("1", "#alerts")
    world.put("2", "#alerts")
    world.put("other", "#alerts", VIEW.model_copy(update={"thread_key": "thread 2"}))
    deliver_due(world.engine, world.channels, now=NOW)
    first, second, other = world.slack.messages
    assert (first.thread_ts, second.thread_ts, other.thread_ts) == (None, first.ts, None)


def fail_details(world: World, failure: Failure) -> None:
    """Let what is posted after the first message fail."""

    def fail_next() -> None:
        world.slack.when_done("chat.postMessage", lambda: None)
        world.slack.fail_next("chat.postMessage", failure)

    world.slack.when_done("chat.postMessage", fail_next)


def test_details_that_slack_refuses_are_seen_and_driven_again_and_their_warning_is_not(world: World) -> None:
    """Of the next message they are no newer state: the parent shows the end."""
    world.put("1", "#alerts", DETAILED)
    fail_details(world, Failure(error="invalid_blocks"))
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert (report.sent, report.failed) == (1, 1)
    (failed,) = outbox.messages(world.engine, status=Status.FAILED)
    assert "invalid_blocks" in str(failed.last_error)
    world.put("2", "#alerts", RESOLVED)
    deliver_due(world.engine, world.channels, now=NOW)
    outbox.redrive(world.engine)
    assert deliver_due(world.engine, world.channels, now=LATER).reasons == ()
    parent, end, details = world.slack.messages
    assert [one.thread_ts for one in (parent, end, details)] == [None, parent.ts, parent.ts]
    assert parent.text.startswith("[RESOLVED]")
    assert details.text.startswith("Details: messages pile up")
    assert not details.reply_broadcast
    assert world.accepted() == ["#alerts"] * 3


def test_an_update_that_is_driven_again_after_details_is_still_the_newest_state(world: World) -> None:
    world.put("1", "#alerts", DETAILED)
    world.put("2", "#alerts", RESOLVED)
    world.slack.fail_next("chat.update", Failure(error="invalid_blocks"))
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert (report.sent, report.failed) == (2, 1), "the warning and its details"
    outbox.redrive(world.engine)
    assert deliver_due(world.engine, world.channels, now=LATER).reasons == ()
    parent, details, end = world.slack.messages
    assert parent.text.startswith("[RESOLVED]")
    assert details.text.startswith("Details: messages pile up")
    assert end.thread_ts == parent.ts


def test_details_of_a_warning_that_somebody_has_deleted_take_nobody_s_place(world: World) -> None:
    world.put("1", "#alerts", DETAILED)
    fail_details(world, Failure(status=503))
    deliver_due(world.engine, world.channels, now=NOW)
    world.slack.workspace.delete(world.slack.messages[0].ts)
    report = deliver_due(world.engine, world.channels, now=LATER)
    assert "somebody has deleted the message that these details belong to" in str(report.reasons)
    assert world.slack.messages == []


def test_a_message_that_cannot_be_read_is_kept_as_failed_and_stops_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.put("strange", "a@example.com")
    world.put("good", "b@example.com")
    with world.engine.begin() as connection:
        damaged = '{"firing": "a word of the message"}'
        connection.exec_driver_sql(f"update outbox set view_json = '{damaged}' where idempotency_key = 'strange'")
    report = deliver_due(world.engine, world.channels, now=NOW)
    assert (report.sent, report.failed) == (1, 1)
    assert "a word of the message" not in f"{report} {caplog.text}"
    assert "defect in OffsetGuard, please report it: ValidationError" in str(world.rows()["strange"].last_error)


def test_waits_double_up_to_half_an_hour_and_heed_the_receivers_wish() -> None:
    waits = [wait_before_retry(attempts, "key").total_seconds() for attempts in range(1, 40)]
    assert [min(30 * 2**n, 1800) <= wait <= min(30 * 2**n, 1800) * 1.25 for n, wait in enumerate(waits)] == [True] * 39
    assert wait_before_retry(1, "key", 3600).total_seconds() == 3600
    hasty = [wait_before_retry(attempts, "key", 1.0).total_seconds() for attempts in range(1, 21)]
    assert hasty == [1, 2, 3, 4, 5, 6, 7, 8, 9, *[10] * 11], "ever less hasty"
    assert wait_before_retry(21, "key", 1.0).total_seconds() >= 1800, "and then it is no short pause any more"
    assert len({wait_before_retry(1, str(key)) for key in range(20)}) > 5, "no herd comes back at once"
