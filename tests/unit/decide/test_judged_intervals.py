"""An interval is judged once, whatever is run again; what is late, past or only tried tells nobody."""

import threading
from datetime import timedelta

from sqlalchemy import Engine

from offsetguard.decide.judge import JudgeReport
from offsetguard.model.views import NotificationReason
from offsetguard.store import incidents, outbox
from offsetguard.store.database import reading
from offsetguard.store.models import Mode
from offsetguard_peers.databases import newest_incidents, newest_judged
from offsetguard_peers.judging.records import MINUTE, START, facts, group, judge, told


def everything(engine: Engine) -> tuple[object, ...]:
    found = newest_incidents(engine)
    with reading(engine) as session:
        events = [incidents.events_of(session, one.incident_id) for one in found]
    return found, events, outbox.messages(engine), newest_judged(engine)


def test_judging_an_interval_again_changes_nothing_and_sends_nothing(engine: Engine) -> None:
    judge(engine, facts(0, group("billing", 20_000)))
    before = everything(engine)
    again = judge(engine, facts(0, group("billing", 20_000), group("another", 90_000)), late=2 * MINUTE)
    assert again.already_judged
    assert not again.messages
    assert everything(engine) == before


def test_two_judges_at_once_give_one_message(each_engine: Engine) -> None:
    start = threading.Barrier(4)
    reports: list[JudgeReport] = []

    def run() -> None:
        start.wait()
        reports.append(judge(each_engine, facts(0, group("somebody", 20_000))))

    judges = [threading.Thread(target=run) for _ in range(4)]
    for thread in judges:
        thread.start()
    for thread in judges:
        thread.join()
    assert sorted(len(report.messages) for report in reports) == [0, 0, 0, 1]
    assert len(outbox.messages(each_engine)) == 1
    assert len(newest_incidents(each_engine)) == 1


def test_an_interval_older_than_notify_within_is_recorded_and_sends_nothing(engine: Engine) -> None:
    assert judge(engine, facts(0, group("b", 20_000)), late=timedelta(minutes=15), dry_run=True).messages
    report = judge(engine, facts(0, group("a", 20_000)), late=timedelta(minutes=15, milliseconds=1))
    assert (report.mode, len(report.opened), report.messages) == (Mode.LATE, 1, ())
    (message,) = judge(engine, facts(30, group("a", 20_000))).messages
    assert (message.view.reason, message.view.firing[0].opened_at) == (NotificationReason.FIRST, START + MINUTE)


def test_an_interval_older_than_the_newest_judged_one_changes_no_incident(engine: Engine) -> None:
    judge(engine, facts(5, group("a", 20_000)))
    report = judge(engine, facts(4, group("a", 0), group("b", 90_000)))
    assert (report.mode, report.messages) == (Mode.HISTORY, ())
    assert [(one.subject.consumer_group, one.is_open) for one in newest_incidents(engine)] == [("a", True)]
    assert [one.mode for one in newest_judged(engine)] == [Mode.LIVE, Mode.HISTORY]


def test_a_replay_of_the_past_writes_a_row_and_no_message_however_young_it_is(engine: Engine) -> None:
    judge(engine, facts(5, group("a", 20_000)))
    before = (newest_incidents(engine), outbox.messages(engine))
    for minute in (3, 1, 4):
        report = judge(engine, facts(minute, group("b", 90_000)), late=(5 - minute) * MINUTE, replay=True)
        assert (report.mode, report.messages, report.opened) == (Mode.HISTORY, (), ())
    assert (newest_incidents(engine), outbox.messages(engine)) == before
    modes = [one.mode for one in newest_judged(engine)]
    assert modes == [Mode.LIVE, *[Mode.HISTORY] * 3]


def test_a_replay_does_not_take_the_place_of_the_judgement_that_is_still_to_come(engine: Engine) -> None:
    """A backfill may be at a minute before that minute's own run is: people must still be told."""
    assert judge(engine, facts(0, group("a", 20_000)), replay=True).messages == ()
    assert newest_judged(engine) == []
    assert judge(engine, facts(0, group("a", 20_000))).messages


