"""The list of incidents, and one of them with its timeline, its course and what was lost in its time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import Engine

from offsetguard.catalogue import Catalogue, Sentence, catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import UnknownName
from offsetguard.model.fact_records import ClientStacks, ThreadStack
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import (
    Channel,
    GroupKey,
    Matchers,
    NotificationKey,
    Notified,
    NotifiedIncident,
    Silence,
)
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents, notifications, outbox, silences
from offsetguard.store.database import database_time, writing
from offsetguard.tables import CLUSTER_FACTS, GROUP_FACTS, TOPIC_FACTS
from offsetguard.views.group import AskedGroup
from offsetguard.views.incident import EVENTS, AskedIncident, IncidentPage, lost_within, span_around
from offsetguard.views.incidents import IncidentList, WantedIncidents
from offsetguard.views.listing import ROWS
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Row, Warehouse, group_rows, minute

CONFIG = """
clusters: {main: {name_servers: ["127.0.0.1:9876"]}, other: {name_servers: ["127.0.0.1:9877"]}}
groups: [{match: "bill*", cluster: main, team: payments}]
teams: {operators: {mail: [operators@example.com]}, payments: {mail: [payments@example.com]}}
default_team: operators
delivery: {console_url: "https://console.example.com/{cluster}/{consumer_group}"}
"""
ENGLISH, CHINESE = catalogue(), catalogue(Locale(Language.ZH))
MINUTE = timedelta(minutes=1)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    made = Warehouse.in_folder(tmp_path, CLUSTER_FACTS, GROUP_FACTS, TOPIC_FACTS)
    made.workspace.config_file.write_text(CONFIG)
    return made


def save(engine: Engine, *known: Incident) -> None:
    with writing(engine) as session:
        incidents.save(session, known)


def listed(warehouse: Warehouse, words: Catalogue = ENGLISH, **wanted: object) -> IncidentList:
    return WorkspaceViews(warehouse.workspace, warehouse.engine).incidents(WantedIncidents(**wanted), words)  # type: ignore[arg-type]


def ids(view: IncidentList) -> list[str]:
    return [one.incident_id for one in view.incidents]


def shown(warehouse: Warehouse, incident: Incident, words: Catalogue = ENGLISH) -> IncidentPage:
    save(warehouse.engine, incident)
    page = WorkspaceViews(warehouse.workspace, warehouse.engine).incident(
        AskedIncident(incident_id=incident.incident_id), words
    )
    assert page is not None
    return page


def publish(warehouse: Warehouse, numbers: Collection[int], lost: dict[int, int]) -> None:
    for number in numbers:
        interval = Interval(minute(number))
        facts: list[Row] = [
            {"consumer_group": group, "topic": topic, "effective_lag": 10 * number, "lost": lost.get(number, 0)}
            for group, topic in (("billing", "orders"), ("billing", "payments"), ("other", "orders"))
        ]
        topics: list[Row] = [{"topic": "orders", "produce_tps": float(number)}]
        rows = {
            GROUP_FACTS: facts,
            TOPIC_FACTS: topics,
            CLUSTER_FACTS: [{"effective_lag": 99, "put_tps": float(number)}],
        }
        warehouse.publish("main", interval, rows, manifest_json=manifest_of(interval).to_json())


def test_open_incidents_come_before_past_ones_and_whatever_is_asked_for_holds_for_both(warehouse: Warehouse) -> None:
    over = {"resolved_at": minute(9), "resolution": "recovered"}
    save(
        warehouse.engine,
        an_incident(incident_id="a", cluster="main"),
        an_incident(incident_id="b", cluster="main", consumer_group="invoices", severity=Severity.CRITICAL),
        an_incident("broker_unreachable", incident_id="c", cluster="other", consumer_group=None, topic=None),
        an_incident(incident_id="d", cluster="main", **over),
        an_incident(incident_id="e", cluster="other", **over | {"resolved_at": minute(10)}),
    )
    view = listed(warehouse)
    assert (ids(view), view.open_count, view.past_count) == (["b", "a", "c", "e", "d"], 3, 2)
    assert (view.teams, view.clusters) == (("operators", "payments"), ("main", "other"))
    assert view.rules == ("accumulation", "broker_unreachable")
    assert {one.incident_id: one.team for one in view.incidents} == {
        **dict.fromkeys("ad", "payments"),
        **dict.fromkeys("bce", "operators"),
    }
    assert ids(listed(warehouse, team="payments")) == ["a", "d"]
    assert ids(listed(warehouse, team="operators", state="open")) == ["b", "c"]
    assert ids(listed(warehouse, state="past", cluster="main")) == ["d"]
    assert ids(listed(warehouse, severity="critical", search="INV")) == ["b"]
    assert ids(listed(warehouse, rule="broker_unreachable")) == ["c"]
    gone = listed(warehouse, team="gone", rule="gone")
    assert (ids(gone), gone.page_count) == ([], 1)
    assert "gone" in gone.teams, "a link of yesterday still says what it asks for"


def test_pages_go_on_from_what_is_open_to_what_is_over_and_end(warehouse: Warehouse) -> None:
    open_ones = [an_incident(incident_id=f"o{n:03}", consumer_group=f"g{n}") for n in range(ROWS + 30)]
    past = [
        an_incident(incident_id=f"p{n:03}", resolved_at=minute(0) - n * MINUTE, resolution="recovered")
        for n in range(ROWS)
    ]
    save(warehouse.engine, *open_ones, *past)
    pages = [listed(warehouse, page=number) for number in (1, 2, 3, 99)]
    assert [one.asked.page for one in pages] == [1, 2, 3, 3]
    assert {one.page_count for one in pages} == {3}
    assert [one for page in pages[:3] for one in ids(page)] == [one.incident_id for one in (*open_ones, *past)]


def test_an_incident_tells_its_story_in_the_words_of_its_reader(warehouse: Warehouse) -> None:
    engine = warehouse.engine
    incident = an_incident(incident_id="ab12", cluster="main", opened_at=minute(2))
    view = VIEW.model_copy(
        update={"firing": tuple(one.model_copy(update={"incident_id": "ab12"}) for one in VIEW.firing[:1])}
    )
    now = database_time(engine)
    with writing(engine) as session:
        incidents.save(session, [incident])
        muted = IncidentEvent(
            "ab12", minute(3), EventKind.MUTED, Sentence("muted_by_silence", author="li", comment="c")
        )
        incidents.record_events(session, [muted])
        silences.acknowledge(session, incident, author="anna", comment="restarting", now=now)
        silences.add(session, Silence(Matchers(cluster="main"), "li", "load", now, now + MINUTE, now))
        outbox.enqueue(session, idempotency_key="k", channel="mail", receiver="a@example.com", view=view, now=now)
    message = outbox.claim_next(engine, outbox.Lane("mail", "a@example.com"), now=now, claim_ms=60_000)
    assert message is not None
    outbox.mark_accepted(engine, message, accepted_at=now, receipt="<1@offsetguard>")
    page = shown(warehouse, incident)
    assert [(one.kind.value, one.by) for one in page.timeline] == [
        ("muted", None),
        ("acknowledged", "anna"),
        ("notified", None),
    ]
    assert page.timeline[-1].text == f"mail to a@example.com (team {view.team}): First message about this."
    assert page.timeline[-1].at == now
    assert (page.acknowledged_by, page.acknowledgement, page.is_silenced) == ("anna", "restarting", True)
    assert [one.matchers for one in page.silences] == [{"cluster": "main"}]
    assert page.console_url == "https://console.example.com/main/billing"
    chinese = [one.text for one in shown(warehouse, incident, CHINESE).timeline]
    assert chinese == ["li 设置的静默：c", "restarting", f"邮件 → a@example.com（团队 {view.team}）：首次通知。"]


def test_who_is_told_in_slack_leads_to_the_thread_and_so_does_the_group(warehouse: Warehouse) -> None:
    engine, now = warehouse.engine, database_time(warehouse.engine)
    incident = an_incident(incident_id="ab15", cluster="main")
    known = Notified(now, VIEW.thread_key, {"ab15": NotifiedIncident(Severity.WARNING, now, now)})
    group = GroupKey("payments", "main", incident.subject.rule_id)
    receivers: tuple[tuple[Channel, str], ...] = (("mail", "a@example.com"), ("slack", "#payments"))
    with writing(engine) as session:
        notifications.save(session, {NotificationKey(group, *one): known for one in receivers})
        for number, (channel, receiver) in enumerate((*receivers, receivers[1])):
            outbox.enqueue(
                session, idempotency_key=f"k{number}", channel=channel, receiver=receiver, view=VIEW, now=now
            )
    for number, (channel, receiver) in enumerate((*receivers, receivers[1])):
        message = outbox.claim_next(engine, outbox.Lane(channel, receiver), now=now, claim_ms=60_000)
        assert message is not None
        receipt = ("<1@offsetguard>", "C123 17.5", "C123 T0ACME 18.25 17.5")[number]  # a reply names its parent last
        outbox.mark_accepted(engine, message, accepted_at=now, receipt=receipt)
        if number == 1:
            (_, slack) = shown(warehouse, incident).recipients
            assert slack.thread_url == "https://slack.com/app_redirect?channel=C123&message=17.5", "the reader's own"
    thread = "https://slack.com/app_redirect?team=T0ACME&channel=C123&message=17.5"
    assert {one.channel: one.thread_url for one in shown(warehouse, incident).recipients} == {
        "mail": None,
        "slack": thread,
    }
    asked = AskedGroup(cluster="main", consumer_group="billing")
    (line,) = WorkspaceViews(warehouse.workspace, engine).group(asked, ENGLISH).open
    assert line.thread_urls == (thread,)


def test_beside_a_recipient_stands_why_it_was_not_reached_until_it_is(warehouse: Warehouse) -> None:
    engine, now = warehouse.engine, database_time(warehouse.engine)
    incident = an_incident(incident_id="ab16", cluster="main")
    group = GroupKey("payments", "main", incident.subject.rule_id)
    known = Notified(now, VIEW.thread_key, {"ab16": NotifiedIncident(Severity.WARNING, now, now)})
    with writing(engine) as session:
        notifications.save(session, {NotificationKey(group, "wecom", "night"): known})
        outbox.enqueue(session, idempotency_key="k", channel="wecom", receiver="night", view=VIEW, now=now)
    for why in ("the key is wrong or the robot was removed", None):
        message = outbox.claim_next(engine, outbox.Lane("wecom", "night"), now=now, claim_ms=60_000)
        assert message is not None
        if why is None:
            outbox.mark_accepted(engine, message, accepted_at=now, receipt="robot night")
        else:
            outbox.mark_retry(engine, message, next_attempt_at=now, error=why)
        assert [one.undelivered for one in shown(warehouse, incident).recipients] == [why]


def test_its_timeline_begins_with_the_event_itself_where_that_is_known(warehouse: Warehouse) -> None:
    incident = an_incident("topic_vanished", incident_id="ab14", cluster="main", opened_at=minute(2))
    seen = IncidentEvent("ab14", incident.first_seen_at, EventKind.OPENED, "critical: orders is gone")
    with writing(warehouse.engine) as session:
        incidents.record_events(session, [seen])
    assert [one.kind.value for one in shown(warehouse, incident).timeline] == ["opened"]
    known = replace(incident, evidence=replace(incident.evidence, figures={"gone_at": minute(1) + MINUTE / 2}))
    page = shown(warehouse, known)
    assert [(one.kind.value, one.at) for one in page.timeline] == [
        ("began", minute(1) + MINUTE / 2),
        ("opened", incident.first_seen_at),
    ]
    assert page.began_at == page.timeline[0].at


def test_an_incident_shows_what_the_threads_of_a_client_did(warehouse: Warehouse) -> None:
    incident = an_incident(incident_id="ab13", cluster="main", opened_at=minute(2))
    stacks = ClientStacks("a@1", minute(2), 8, stacks=(ThreadStack(8, "WAITING", ("com.acme.Orders.consume:42",)),))
    incident = replace(incident, evidence=replace(incident.evidence, stacks=stacks))
    said = [(one.said, one.frames) for one in shown(warehouse, incident).stacks]
    assert said[1:] == [("8 of 8 consume threads, waiting", ("com.acme.Orders.consume:42",))]
    assert [one.said for one in shown(warehouse, incident, CHINESE).stacks][1] == "8 个消费线程中的 8 个，等待中"


def test_of_a_long_story_the_newest_part_is_told(warehouse: Warehouse) -> None:
    incident = an_incident(incident_id="ab12", cluster="main")
    events = [IncidentEvent("ab12", minute(n), EventKind.MUTED, str(n)) for n in range(EVENTS + 1)]
    with writing(warehouse.engine) as session:
        incidents.record_events(session, events)
    page = shown(warehouse, incident)
    assert (page.has_earlier_events, len(page.timeline)) == (True, EVENTS)
    assert (page.timeline[0].text, page.timeline[-1].text) == ("1", str(EVENTS))


def test_its_course_is_of_its_group_in_its_topic_from_an_hour_before_to_an_hour_after(warehouse: Warehouse) -> None:
    publish(warehouse, range(5), {1: 100, 2: 250, 3: 0, 4: 40})
    over = an_incident(
        incident_id="a1", cluster="main", opened_at=minute(1), resolved_at=minute(4), resolution="recovered"
    )
    page = shown(warehouse, over)
    assert (page.since, page.until) == (minute(1) - 60 * MINUTE, minute(4) + 60 * MINUTE)
    lag = page.courses[0]
    assert (lag.figure, lag.greatest) == ("effective_lag", 40), "one topic's, not the sum of two"
    assert sum(one.last is not None for one in lag.points) == 5
    assert (page.lost, page.lost_is_least) == (250, False), "what was lost before and after it is not its"
    whole = shown(warehouse, an_incident(incident_id="a2", cluster="main", topic=None, opened_at=minute(1)))
    assert whole.courses[0].greatest == 80
    assert (whole.lost, whole.lost_is_least) == (580, True), "nothing was published since"
    of_topic = shown(warehouse, an_incident(incident_id="a3", cluster="main", consumer_group=None, opened_at=minute(1)))
    assert (of_topic.courses[0].figure, of_topic.courses[0].greatest, of_topic.lost) == ("produce_tps", 4.0, None)
    neither = an_incident(incident_id="a4", cluster="main", consumer_group=None, topic=None, opened_at=minute(2))
    found = {one.figure: one.greatest for one in shown(warehouse, neither).courses}
    assert found == {"effective_lag": 99, "put_tps": 4.0, "get_tps": None}, "of the whole cluster"


def test_facts_that_cannot_be_read_keep_nobody_from_the_incident(warehouse: Warehouse) -> None:
    publish(warehouse, (0,), {})
    warehouse.show(
        Interval(minute(1)),
        {GROUP_FACTS.name: 4711},
        cluster="main",
        manifest_json=manifest_of(Interval(minute(1))).to_json(),
    )
    for file in (warehouse.workspace.home).rglob("*.avro"):
        file.unlink()
    page = shown(warehouse, an_incident(incident_id="a1", cluster="main", opened_at=minute(0)))
    assert (page.courses, page.lost) == ((), None)
    assert "group_facts" in (page.unreadable or "")


def test_unknown_losses_are_not_zero() -> None:
    rows = group_rows(["billing"], range(4))
    none_seen = rows.set_column(rows.column_names.index("lost"), "lost", pa.array([0, 0, None, None], pa.int64()))
    assert lost_within(none_seen, minute(0), minute(2)) == (0, False)
    assert lost_within(none_seen, minute(0), minute(4)) == (None, True), "and not: at least 0"
    assert lost_within(rows, minute(0), minute(4)) == (None, False)
    assert lost_within(rows.drop_columns(["lost"]), minute(0), minute(4)) == (None, False)


@pytest.mark.parametrize(
    ("opened", "resolved", "known_until", "since", "until"),
    [
        (100, None, 160, 40, 160),
        (100, 130, 160, 40, 160),
        (100, 130, 500, 40, 190),
        (100, None, 50, 40, 101),
        (0, None, 60 * 24 * 90, 60 * 24 * 60, 60 * 24 * 90),
    ],
)
def test_a_course_is_as_long_as_its_incident_and_a_month_at_most(
    opened: int, resolved: int | None, known_until: int, since: int, until: int
) -> None:
    incident = replace(an_incident(opened_at=minute(opened)), resolved_at=at(resolved))
    assert span_around(incident, minute(known_until)) == (minute(since), minute(until))


def at(number: int | None) -> datetime | None:
    return None if number is None else minute(number)


def test_an_incident_that_concerns_nobody_yet_is_not_known(warehouse: Warehouse) -> None:
    save(warehouse.engine, an_incident(incident_id="a1", is_pending=True))
    with pytest.raises(UnknownName, match="nothing is known of incident 'a1'"):
        WorkspaceViews(warehouse.workspace, warehouse.engine).incident(AskedIncident(incident_id="a1"), ENGLISH)


def test_a_broken_configuration_hides_no_incident(warehouse: Warehouse) -> None:
    save(warehouse.engine, an_incident(incident_id="a1"))
    broken = Workspace(
        warehouse.workspace.home, warehouse.workspace.home / "none.yml", warehouse.workspace.database_url
    )
    view = WorkspaceViews(broken, warehouse.engine).incidents(WantedIncidents(), ENGLISH)
    assert [(one.incident_id, one.team) for one in view.incidents] == [("a1", None)]
