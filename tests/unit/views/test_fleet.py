"""The fleet shows who is in trouble, worst first, and how far the figures can be trusted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.store.incidents import OpenIncident
from offsetguard.tables import CLUSTER_FACTS, GROUP_FACTS, QUEUE_STATE
from offsetguard.views.fleet import (
    CLUSTERS,
    AboutFleet,
    Fleet,
    GroupFigures,
    GroupState,
    NewestFacts,
    Order,
    Said,
    Trust,
    Wanted,
    fleet,
    trust_in,
)
from offsetguard.views.listing import ROWS
from offsetguard.views.published import PublishedFacts
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse, minute

INTERVAL = Interval(minute(0))
NOW = INTERVAL.end + timedelta(seconds=38)


def facts_with(*groups: GroupFigures, **fields: Any) -> NewestFacts:
    """Return the newest facts of a cluster of which everything was seen."""
    return replace(NewestFacts(INTERVAL.end, (), False, 0, {}, groups, (), {}), **fields)


def line(group: str, lag: int | None = 0, **figures: Any) -> GroupFigures:
    return GroupFigures("main", group, 1, lag, **figures)


def incident(
    group: str | None, severity: Severity = Severity.WARNING, number: int = 1, *, rule: str = "offline"
) -> OpenIncident:
    return OpenIncident(f"{group}-{number}", "main", group, None, rule, severity)


def view_of(
    newest: Mapping[str, NewestFacts | None],
    *incidents: OpenIncident,
    brokers: Collection[str] = (),
    failed: str | None = None,
    ahead: bool = False,
    **asked: Any,
) -> Fleet:
    """`brokers`: what every incident is about; `failed`: what the last publication said that failed.

    `ahead`: the judge has gone through a minute that is not published.
    """
    about = AboutFleet(
        words_of=lambda ids: {one: Said(f"what {one} says", NOW, brokers, not ahead) for one in ids},
        why_late=lambda _cluster, _since: failed,
        lags_of=lambda _cluster: lambda group: (1, None, 3) if group == "billing" else (),
        judged_until=lambda _cluster: INTERVAL.end + timedelta(minutes=ahead),
        team_of=lambda _cluster, group: group[:1],
        teams=("b", "o"),
    )
    return fleet(newest, incidents, Wanted(**asked), NOW, about)


def names(view: Fleet) -> list[str]:
    return [one.consumer_group for one in view.groups]


def test_groups_in_trouble_come_first_and_say_what_their_worst_incident_says() -> None:
    facts = facts_with(
        line("calm", 900_000, lag_ms=9), line("warned", 5), line("burning", 1), line("late", 5, lag_ms=99)
    )
    told = (
        incident("warned"),
        incident("burning", Severity.WARNING),
        incident("burning", Severity.CRITICAL, number=2),
        incident(None, Severity.CRITICAL),
    )
    view = view_of({"main": facts}, *told)
    assert names(view) == ["burning", "warned", "late", "calm"]
    worst = view.groups[0]
    assert (worst.severity, worst.incident_count) == (Severity.CRITICAL, 2)
    assert worst.because == "what burning-2 says"
    assert view.open_incident_count == view.clusters[0].open_incident_count == 4


def test_a_group_that_left_the_facts_is_shown_as_long_as_something_is_open_about_it() -> None:
    (one,) = view_of({"main": facts_with()}, incident("deleted")).groups
    assert (one.consumer_group, one.topic_count, one.lag) == ("deleted", None, None)


@pytest.mark.parametrize(
    ("age", "trust"),
    [
        (timedelta(), Trust.FRESH),
        (timedelta(minutes=2, seconds=59), Trust.FRESH),
        (timedelta(minutes=3), Trust.LATE),
        (timedelta(minutes=5, seconds=59), Trust.LATE),
        (timedelta(minutes=6), Trust.OLD),
        (timedelta(days=2), Trust.OLD),
        (-timedelta(seconds=30), Trust.FRESH),
    ],
)
def test_facts_are_late_after_two_missed_minutes_and_old_after_five(age: timedelta, trust: Trust) -> None:
    assert trust_in(NOW - age, NOW) is trust


def test_what_was_not_seen_stands_beside_the_figures_of_its_cluster() -> None:
    facts = facts_with(unseen_broker_names=("broker-b",), gap_count=3, violated_invariants=("OG-Q01",))
    never, seen = view_of({"main": facts, "new": None}).clusters
    assert seen.unseen_broker_names == ("broker-b",)
    assert (seen.gap_count, seen.violated_invariants) == (3, ("OG-Q01",))
    assert (seen.age_ms, seen.next_at) == (38_000, INTERVAL.end + timedelta(minutes=1))
    assert (never.trust, never.group_count, never.lag) == (Trust.NONE, None, None)


def test_a_reader_sees_what_the_address_asks_for() -> None:
    newest = {
        "main": facts_with(*(line(f"Billing-{number:03}", number) for number in range(ROWS + 5)), line("orders", None)),
        "other": facts_with(GroupFigures("other", "billing")),
    }
    assert names(view_of(newest, search="BILL", cluster="other")) == ["billing"]
    assert names(view_of(newest, incident("orders"), state=GroupState.TROUBLE)) == ["orders"]
    last = view_of(newest, search="bill", cluster="main", order=Order.LAG, page=99)
    assert (last.asked.page, last.page_count, last.group_count) == (2, 2, ROWS + 5)
    assert names(last) == [f"Billing-{number:03}" for number in (4, 3, 2, 1, 0)]
    assert names(view_of(newest, order=Order.LAG, cluster="main", page=2))[-1] == "orders", "unknown is not zero"
    assert view_of(newest, cluster="main").cluster_names == ("main", "other")


WELL = {"unknown_queue_count": 0}


def test_only_a_group_that_was_seen_whole_and_lately_is_well() -> None:
    groups = (
        line("well", 0, **WELL),
        line("half", 0, unknown_queue_count=1),
        line("unseen", None, **WELL),
        line("on broker-b", 0, **WELL),
        line("trouble", 0, **WELL),
        line("informed", 7, online_client_count=0, **WELL),
        line("left", 7, online_client_count=0, **WELL),
        line("behind", 7, online_client_count=1, **WELL),
    )
    facts = facts_with(*groups, unseen_of={"on broker-b": ("broker-b",)})
    view = view_of({"main": facts}, incident("trouble"), incident("informed", Severity.INFO))
    assert [(one.consumer_group, one.state.value) for one in view.groups] == [
        ("trouble", "trouble"),
        *((name, "unknown") for name in ("left", "half", "on broker-b", "unseen")),
        ("behind", "ok"),
        ("informed", "ok"),
        ("well", "ok"),
    ]
    assert view.groups[-2].because == "what informed-1 says", "it is shown, and troubles nobody"
    unknown = names(view_of({"main": facts}, incident("trouble"), state="unknown"))
    assert unknown == ["informed", "left", "half", "on broker-b", "unseen"], "nothing is said of informed now"
    (cluster,) = view.clusters
    assert (cluster.group_count, cluster.trouble_group_count, cluster.unknown_group_count) == (8, 1, 4)
    old = replace(facts, facts_of=NOW - timedelta(minutes=9))
    assert names(view_of({"main": old}, state=GroupState.OK)) == [], "nobody has seen it lately"


def test_what_is_wrong_with_a_cluster_names_the_groups_that_are_unknown_because_of_it() -> None:
    behind = {f"group-{number}": ("broker-b",) for number in range(7)} | {"other": ("broker-c",)}
    facts = facts_with(unseen_broker_names=("broker-b", "broker-c"), unseen_of=behind)
    told = (incident("billing"), incident(None), incident(None, Severity.CRITICAL, number=2))
    view = view_of({"main": facts}, *told, brokers=("broker-b",))
    assert [(one.incident_id, one.severity) for one in view.troubles] == [
        ("None-2", Severity.CRITICAL),
        ("None-1", Severity.WARNING),
    ]
    assert view.trouble_count == 2
    worst = view.troubles[0]
    assert (worst.because, worst.opened_at, worst.unknown_group_count) == ("what None-2 says", NOW, 7)
    assert worst.unknown_groups == tuple(f"group-{number}" for number in range(5))


def test_what_the_judge_knows_that_is_not_published_is_marked() -> None:
    facts = facts_with(line("billing", **WELL), until=INTERVAL.end)
    told = (incident("billing"), incident(None))
    published, ahead = (view_of({"main": facts}, *told, ahead=one) for one in (False, True))
    assert [one.judged_until for one in (*published.clusters, *ahead.clusters)] == [
        None,
        INTERVAL.end + timedelta(minutes=1),
    ]
    for view, audited in ((published, True), (ahead, False)):
        assert (view.groups[0].audited, view.troubles[0].audited) == (audited, audited)
    assert (view_of({"main": facts}).groups[0].lags, view_of({"new": None}, ahead=True).clusters[0].judged_until) == (
        (1, None, 3),
        None,
    )


def test_clusters_stand_worst_first_on_pages_and_say_why_their_facts_are_late() -> None:
    well, late = facts_with(), facts_with(facts_of=NOW - timedelta(minutes=4))
    newest = {f"edge-{number:02}": well for number in range(CLUSTERS)} | {"late": late, "main": well, "new": None}
    view = view_of(newest, incident("billing"), failed="disk is full")
    assert [(one.cluster, one.late_because) for one in view.clusters[:4]] == [
        *(("new", None), ("main", None), ("late", "disk is full"), ("edge-00", None))
    ]
    assert (view.cluster_count, view.cluster_page_count) == (CLUSTERS + 3, 2)
    assert [one.cluster for one in view_of(newest, incident("billing"), clusters_page=9).clusters] == [
        f"edge-{number:02}" for number in range(CLUSTERS - 3, CLUSTERS)
    ]


def test_groups_are_found_by_team_severity_and_rule_of_any_of_their_incidents_and_sorted_both_ways() -> None:
    facts = facts_with(line("billing", 3), line("orders", 5), line("other", None))
    told = (incident("billing"), incident("billing", Severity.CRITICAL, 2, rule="falls"), incident("orders"))
    for asked, found in (
        ({"team": "b"}, ["billing"]),
        ({"severity": "warning"}, ["billing", "orders"]),
        ({"rule": "falls"}, ["billing"]),
        ({"rule": "falls", "team": "o"}, []),
        ({"order": "lag"}, ["orders", "billing", "other"]),
        ({"order": "lag", "reverse": True}, ["billing", "orders", "other"]),
        ({"order": "group", "reverse": True}, ["other", "orders", "billing"]),
        ({"order": "team"}, ["billing", "orders", "other"]),
        ({"order": "worst", "reverse": True}, ["other", "orders", "billing"]),
    ):
        assert names(view_of({"main": facts}, *told, **asked)) == found, asked
    view = view_of({"main": facts}, *told)
    assert [one.team for one in view.groups] == ["b", "o", "o"]
    assert (view.teams, view.rules) == (("b", "o"), ("falls", "offline"))


@given(st.lists(st.tuples(st.text(max_size=3), st.none() | st.integers(0, 9)), unique_by=lambda one: one[0]), st.data())
def test_every_group_is_on_exactly_one_page_in_whatever_order(
    groups: list[tuple[str, int | None]], data: st.DataObject
) -> None:
    facts, order = facts_with(*(line(name, lag) for name, lag in groups)), data.draw(st.sampled_from(Order))
    first = view_of({"main": facts}, order=order)
    pages = [view_of({"main": facts}, order=order, page=number + 1) for number in range(first.page_count)]
    assert sorted(name for page in pages for name in names(page)) == sorted(name for name, _ in groups)


def test_published_facts_become_lines_summed_over_topics_and_are_read_once(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, CLUSTER_FACTS, QUEUE_STATE)
    figures = {"effective_lag": 10, "beyond_end": 3, "lag_ms": 500, "produce_tps": 2.0, "unknown_queue_count": 0}
    unknown = {"effective_lag": None, "lag_ms": None, "produce_tps": None, "unknown_queue_count": 4}
    rows = [
        {"consumer_group": "billing", "topic": "orders", "online_client_count": 2, **figures},
        {"consumer_group": "billing", "topic": "%RETRY%billing", "online_client_count": 2, **figures, "lag_ms": 900},
        {"consumer_group": "half", "topic": "orders", **figures},
        {"consumer_group": "half", "topic": "payments", **unknown},
        {"consumer_group": "unseen", "topic": "orders", **unknown},
        {"consumer_group": "TOOLS_CONSUMER", "topic": "orders", "system_group": True, **figures},
    ]
    manifest = manifest_of(INTERVAL, unseen_broker_names=("broker-b",)).to_json()
    state = {"topic": "orders", "interval_start": minute(-60)}  # as it was when the broker was seen last
    states = [
        {**state, "consumer_group": group, "broker_name": broker, "queue_id": queue}
        for group, broker in (("billing", "broker-b"), ("billing", "broker-a"), ("half", "broker-a"))
        for queue in range(2)
    ]
    warehouse.publish("main", Interval(minute(-60)), {GROUP_FACTS: [], CLUSTER_FACTS: []}, manifest_json=manifest)
    cluster_facts = [{"effective_lag": 40, "beyond_end": 12, "put_tps": 7.5}]
    tables = {GROUP_FACTS: rows, CLUSTER_FACTS: cluster_facts, QUEUE_STATE: states}
    warehouse.publish("main", INTERVAL, tables, manifest_json=manifest)
    published = PublishedFacts(warehouse.workspace, warehouse.engine)
    newest = published.newest(["main", "configured"])
    assert newest["configured"] is None
    facts = newest["main"]
    assert facts is not None
    assert (facts.figures["put_tps"], facts.unseen_broker_names) == (7.5, ("broker-b",))
    assert facts.unseen_of == {"billing": ("broker-b",)}
    by_name = {one.consumer_group: one for one in facts.groups}
    assert sorted(by_name) == ["billing", "half", "unseen"]
    billing = by_name["billing"]
    assert (billing.lag, billing.lag_ms, billing.produce_tps, billing.topic_count) == (20, 900, 4.0, 2)
    assert billing.online_client_count == 2
    assert (billing.beyond_end, by_name["half"].beyond_end, by_name["unseen"].beyond_end) == (6, 3, None)
    (cluster,) = view_of({"main": facts}).clusters
    assert (cluster.lag, cluster.beyond_end) == (40, 12), "as published, and as on each other page"
    assert (by_name["half"].lag, by_name["half"].unknown_queue_count) == (10, 4)
    assert (by_name["unseen"].lag, by_name["unseen"].produce_tps) == (None, None), "unknown is never zero"

    assert published.newest([])["main"] is facts
    later = Interval(minute(1))
    warehouse.publish("main", later, {GROUP_FACTS: rows[:1], CLUSTER_FACTS: []}, manifest_json=manifest)
    fresh = published.newest([])["main"]
    assert fresh is not None
    assert (fresh.facts_of, len(fresh.groups), fresh.figures) == (INTERVAL.end, 1, {}), "as the manifest says"
