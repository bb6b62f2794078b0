"""What a judged message holds, and who gets it: evidence, links, what explains it and could not be told; no info."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.catalogue.text import Language
from offsetguard.config import Team
from offsetguard.decide.message_views import MessageContext, message_view
from offsetguard.decide.outlooks import Outlooks
from offsetguard.deliver.messages.slack import render_slack
from offsetguard.facts.interval import TrafficHour
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.judge.registry import RULES, rule_title
from offsetguard.model.digest import digest
from offsetguard.model.incident import Incident, Kind, NamedChange
from offsetguard.model.notification import GroupKey
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import Basis, Forecast, QueueVerdict, Severity, State
from offsetguard.model.views import NotificationReason
from offsetguard.store import changes, outbox
from offsetguard.store.database import writing
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard_peers.cases.messages import mail_of
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import MINUTE, START, a_queue, an_incident, config, facts, group, judge, told


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


def test_a_robot_is_given_those_whom_the_team_that_it_reaches_wants_called(engine: Engine) -> None:
    given = config()
    teams = {
        name: Team.model_validate(
            {**team.model_dump(), "dingtalk": ["chat"], "dingtalk_mentions": ["13800000000"], "wecom": ["night"]}
        )
        for name, team in given.teams.items()
    }
    report = judge(
        engine, facts(0, group("billing", 20_000, old=True)), config=given.model_copy(update={"teams": teams})
    )
    called = {message.channel: message.view.mentions for message in report.messages}
    assert called == {"dingtalk": ("13800000000",), "wecom": (), "mail": (), "slack": ()}


def a_stage(rule_id: str, group: str) -> Incident:
    """Return an incident of an offline group that stands in the words of a rule by now."""
    opened = an_incident("consumer_offline", incident_id=group, consumer_group=group)
    return replace(opened, evidence=replace(opened.evidence, rule_id=rule_id))


OFFLINE, LOST, MOVED = (
    a_stage("consumer_offline", "billing"),
    a_stage("messages_lost", "stock"),
    a_stage("messages_lost", "mailer"),
)
GRAVE = replace(LOST, evidence=replace(LOST.evidence, severity=Severity.CRITICAL))


@pytest.mark.parametrize(
    ("firing", "resolved", "language", "title", "rule_id"),
    [
        ([OFFLINE], [], "en", "consumers are offline", "consumer_offline"),
        ([LOST, MOVED], [], "en", "messages were lost", "messages_lost"),
        ([LOST, MOVED], [], "zh", "消息丢失", "messages_lost"),
        ([GRAVE, OFFLINE], [], "en", "messages were lost, and other troubles", "messages_lost"),
        ([GRAVE, OFFLINE], [], "zh", "消息丢失，以及其他问题", "messages_lost"),
        ([OFFLINE], [LOST], "en", "consumers are offline", "consumer_offline"),
        ([], [LOST, MOVED], "en", "messages were lost", "messages_lost"),
        ([], [], "en", "consumers are offline", "consumer_offline"),  # housekeeping removed what ended
    ],
)
def test_a_title_is_true_of_what_is_listed_whatever_opened_it(
    firing: list[Incident], resolved: list[Incident], language: str, title: str, rule_id: str
) -> None:
    view = message_view(
        GroupKey("operations", "demo", "consumer_offline"),
        firing=firing,
        resolved=[(one, None) for one in resolved],
        reason=NotificationReason.REPEAT,
        interval_start=START,
        thread_key="thread",
        config=config(),
        context=MessageContext(language=language),
    )
    assert (view.title, view.rule_id) == (title, rule_id)
    assert mail_of(view).message["Subject"].endswith(f" · {title}")
    assert digest([view], thread_key="thread").sections[0].title == title
    if len(firing) > 1:
        assert title in render_slack(view, idempotency_key="key").text
    own = {"stock": LOST, "mailer": LOST, "billing": OFFLINE}
    for one in (*view.firing, *view.resolved):
        assert one.title == rule_title(own[one.consumer_group or ""].shown_by, Language(language))


def test_what_changed_in_the_hour_before_stands_in_the_message_and_in_the_incident(engine: Engine) -> None:
    def joined(who: str, at: datetime, **whose: str) -> NamedChange:
        return NamedChange(at, Sentence("changed_joined", came=who, count=2), Kind.MEMBERS, **whose)

    found = [
        joined("x@1", START, consumer_group="billing"),
        joined("y@1", START - 59 * MINUTE, topic="orders"),
        joined("long before", START - 61 * MINUTE, consumer_group="billing"),
        joined("of another", START, consumer_group="audit"),
    ]
    with writing(engine) as session:
        changes.replace(session, "demo", START, found, None)
    report = judge(engine, facts(0, group("billing", 20_000)))
    told = [(START, "x@1 joined: 2 clients online"), (START - 59 * MINUTE, "y@1 joined: 2 clients online")]
    (incident,) = newest_incidents(engine)
    assert [(one.at, one.what) for one in incident.changes] == told
    (shown,) = {message.view.firing[0].changes for message in report.messages}
    assert [what in line for line, (_, what) in zip(shown, told, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("name", "team"),
    [
        pytest.param("somebody", "operations", id="nobody owns the group"),
        pytest.param("quiet", "nobody", id="its team has no receivers"),
    ],
)
def test_the_default_team_hears_of_what_nobody_else_would(engine: Engine, name: str, team: str) -> None:
    report = judge(engine, facts(0, group(name, 20_000)))
    assert told(report) == [("operations@example.org", team, NotificationReason.FIRST)]


def test_many_groups_of_one_team_give_one_message_worst_first(engine: Engine) -> None:
    judge(engine, facts(0, group("b", 50_000, old=True)))
    report = judge(engine, facts(1, group("a", 20_000, old=True), group("b", 50_000, old=True), group("c", 90_000)))
    (message,) = report.messages
    assert [incident.consumer_group for incident in message.view.firing] == ["b", "a", "c"]


def test_trouble_that_ends_is_told_with_the_worst_of_it_and_how_long_it_lasted(engine: Engine) -> None:
    judge(engine, facts(0, group("somebody", 90_000)))
    (repeat,) = judge(engine, facts(1, group("somebody", 20_000)), config=config(repeat_interval_ms=1)).messages
    assert (repeat.view.firing[0].peak, repeat.view.firing[0].seen_count) == ("lag 90,000", 2)
    judge(engine, facts(2, group("somebody", 5)))
    (last,) = judge(engine, facts(3, group("somebody", 5))).messages
    (ended,) = last.view.resolved
    assert (ended.resolution, ended.peak) == ("recovered: clients are online, or nothing waits any more", "lag 90,000")
    seen_at = START + MINUTE  # a minute's facts hold at its end: nobody saw it at its start
    assert (ended.opened_at, ended.resolved_at) == (seen_at, seen_at + 2 * MINUTE)


def test_since_is_the_events_own_moment_where_its_rule_knows_it() -> None:
    refused_at = START + timedelta(seconds=17)
    stall = an_incident("lock_not_released")
    known = replace(stall, evidence=replace(stall.evidence, figures={"first_refused_at": refused_at}))
    assert IncidentWords(known).began_at == refused_at
    assert IncidentWords(stall).began_at is None, "not known: it was only seen"
    for rule in RULES.values():
        assert rule.began is None or rule.began in {*rule.table, *rule.named_figures}, rule.id


@pytest.mark.parametrize("told", ["loss", "drain", None])
def test_what_lies_ahead_stands_beside_a_finding_that_does_not_tell_it_itself(told: str | None) -> None:
    """A queue of billing is drained in 10 to 20 s, and else loses its first message in 5 to 10."""
    ahead = {"drain": (10_000, 20_000), "loss": (5_000, 10_000)}
    drain, loss = Forecast(*ahead["drain"], Basis.CONSUME_RATE), Forecast(*ahead["loss"], Basis.DISK)
    verdict = QueueVerdict(State.OK, "x", "x", effective_lag=9, lag_ms=3_600_000, drain=drain, loss=loss)
    queue = a_queue("billing", MessageQueue("orders", "broker-a", 0), QueueOffsets(0, 9, 0))
    incident = an_incident()
    figures = {f"{told}_low_ms": 1} if told else {}
    view = message_view(
        GroupKey("operations", "demo", "accumulation"),
        firing=[replace(incident, evidence=replace(incident.evidence, figures=figures))],
        resolved=[],
        reason=NotificationReason.FIRST,
        interval_start=START,
        thread_key="thread",
        config=config(),
        context=MessageContext(outlooks=Outlooks(facts(0, queues=(replace(queue, verdict=verdict),)))),
    )
    (shown,) = view.firing
    assert {"drain": shown.drain_ms, "loss": shown.loss_ms} == {**ahead, **({told: None} if told else {})}


def test_evidence_is_capped_and_counted_and_queues_with_equal_figures_are_one_line(engine: Engine) -> None:
    queues = tuple(
        a_queue("a", MessageQueue("orders", "broker-a", n), QueueOffsets(0, 1_000 + n // 29, 0)) for n in range(30)
    )
    (message,) = judge(engine, facts(0, group("a", 30_000), queues=queues)).messages
    (incident,) = message.view.firing
    worst, others = incident.queues
    assert (worst.queue_id, worst.alike_count, others.alike_count, incident.queue_count) == (29, 0, 18, 30)
    for text in (
        mail_of(message.view).text,
        json.dumps(render_slack(message.view, idempotency_key="1", in_threads=False).blocks),
    ):
        assert "19 queues, each" in text
        assert "and 10 more queues" in text


@pytest.mark.parametrize("page_url", ["http://airflow.example.org:8080", "http://airflow.example.org:8080/"])
def test_a_message_links_the_pages_of_incident_and_group_and_the_clusters_data_docs(
    engine: Engine, page_url: str
) -> None:
    (message,) = judge(engine, facts(0, group("a b&c", 20_000)), config=config(page_url=page_url)).messages
    ours = "http://airflow.example.org:8080/offsetguard"
    assert message.view.data_docs_url == f"{ours}/data-docs/demo/index.html"
    (told,) = message.view.firing
    assert told.incident_url == f"{ours}/incidents/{told.incident_id}"
    assert told.group_url == f"{ours}/fleet/group?cluster=demo&consumer_group=a%20b%26c"


def test_without_an_address_of_airflow_a_message_links_nothing(engine: Engine) -> None:
    (message,) = judge(engine, facts(0, group("a", 20_000))).messages
    assert {getattr(message.view.firing[0], f"{name}_url") for name in ("incident", "group", "silence")} == {None}


SURGE = TrafficHour("orders", START, hour_tps=500.0, usual_tps=100.0, usual_spread_tps=5.0, week_count=4)


def slave(**figures: Any) -> BrokerFacts:
    """Give a slave that lacks 3 GB, beside a master that writes nothing."""
    told = {"answered": True, "clock_ahead_ms": 0, "page_cache_lock_time_ms": 0, **figures}
    return BrokerFacts(broker_name="broker-a", broker_id=1, listed=True, slave_behind_bytes=3_000_000_000, **told)


def test_what_is_only_info_is_kept_as_history_and_told_to_nobody(engine: Engine) -> None:
    report = judge(engine, facts(0, traffic_hours=(SURGE,)))
    assert [(one.rule.id, one.severity.value) for one in report.findings] == [("traffic_surge", "info")]
    assert (len(report.opened), report.messages, report.decisions) == (1, (), ())
    assert [one.subject.rule_id for one in newest_incidents(engine)] == ["traffic_surge"]
    ended = judge(engine, facts(70))
    assert ([one.subject.rule_id for one in ended.resolved], ended.messages) == (["traffic_surge"], ())


def test_trouble_that_turned_harmless_is_not_told_as_over_before_it_is(engine: Engine) -> None:
    (first,) = judge(engine, facts(0, brokers=(slave(),))).messages
    for minute in (1, 2):
        quiet = judge(engine, facts(minute, brokers=(slave(boot_at=START),)))
        assert [(one.decision.reason.value, one.muted_count) for one in quiet.decisions] == [("needs_nobody", 1)]
    assert judge(engine, facts(3, brokers=(slave(),))).messages == (), "it is as it was told"
    judge(engine, facts(4, brokers=(slave(boot_at=START),)))
    well = replace(slave(boot_at=START), slave_behind_bytes=0)
    assert judge(engine, facts(5, brokers=(well,))).messages == ()
    (over,) = judge(engine, facts(6, brokers=(well,))).messages
    assert (first.view.thread_key, over.view.reason) == (over.view.thread_key, NotificationReason.ALL_RESOLVED)
    assert [one.resolution for one in over.view.resolved] == ["the slaves have caught up"]
    assert [one.muted_when_resolved for one in over.view.resolved] == [None]


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
    goes_on = {one.subject.rule_id: one.seen_count for one in newest_incidents(engine)}
    assert goes_on == {"broker_unreachable": 1, "slave_behind": 2}, "what is explained has not recovered"
    judge(engine, facts(2))
    over = judge(engine, facts(3))
    assert {one.subject.rule_id for one in over.resolved} == {"broker_unreachable", "slave_behind"}


def test_what_a_round_shows_was_seen_when_that_was_read_and_never_lies_ahead(engine: Engine) -> None:
    """A round is read as its minute begins: its end is still to come when a message about it is read."""
    for minute, waiting in enumerate((20_000, 20_000, 0, 0)):
        read_at = START + minute * MINUTE + timedelta(seconds=7)
        found = replace(facts(minute, group("billing", waiting, old=True)), now=read_at)
        report = judge(engine, found, late=timedelta(seconds=-40))
        for view in (message.view for message in report.messages):
            for shown in (*view.firing, *view.resolved):
                ended = START + 2 * MINUTE + timedelta(seconds=7) if view.resolved else None
                assert (shown.opened_at, shown.resolved_at) == (START + timedelta(seconds=7), ended)
    (incident,) = newest_incidents(engine)
    assert (incident.first_seen_at, incident.newest_seen_at) == (
        START + timedelta(seconds=7),
        START + MINUTE + timedelta(seconds=7),
    )
    assert incident.ended_at == START + 2 * MINUTE + timedelta(seconds=7), "the look that the next one only confirmed"