def test_a_replay_tells_what_is_newer_than_all_that_was_judged_when_asked_to_and_says_that_it_is_late(
    engine: Engine,
) -> None:
    judge(engine, facts(1))
    past = judge(engine, facts(0, group("a", 20_000)), replay=True, notify_late=True)
    assert (past.mode, past.messages, past.opened) == (Mode.HISTORY, (), ())
    (message,) = judge(engine, facts(2, group("a", 20_000)), replay=True, notify_late=True).messages
    assert (message.view.reason, message.view.late) == (NotificationReason.FIRST, True)
    assert judge(engine, facts(3, group("a", 20_000))).messages == (), "it was told"


def test_a_dry_run_says_what_would_be_told_and_writes_nothing(engine: Engine) -> None:
    report = judge(engine, facts(0, group("a", 20_000)), dry_run=True)
    assert told(report) == [("operations@example.org", "operations", NotificationReason.FIRST)]
    assert (newest_incidents(engine), outbox.messages(engine)) == ([], [])
    assert newest_judged(engine) == []
    assert judge(engine, facts(0, group("a", 20_000))).messages == report.messages


def test_a_group_pattern_judges_only_its_groups_and_resolves_no_others(engine: Engine) -> None:
    judge(engine, facts(0, group("a", 20_000), group("b", 30_000)))
    judge(engine, facts(1, group("a", 0), group("b", 0)))
    healthy = facts(2, group("a", 0), group("b", 0), cluster_unseen=False)
    report = judge(engine, healthy, group_pattern="a*")
    assert [one.subject.consumer_group for one in report.resolved] == ["a"]
    (message,) = report.messages
    assert [incident.consumer_group for incident in message.view.firing] == ["b"]
    everything = judge(engine, healthy)
    assert not everything.already_judged
    assert [one.subject.consumer_group for one in everything.resolved] == ["b"]


def test_judgements_of_some_groups_and_then_of_all_count_the_interval_once(engine: Engine) -> None:
    """Two good looks end an incident; one interval is one look, however often it is judged."""
    judge(engine, facts(0, group("a", 20_000), group("b", 30_000)), group_pattern="a")
    report = judge(engine, facts(0, group("a", 20_000), group("b", 30_000)))
    assert [one.subject.consumer_group for one in report.opened] == ["b"]
    assert {one.subject.consumer_group: one.seen_count for one in newest_incidents(engine)} == {"a": 1, "b": 1}
    for pattern in ("a", "a*", None):
        judge(engine, facts(1, group("a", 0), group("b", 30_000)), group_pattern=pattern)
    assert {one.subject.consumer_group: one.good_count for one in newest_incidents(engine)} == {"a": 1, "b": 0}


def test_a_minute_that_was_judged_ahead_does_not_outrank_the_present(engine: Engine) -> None:
    """A host whose clock was an hour ahead judged minute 60, and found trouble; then its clock was set right."""
    judge(engine, facts(60, group("somebody", 20_000)))
    first, *_, over, _ = [judge(engine, facts(n, group("somebody", 50_000 if n < 3 else 0))) for n in range(6)]
    assert first.mode is Mode.LIVE
    assert not first.already_judged
    assert newest_judged(engine)[0].mode is Mode.AHEAD
    (incident,) = newest_incidents(engine)
    assert (incident.peak, incident.seen_count) == (50_000, 4)
    assert incident.resolved_at == over.interval.start, "its end is seen, not an hour later"
    (again,) = told(judge(engine, facts(6, group("somebody", 20_000))))
    assert again[2] is NotificationReason.FIRST


def test_the_minute_itself_is_judged_when_it_comes(engine: Engine) -> None:
    judge(engine, facts(3, group("somebody", 0)))
    for minute in range(3):
        judge(engine, facts(minute, group("somebody", 0)), late=timedelta(seconds=-50))
    report = judge(engine, facts(3, group("somebody", 20_000)))
    assert not report.already_judged
    assert len(report.opened) == 1
