"""Judging an interval opens, repeats and resolves incidents and tells each receiver once, whatever is run again."""

from __future__ import annotations

import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from offsetguard.config import Config
from offsetguard.facts import BrokerFacts, CollectionGap, GroupFacts, IntervalFacts, QueueFacts, TrafficHour
from offsetguard.incidents.decision import NotificationReason
from offsetguard.intervals import Interval
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.pipeline.judge import JudgeReport, judge_interval
from offsetguard.store import incidents, judged_intervals, outbox
from offsetguard.store.judged_intervals import Mode

if TYPE_CHECKING:
    from sqlalchemy import Engine

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def config(**delivery: Any) -> Config:
    return Config.from_values(
        {
            "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
            "groups": [{"match": "billing*", "team": "billing"}, {"match": "quiet*", "team": "nobody"}],
            "teams": {
                "operations": {"mail": ["operations@example.org"]},
                "billing": {"mail": ["one@example.org", "two@example.org"], "slack": ["#billing"]},
                "nobody": {},
            },
            "default_team": "operations",
            "delivery": {"group_interval_ms": 1, **delivery},
        }
    )


def group(name: str, lag: int | None, *, old: bool = False, **more: Any) -> GroupFacts:
    """Give a group without clients: trouble when more than 10,000 messages wait, and critical when they are old."""
    fields: dict[str, Any] = {
        "topic": "orders",
        "topic_kind": "normal",
        "queue_count": 4,
        "unknown_queue_count": 0,
        "never_committed_queue_count": 0,
        "lag": lag,
        "effective_lag": lag,
        "inflight": None,
        "available": None,
        "lost": 0,
        "lag_ms": 600_000 if old else 0,
        "online_client_count": 0,
        "message_model": None,
        **more,
    }
    return GroupFacts(consumer_group=name, **fields)


def facts(minute: int, *groups: GroupFacts, **more: Any) -> IntervalFacts:
    interval = Interval(START + minute * MINUTE)
    return IntervalFacts("demo", interval, interval.end, groups=groups, **more)


def judge(engine: Engine, given: IntervalFacts, *, late: timedelta = timedelta(seconds=10), **more: Any) -> JudgeReport:
    settings = more.pop("config", None) or config()
    return judge_interval(engine, given, settings, now=given.interval.end + late, **more)


def told(report: JudgeReport) -> list[tuple[str, str, NotificationReason]]:
    return [(message.receiver, message.view.team, message.view.reason) for message in report.messages]


def everything(engine: Engine) -> tuple[object, ...]:
    return incidents.newest(engine), outbox.messages(engine), judged_intervals.newest(engine, cluster="demo")


def test_trouble_opens_an_incident_and_tells_every_receiver_of_the_team(engine: Engine) -> None:
    report = judge(engine, facts(0, group("billing", 20_000, old=True)))
    assert told(report) == [
        ("one@example.org", "billing", NotificationReason.FIRST),
        ("two@example.org", "billing", NotificationReason.FIRST),
        ("#billing", "billing", NotificationReason.FIRST),
    ]
    assert [row.receiver for row in reversed(outbox.messages(engine))] == [row[0] for row in told(report)]
    (view,) = {message.view.model_dump_json(): message.view for message in report.messages}.values()
    assert (view.title, view.severity, view.firing[0].peak) == ("consumers are offline", "critical", "lag 20,000")
    assert view.firing[0].summary == "billing is offline and 20,000 messages behind on orders"
    assert [(one.label, one.value) for one in view.firing[0].figures][:2] == [
        ("lag", "20,000"),
        ("oldest unconsumed", "10 min"),
    ]


def test_a_group_without_owner_is_heard_by_the_default_team(engine: Engine) -> None:
    report = judge(engine, facts(0, group("somebody", 20_000)))
    assert told(report) == [("operations@example.org", "operations", NotificationReason.FIRST)]


def test_a_team_without_receivers_is_heard_by_the_default_team(engine: Engine) -> None:
    report = judge(engine, facts(0, group("quiet", 20_000)))
    assert told(report) == [("operations@example.org", "nobody", NotificationReason.FIRST)]


def test_many_groups_of_one_team_give_one_message_worst_first(engine: Engine) -> None:
    report = judge(engine, facts(0, group("a", 20_000, old=True), group("b", 50_000, old=True), group("c", 90_000)))
    (message,) = report.messages
    assert [incident.consumer_group for incident in message.view.firing] == ["b", "a", "c"]


