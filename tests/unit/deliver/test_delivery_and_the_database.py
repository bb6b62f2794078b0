"""The database is locked or gone while messages go out: nothing is lost, and the reason is told."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from offsetguard.deliver.deliver import deliver_due
from offsetguard.deliver.lane_service import Result
from offsetguard.store.models import Status
from offsetguard_peers.databases import newest_accepted
from offsetguard_peers.delivery.world import LATER, NOW, RESOLVED, DeliveryWorld, delivery_world
from offsetguard_peers.smtp.server import Step
from offsetguard_peers.waiting import at_once

CLAIMS_HAVE_ENDED = LATER + timedelta(minutes=5)


class Table:
    """A table that is there and gone again: what the database answers then is an error to every statement."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self._mending: list[threading.Timer] = []

    def vanish(self, back_after_s: float | None = None) -> None:
        if self._mending:
            return  # once is enough
        self._rename(self._name, f"{self._name}_away")
        timer = threading.Timer(back_after_s or 0.0, self.come_back)
        self._mending.append(timer)
        if back_after_s is not None:
            timer.start()

    def come_back(self) -> None:
        self._rename(f"{self._name}_away", self._name)

    def _rename(self, old: str, new: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))


def test_what_was_accepted_while_the_log_was_gone_is_logged_when_it_is_back_and_sent_once(
    each_world: DeliveryWorld, caplog: pytest.LogCaptureFixture
) -> None:
    log = Table(each_world.engine, "notification_log")
    each_world.smtp.when(Step.ANSWER_READ, lambda: log.vanish(back_after_s=0.5))
    each_world.put("m", "orders@example.com")
    report = deliver_due(each_world.engine, each_world.channels, now=NOW)
    assert (report.sent, report.reasons) == (1, ())
    assert "was accepted" in caplog.text
    assert "the database does not take it; trying again" in caplog.text
    assert deliver_due(each_world.engine, each_world.channels, now=CLAIMS_HAVE_ENDED).deliveries == ()
    assert each_world.accepted() == ["orders@example.com"]


def test_what_cannot_be_logged_for_the_whole_claim_is_told_and_sent_once_more(each_world: DeliveryWorld) -> None:
    log = Table(each_world.engine, "notification_log")
    each_world.smtp.when(Step.ANSWER_READ, log.vanish)
    each_world.put("m", "orders@example.com")
    report = deliver_due(each_world.engine, each_world.channels, now=NOW, claim_ms=1_500)
    assert [one.result for one in report.deliveries] == [Result.NOT_LOGGED]
    assert "but that could not be logged, so it is sent once more" in report.reasons[0]
    assert each_world.rows()["m"].status is Status.PENDING
    log.come_back()
    assert deliver_due(each_world.engine, each_world.channels, now=CLAIMS_HAVE_ENDED).sent == 1
    assert len(each_world.smtp.mails) == 2
    assert len(newest_accepted(each_world.engine)) == 1
    first, second = (mail.message["Message-ID"] for mail in each_world.smtp.mails)
    assert first == second


def test_an_outbox_that_is_gone_fails_the_sweep_with_the_reason_and_loses_nothing(each_world: DeliveryWorld) -> None:
    each_world.put("m", "orders@example.com")
    outbox = Table(each_world.engine, "outbox")
    outbox.vanish()
    report = deliver_due(each_world.engine, each_world.channels, now=NOW)
    assert report.deliveries == ()
    assert report.reasons[0].startswith("the database did not answer, so messages may wait in the outbox: ")
    assert "outbox" in report.reasons[0]
    outbox.come_back()
    assert deliver_due(each_world.engine, each_world.channels, now=NOW).sent == 1


def test_a_refusal_is_written_down_when_the_outbox_is_back(each_world: DeliveryWorld) -> None:
    outbox = Table(each_world.engine, "outbox")
    each_world.smtp.answer_next_mail("451 later")
    each_world.smtp.when(Step.RECIPIENT_NAMED, lambda: outbox.vanish(back_after_s=0.5))
    each_world.put("m", "orders@example.com")
    report = deliver_due(each_world.engine, each_world.channels, now=NOW)
    assert [one.result for one in report.deliveries] == [Result.RETRIED]
    assert "451 later" in str(each_world.rows()["m"].last_error)
    assert deliver_due(each_world.engine, each_world.channels, now=LATER).sent == 1


def test_a_log_that_cannot_be_read_makes_slack_wait_and_never_counts_as_a_refusal(each_world: DeliveryWorld) -> None:
    """Which parent a message belongs to stands in the log."""
    log = Table(each_world.engine, "notification_log")
    log.vanish()
    each_world.put("s", "#alerts")
    report = deliver_due(each_world.engine, each_world.channels, now=NOW)
    assert [one.result for one in report.deliveries] == [Result.RETRIED]
    assert "not tried: the notification log could not be read" in report.reasons[0]
    log.come_back()
    assert deliver_due(each_world.engine, each_world.channels, now=LATER).sent == 1
    assert len(each_world.slack.messages) == 1


def test_a_judge_that_writes_for_long_delays_the_log_and_repeats_nothing(sqlite_engine: Engine) -> None:
    """SQLite has one writer at a time."""
    with delivery_world(sqlite_engine) as world:
        writer = sqlite_engine.connect().execution_options(offsetguard_writes=True)

        def occupy() -> None:
            writer.begin()  # BEGIN IMMEDIATE
            threading.Timer(1.0, release).start()

        def release() -> None:
            writer.rollback()

        world.smtp.when(Step.ANSWER_READ, once(occupy))
        world.put("m", "orders@example.com")
        world.put("again", "orders@example.com", RESOLVED)
        started = time.monotonic()
        assert deliver_due(world.engine, world.channels, now=NOW).sent == 2
        assert time.monotonic() - started >= 1.0
        assert world.accepted() == ["orders@example.com"] * 2
        writer.close()


def test_two_deliverers_on_two_machines_share_the_receivers_and_repeat_nothing(each_world: DeliveryWorld) -> None:
    mails = [f"team-{number}@example.com" for number in range(8)]
    receivers = [*mails, "#alerts", "hook"]
    for receiver in receivers:
        each_world.put(f"{receiver} 1", receiver)
        each_world.put(f"{receiver} 2", receiver, RESOLVED)
    reports = at_once(2, lambda: deliver_due(each_world.engine, each_world.channels, now=NOW))
    assert [reason for report in reports for reason in report.reasons] == []
    assert each_world.accepted() == sorted(receivers * 2)
    for receiver in mails:
        subjects = [str(mail.message["Subject"]) for mail in each_world.smtp.mails if receiver in mail.recipients]
        assert [subject.split()[0] for subject in subjects] == ["[CRITICAL]", "[RESOLVED]"]


def once(action: Callable[[], None]) -> Callable[[], None]:
    done = threading.Event()

    def act() -> None:
        if not done.is_set():
            done.set()
            action()

    return act
