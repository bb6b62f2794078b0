"""Judging an interval opens, repeats and resolves incidents and tells each receiver once."""

from __future__ import annotations

from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.model.fact_records import CollectionGap
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.views import NotificationReason
from offsetguard.store import outbox
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import MINUTE, START, a_queue, config, facts, group, judge, told


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


def test_trouble_that_goes_on_is_not_told_again_until_the_repeat_interval_has_passed(engine: Engine) -> None:
    settings = config(repeat_interval_ms=180_000)
    sent = [judge(engine, facts(n, group("somebody", 20_000 + n)), config=settings) for n in range(5)]
    reasons = [[reason for *_, reason in told(report)] for report in sent]
    assert reasons == [[NotificationReason.FIRST], [], [], [NotificationReason.REPEAT], []]
    (incident,) = newest_incidents(engine)
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
    queue = a_queue("a", MessageQueue("orders", "broker-b", 3), QueueOffsets(0, 20_000, 0))
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


def test_a_group_that_gets_another_owner_leaves_the_first_teams_list(engine: Engine) -> None:
    judge(engine, facts(0, group("somebody", 20_000)))
    settings = Config.model_validate({**config().model_dump(), "groups": [{"match": "somebody", "team": "billing"}]})
    report = judge(engine, facts(1, group("somebody", 20_000)), config=settings)
    by_team = {message.view.team: message.view for message in report.messages}
    assert by_team["billing"].reason is NotificationReason.FIRST
    assert by_team["operations"].resolved[0].resolution == "handed over to team billing"
    assert judge(engine, facts(2, group("somebody", 20_000)), config=settings).messages == ()