def test_judging_an_interval_again_changes_nothing_and_sends_nothing(engine: Engine) -> None:
    judge(engine, facts(0, group("billing", 20_000)))
    before = everything(engine)
    again = judge(engine, facts(0, group("billing", 20_000), group("another", 90_000)), late=2 * MINUTE)
    assert again.already_judged
    assert not again.messages
    assert (
        incidents.newest(engine),
        outbox.messages(engine),
        judged_intervals.newest(engine, cluster="demo"),
    ) == before


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
    assert len(incidents.newest(each_engine)) == 1


def test_trouble_that_goes_on_is_not_told_again_until_the_repeat_interval_has_passed(engine: Engine) -> None:
    settings = config(repeat_interval_ms=180_000)
    sent = [judge(engine, facts(n, group("somebody", 20_000 + n)), config=settings) for n in range(5)]
    reasons = [[reason for *_, reason in told(report)] for report in sent]
    assert reasons == [[NotificationReason.FIRST], [], [], [NotificationReason.REPEAT], []]
    (incident,) = incidents.newest(engine)
    assert (incident.seen_count, incident.peak, incident.opened_at) == (5, 20_004, START)


def test_what_is_told_again_is_the_worst_so_far(engine: Engine) -> None:
    settings = config(repeat_interval_ms=1)
    judge(engine, facts(0, group("somebody", 90_000)), config=settings)
    (message,) = judge(engine, facts(1, group("somebody", 20_000)), config=settings).messages
    assert (message.view.firing[0].peak, message.view.firing[0].seen_count) == ("lag 90,000", 2)


def test_trouble_that_ends_is_told_with_its_peak_and_duration_in_the_same_thread(engine: Engine) -> None:
    (first,) = judge(engine, facts(0, group("somebody", 20_000))).messages
    assert judge(engine, facts(1, group("somebody", 5))).messages == (), "one healthy look is no end"
    (last,) = judge(engine, facts(2, group("somebody", 5))).messages
    assert last.view.reason is NotificationReason.ALL_RESOLVED
    assert last.view.thread_key == first.view.thread_key
    (ended,) = last.view.resolved
    assert (ended.resolution, ended.peak) == ("recovered: clients are online, or nothing waits any more", "lag 20,000")
    assert (ended.opened_at, ended.resolved_at) == (START, START + 2 * MINUTE)
    assert judge(engine, facts(3, group("somebody", 5))).messages == ()


def test_trouble_that_comes_back_is_a_new_incident_in_a_new_thread(engine: Engine) -> None:
    (first,) = judge(engine, facts(0, group("somebody", 20_000))).messages
    for minute in (1, 2):
        judge(engine, facts(minute, group("somebody", 5)))
    (again,) = judge(engine, facts(3, group("somebody", 20_000))).messages
    assert again.view.reason is NotificationReason.FIRST
    assert again.view.thread_key != first.view.thread_key
    assert again.view.firing[0].incident_id != first.view.firing[0].incident_id


def test_without_resolve_notices_the_end_is_silent_and_the_next_spell_has_its_own_thread(engine: Engine) -> None:
    settings = config(send_resolved=False)
    (first,) = judge(engine, facts(0, group("somebody", 20_000)), config=settings).messages
    for minute in (1, 2):
        assert judge(engine, facts(minute, group("somebody", 5)), config=settings).messages == ()
    (again,) = judge(engine, facts(3, group("somebody", 20_000)), config=settings).messages
    assert again.view.resolved == ()
    assert again.view.thread_key != first.view.thread_key


def test_another_group_in_trouble_is_told_with_those_that_still_are(engine: Engine) -> None:
    judge(engine, facts(0, group("a", 20_000)))
    (message,) = judge(engine, facts(1, group("a", 20_000), group("b", 30_000))).messages
    assert message.view.reason is NotificationReason.NEW_FIRING
    assert [incident.consumer_group for incident in message.view.firing] == ["b", "a"]


def test_trouble_that_gets_worse_is_told_at_once_and_only_once(engine: Engine) -> None:
    """What waited a moment ago has grown old: the reader knows of the lag, not of that."""
    judge(engine, facts(0, group("a", 20_000)))
    (message,) = judge(engine, facts(1, group("a", 20_000, old=True))).messages
    assert (message.view.reason, message.view.severity) == (NotificationReason.WORSE, "critical")
    assert judge(engine, facts(2, group("a", 20_000))).messages == ()
    assert judge(engine, facts(3, group("a", 20_000, old=True))).messages == ()


def test_one_of_two_that_ended_is_told_while_the_other_goes_on(engine: Engine) -> None:
    judge(engine, facts(0, group("a", 20_000), group("b", 30_000)))
    judge(engine, facts(1, group("a", 20_000), group("b", 0)))
    (message,) = judge(engine, facts(2, group("a", 20_000), group("b", 0))).messages
    assert message.view.reason is NotificationReason.RESOLVED
    assert [incident.consumer_group for incident in message.view.resolved] == ["b"]
    assert judge(engine, facts(3, group("a", 20_000), group("b", 0))).messages == ()


def test_a_group_behind_a_broker_that_was_not_seen_is_unknown_and_not_resolved(engine: Engine) -> None:
    queue = QueueFacts("a", MessageQueue("orders", "broker-b", 3), QueueOffsets(0, 20_000, 0), None, None)
    judge(engine, facts(0, group("a", 20_000), queues=(queue,)))
    gap = CollectionGap("10.0.0.4:10911", "broker-b", 0, "GET_ALL_CONSUMER_OFFSET", "timed_out", "no answer in 3 s")
    hidden = facts(1, group("a", 0), gaps=(gap,), unseen_broker_names=frozenset({"broker-b"}))
    report = judge(engine, hidden)
    assert report.resolved == ()
    assert [(one.state, one.unknown_because) for one in report.changes.unknown] == [
        ("UNKNOWN", "broker-b gave no offsets")
    ]
    assert [message.view.rule_id for message in report.messages] == ["broker_unreachable"]
    judge(engine, facts(2, group("a", 0)))
    (resolved,) = (m for m in judge(engine, facts(3, group("a", 0))).messages if m.view.rule_id == "consumer_offline")
    assert resolved.view.reason is NotificationReason.ALL_RESOLVED


def test_an_interval_older_than_notify_within_is_recorded_and_sends_nothing(engine: Engine) -> None:
    report = judge(engine, facts(0, group("a", 20_000)), late=timedelta(minutes=15, milliseconds=1))
    assert (report.mode, len(report.opened), report.messages) == (Mode.LATE, 1, ())
    (message,) = judge(engine, facts(30, group("a", 20_000))).messages
    assert (message.view.reason, message.view.firing[0].opened_at) == (NotificationReason.FIRST, START)


def test_an_interval_exactly_as_old_as_notify_within_is_still_told(engine: Engine) -> None:
    assert judge(engine, facts(0, group("a", 20_000)), late=timedelta(minutes=15)).messages


def test_an_interval_older_than_the_newest_judged_one_changes_no_incident(engine: Engine) -> None:
    judge(engine, facts(5, group("a", 20_000)))
    report = judge(engine, facts(4, group("a", 0), group("b", 90_000)))
    assert (report.mode, report.messages) == (Mode.HISTORY, ())
    assert [(one.subject.consumer_group, one.is_open) for one in incidents.newest(engine)] == [("a", True)]
    assert [one.mode for one in judged_intervals.newest(engine, cluster="demo")] == [Mode.LIVE, Mode.HISTORY]


def test_a_replay_of_the_past_writes_a_row_and_no_message_however_young_it_is(engine: Engine) -> None:
    judge(engine, facts(5, group("a", 20_000)))
    before = (incidents.newest(engine), outbox.messages(engine))
    for minute in (3, 1, 4):
        report = judge(engine, facts(minute, group("b", 90_000)), replay=True)
        assert (report.mode, report.messages, report.opened) == (Mode.HISTORY, (), ())
    assert (incidents.newest(engine), outbox.messages(engine)) == before
    modes = [one.mode for one in judged_intervals.newest(engine, cluster="demo")]
    assert modes == [Mode.LIVE, *[Mode.HISTORY] * 3]


def test_a_replay_does_not_take_the_place_of_the_judgement_that_is_still_to_come(engine: Engine) -> None:
    """A backfill may be at a minute before that minute's own run is: people must still be told."""
    assert judge(engine, facts(0, group("a", 20_000)), replay=True).messages == ()
    assert judged_intervals.newest(engine, cluster="demo") == []
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
    assert (incidents.newest(engine), outbox.messages(engine)) == ([], [])
    assert judged_intervals.newest(engine, cluster="demo") == []
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


def test_a_judgement_of_some_groups_and_then_of_all_counts_the_interval_once(engine: Engine) -> None:
    judge(engine, facts(0, group("a", 20_000), group("b", 30_000)), group_pattern="a")
    report = judge(engine, facts(0, group("a", 20_000), group("b", 30_000)))
    assert [one.subject.consumer_group for one in report.opened] == ["b"]
    assert {one.subject.consumer_group: one.seen_count for one in incidents.newest(engine)} == {"a": 1, "b": 1}


def test_a_group_that_gets_another_owner_leaves_the_first_teams_list(engine: Engine) -> None:
    judge(engine, facts(0, group("somebody", 20_000)))
    settings = Config.from_values({**asdict(config()), "groups": [{"match": "somebody", "team": "billing"}]})
    report = judge(engine, facts(1, group("somebody", 20_000)), config=settings)
    by_team = {message.view.team: message.view for message in report.messages}
    assert by_team["billing"].reason is NotificationReason.FIRST
    assert by_team["operations"].resolved[0].resolution == "handed over to team billing"
    assert judge(engine, facts(2, group("somebody", 20_000)), config=settings).messages == ()


def test_evidence_is_capped_and_counted(engine: Engine) -> None:
    queues = tuple(
        QueueFacts("a", MessageQueue("orders", "broker-a", n), QueueOffsets(0, 1_000 + n, 0), None, None)
        for n in range(30)
    )
    (message,) = judge(engine, facts(0, group("a", 30_000), queues=queues)).messages
    (incident,) = message.view.firing
    assert (len(incident.queues), incident.queue_count, incident.queues[0].queue_id) == (20, 30, 29)


@pytest.mark.parametrize("page_url", ["http://airflow.example.org:8080", "http://airflow.example.org:8080/"])
def test_a_message_links_the_page_and_the_clusters_data_docs(engine: Engine, page_url: str) -> None:
    (message,) = judge(engine, facts(0, group("a", 20_000)), config=config(page_url=page_url)).messages
    assert message.view.data_docs_url == "http://airflow.example.org:8080/offsetguard/data-docs/demo/index.html"


SURGE = TrafficHour("orders", START, hour_tps=500.0, usual_tps=100.0, usual_spread_tps=5.0, week_count=4)


def slave(**figures: Any) -> BrokerFacts:
    """Give a slave that lacks 3 GB, beside a master that writes nothing."""
    told = {"answered": True, "clock_ahead_ms": 0, "page_cache_lock_time_ms": 0, **figures}
    return BrokerFacts("broker-a", 1, listed=True, slave_behind_bytes=3_000_000_000, **told)


def test_what_is_only_info_is_kept_as_history_and_told_to_nobody(engine: Engine) -> None:
    report = judge(engine, facts(0, traffic_hours=(SURGE,)))
    assert [(one.rule.id, one.severity.value) for one in report.findings] == [("traffic_surge", "info")]
    assert (len(report.opened), report.messages, report.decisions) == (1, (), ())
    assert [one.subject.rule_id for one in incidents.newest(engine)] == ["traffic_surge"]
    ended = judge(engine, facts(70))
    assert ([one.subject.rule_id for one in ended.resolved], ended.messages) == (["traffic_surge"], ())


def test_trouble_that_turned_harmless_is_told_as_over_and_as_new_when_it_turns_back(engine: Engine) -> None:
    (first,) = judge(engine, facts(0, brokers=(slave(),))).messages
    (over,) = judge(engine, facts(1, brokers=(slave(boot_at=START),))).messages
    assert (first.view.severity, over.view.reason) == ("warning", NotificationReason.ALL_RESOLVED)
    assert over.view.resolved[0].resolution == (
        "needs nobody any more: slave broker-a/1 was started lately and is 2.8 GiB behind"
    )
    assert judge(engine, facts(2, brokers=(slave(boot_at=START),))).messages == ()
    (back,) = judge(engine, facts(3, brokers=(slave(),))).messages
    assert back.view.reason is NotificationReason.FIRST
    assert back.view.firing[0].opened_at == START, "it never ended"


def test_a_message_names_what_could_not_be_told_of_its_brokers(engine: Engine) -> None:
    report = judge(engine, facts(0, brokers=(slave(page_cache_lock_time_ms=None),)))
    untold = "broker-a/1 did not tell how its store does"
    assert ("store_slow", untold) in [(one.rule_id, one.because) for one in report.cannot_tell]
    assert f"store_slow: {untold}" in report.messages[0].view.firing[0].cannot_tell


def test_a_message_names_what_its_finding_explains(engine: Engine) -> None:
    judge(engine, facts(0, brokers=(slave(),)))
    report = judge(engine, facts(1, brokers=(slave(),), unseen_broker_names=frozenset({"broker-a"})))
    (message,) = report.messages
    (shown,) = message.view.firing
    assert message.view.rule_id == "broker_unreachable"
    assert shown.explains == ("slave_behind: slave broker-a/1 is 2.8 GiB behind its master",)
    goes_on = {one.subject.rule_id: one.seen_count for one in incidents.newest(engine)}
    assert goes_on == {"broker_unreachable": 1, "slave_behind": 2}, "what is explained has not recovered"
    judge(engine, facts(2))
    over = judge(engine, facts(3))
    assert {one.subject.rule_id for one in over.resolved} == {"broker_unreachable", "slave_behind"}
