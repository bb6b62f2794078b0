"""One group's page, from published facts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from offsetguard.catalogue import Sentence, catalogue
from offsetguard.config.file import parse_config
from offsetguard.facts.changes import record_changes
from offsetguard.model.incident import Kind, NamedChange
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.store import changes
from offsetguard.store.changes import around
from offsetguard.store.database import reading, writing
from offsetguard.tables import BROKER_FACTS, CLIENT_SNAPSHOTS, GROUP_FACTS, QUEUE_FACTS, Table
from offsetguard.views.changes import AskedChanges
from offsetguard.views.course import WIDTH, AskedRange, Band, Span, plot_of
from offsetguard.views.fleet import Trust
from offsetguard.views.group import (
    QUEUES,
    AskedGroup,
    IncidentLine,
    QueueLine,
    group_courses,
    group_view,
    limit_lines,
    rebalances_of,
    unheld_queues,
    what_concerns,
)
from offsetguard.views.published import PublishedFacts
from offsetguard.views.queues import AskedQueues
from offsetguard.views.topic import AskedTopic
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse, minute

NOW = minute(6)
ASKED = AskedGroup(cluster="main", consumer_group="billing", span=Span.HALF_HOUR)


def published(tmp_path: Path, *minutes: int) -> PublishedFacts:
    """Publish minutes of `billing`, which reads two topics, and of another group."""
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, QUEUE_FACTS, CLIENT_SNAPSHOTS)
    for number in minutes:
        interval = Interval(minute(number))
        facts: list[dict[str, Any]] = [
            {"consumer_group": "billing", "topic": "orders", "effective_lag": 10 * number, "lag_ms": 700},
            {"consumer_group": "billing", "topic": "payments", "effective_lag": 1, "lag_ms": 900, "consume_tps": 3.0},
            {"consumer_group": "billing", "topic": "unseen"},
            {"consumer_group": "other", "topic": "orders", "effective_lag": 10**9},
        ]
        queues = [
            {"consumer_group": group, "topic": "orders", "broker_name": "broker-a", "queue_id": n, "lag_ms": n}
            | ({"holder_client_id": "10.0.0.1@1"} if n == 0 else {})
            for group in ("billing", "other")
            for n in range(QUEUES + 2)
        ]
        queues.append({"consumer_group": "billing", "topic": "unseen", "broker_name": "broker-b", "queue_id": 99})
        clients = [
            {"consumer_group": "billing", "client_id": "10.0.0.1@1", "broker_name": broker, **told}
            for broker, told in (("broker-a", {"held_queue_count": 4}), ("broker-b", {"client_address": "10.0.0.1:7"}))
        ]
        rows = {GROUP_FACTS: facts, QUEUE_FACTS: queues, CLIENT_SNAPSHOTS: clients}
        warehouse.publish("main", interval, rows, manifest_json=manifest_of(interval).to_json())
    return PublishedFacts(warehouse.workspace, warehouse.engine)


def line(number: int, severity: Severity, *, over: bool = False) -> IncidentLine:
    return IncidentLine(
        incident_id=f"i{number}",
        rule_id="accumulation",
        severity=severity,
        summary="",
        cause="",
        do_next="",
        commands=(),
        thread_urls=(),
        opened_at=minute(number),
        resolved_at=minute(number + 1) if over else None,
        resolution="recovered" if over else None,
        band=Band(x=0, width=1),
    )


def test_a_groups_page_has_its_course_its_topics_its_worst_queues_and_each_member_once(tmp_path: Path) -> None:
    facts = published(tmp_path, 0, 1, 2, 5)
    rows = facts.of_group(ASKED, NOW)
    told = [line(1, Severity.WARNING), line(2, Severity.CRITICAL)]
    told += [line(number, Severity.WARNING, over=True) for number in (3, 5, 4)]
    view = group_view(ASKED, rows, told, (), NOW, team="orders", limits=())
    lag, lag_ms, produced, consumed = view.courses
    shown = {one.at: one.last for one in lag.points if one.last is not None}
    assert shown == {minute(number): 10 * number + 1 for number in (0, 1, 2, 5)}, "two minutes were not published"
    assert (lag_ms.greatest, produced.greatest, consumed.greatest) == (900, None, 3.0)
    assert [(one.topic, one.effective_lag) for one in view.topics] == [
        ("unseen", None),
        ("payments", 1),
        ("orders", 50),
    ]
    worst = [99, *range(QUEUES + 1, 2, -1)]  # what is not known comes before what is young
    assert (view.queue_count, [one.queue_id for one in view.queues]) == (QUEUES + 3, worst)
    (member,) = view.members
    assert (member.lag, member.unknown_queue_count) == (0, 1), "it holds one of which nothing is known"
    assert (member.held_queue_count, member.client_address) == (4, "10.0.0.1:7"), (
        "of one client each broker knows a part"
    )
    assert [one.incident_id for one in view.open] == ["i2", "i1"]
    assert [one.incident_id for one in view.over] == ["i5", "i4", "i3"], "what ended last comes first"
    assert (view.trust, view.facts_of) == (Trust.FRESH, NOW)


def test_where_a_topic_was_not_read_the_groups_course_is_at_least_what_waits_in_the_others(tmp_path: Path) -> None:
    """In minute 1 the broker of `orders` is away, with 500 messages."""
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, QUEUE_FACTS, CLIENT_SNAPSHOTS)
    for number in range(3):
        orders = {"unknown_queue_count": 4} if number == 1 else {"effective_lag": 500}
        facts = [
            {"consumer_group": "billing", "topic": "orders", **orders},
            {"consumer_group": "billing", "topic": "payments", "effective_lag": 1},
            {"consumer_group": "billing", "topic": "never-committed"},
        ]
        interval = Interval(minute(number))
        warehouse.publish("main", interval, {GROUP_FACTS: facts}, manifest_json=manifest_of(interval).to_json())
    rows = PublishedFacts(warehouse.workspace, warehouse.engine).of_group(ASKED, minute(3))
    lag = group_view(ASKED, rows, (), (), minute(3), team=None, limits=()).courses[0]
    shown = [(one.last, one.at_least) for one in lag.points if minute(0) <= one.at < minute(3)]
    assert shown == [(501, False), (1, True), (501, False)]
    assert (lag.at_least_ms, lag.gap_count) == (lag.step_ms, 1), "before minute 0 nothing is known"
    assert len(plot_of(lag).at_least) == 1


def test_where_a_master_did_not_answer_the_queues_on_the_other_one_are_at_least_what_waits() -> None:
    """In minute 2 a second broker is added, which is silent in minute 3; of the other topic nothing has changed."""
    lies_on = {"orders": (1, 1, 2, 1, 2), "payments": (1, 1, 1, 1, 1)}
    rows = [
        {"interval_start": minute(at), "topic": topic, "unknown_queue_count": 0, "broker_count": count, "lag_ms": 1}
        | {"effective_lag": 100 * count, "produce_tps": 1.0, "consume_tps": 1.0}
        for topic, counts in lies_on.items()
        for at, count in enumerate(counts)
    ]
    lag = group_courses(pa.Table.from_pylist(rows), minute(0), minute(5))[0]
    shown = [(one.last, one.at_least) for one in lag.points]
    assert shown == [(200, False), (200, False), (300, False), (200, True), (300, False)]


def test_what_happened_to_brokers_of_its_members_or_queues_is_among_its_changes(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, BROKER_FACTS, GROUP_FACTS, QUEUE_FACTS, CLIENT_SNAPSHOTS)
    for number in range(5):
        booted = {name: minute(number) - timedelta(minutes=number % 2) for name in ("broker-a", "broker-b", "broker-c")}
        interval = Interval(minute(number))
        rows: dict[Table, list[dict[str, Any]]] = {
            BROKER_FACTS: [{"broker_name": name, "broker_id": 0, "boot_at": at} for name, at in booted.items()],
            GROUP_FACTS: [{"consumer_group": "billing", "topic": "orders"}],
            QUEUE_FACTS: [{"consumer_group": "billing", "topic": "orders", "broker_name": "broker-a", "queue_id": 0}],
            CLIENT_SNAPSHOTS: [{"consumer_group": "billing", "client_id": "x@1", "broker_name": "broker-b"}],
        }
        warehouse.publish("main", interval, rows, manifest_json=manifest_of(interval).to_json())
        record_changes(warehouse.reader(), warehouse.engine, "main", interval.start)
    about = what_concerns(ASKED, PublishedFacts(warehouse.workspace, warehouse.engine).of_group(ASKED, NOW))
    with reading(warehouse.engine) as session:
        told = [(one.at, str(one.what)) for one in around(session, "main", minute(0), NOW, about, limit=9)]
    assert told == [
        (minute(number), f"{broker}-0 was started") for number in (4, 2) for broker in ("broker-a", "broker-b")
    ]


def test_of_a_group_that_nobody_knows_nothing_is_made_up(tmp_path: Path) -> None:
    nobody = ASKED.model_copy(update={"consumer_group": "nobody"})
    for facts in (published(tmp_path / "some", 0), published(tmp_path / "none")):
        view = group_view(nobody, facts.of_group(nobody, NOW), (), (), NOW, team=None, limits=())
        assert (view.topics, view.members, view.queues, view.open) == ((), (), (), ())
        assert all(point.last is None for course in view.courses for point in course.points)


CONFIG = """\
clusters: {main: {name_servers: ["127.0.0.1:9876"]}}
teams: {operators: {mail: [operators@example.com]}}
default_team: operators
groups:
  - match: "bill*"
    max_lag_messages: 7
  - match: "*"
    max_lag_messages: 1
    max_lag_ms: 5
"""


def test_a_threshold_names_the_line_that_sets_it(tmp_path: Path) -> None:
    file = parse_config(tmp_path / "offsetguard.yml", CONFIG)
    found = {one.name: (one.value, one.match, one.file, one.line) for one in limit_lines(file, "main", "billing")}
    assert found["max_lag_messages"] == (7, "bill*", "offsetguard.yml", 6)
    assert found["max_lag_ms"] == (5, "*", "offsetguard.yml", 9)
    assert found["lag_floor"] == (1_000, None, None, None)


@pytest.mark.parametrize(
    ("minutes", "span"), [(0, "30m"), (30, "30m"), (31, "2h"), (300, "6h"), (3_000, "3d"), (90_000, "30d")]
)
def test_without_a_span_the_shortest_is_shown_that_has_what_is_known(minutes: int, span: str) -> None:
    asked = AskedGroup(cluster="main", consumer_group="billing")
    assert asked.filled(NOW - timedelta(minutes=minutes), NOW).span == span
    assert asked.filled(None, NOW).span == "6h", "nothing is known"
    assert asked.model_copy(update={"span": Span.WEEK}).filled(NOW, NOW).span == "7d"


def test_a_page_that_is_opened_without_a_span_has_no_empty_hours(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS)
    newest = Interval.containing(datetime.now(UTC) - timedelta(minutes=1))
    for ago in (20, 0):
        rows = {GROUP_FACTS: [{"consumer_group": "billing", "topic": "orders", "effective_lag": 1}]}
        warehouse.publish("main", Interval(newest.start - timedelta(minutes=ago)), rows)
    views = WorkspaceViews(warehouse.workspace, warehouse.engine)
    assert views.group(AskedGroup(cluster="main", consumer_group="billing"), catalogue()).asked.span is Span.HALF_HOUR
    assert views.queues(AskedQueues(cluster="main", consumer_group="billing")).asked.span is Span.HALF_HOUR
    assert views.topic(AskedTopic(cluster="main", topic="orders")).asked.span is Span.HALF_HOUR


def test_a_past_span_can_be_asked_for_and_is_the_same_whenever_it_is(tmp_path: Path) -> None:
    facts = published(tmp_path, *range(6))
    then = AskedGroup(cluster="main", consumer_group="billing", since=minute(1), until=minute(4))
    for now in (NOW, NOW + timedelta(days=2)):
        view = group_view(then.filled(minute(0), now), facts.of_group(then, now), (), (), now, team=None, limits=())
        assert (view.since, view.until) == (minute(1), minute(4))
        assert [(one.at, one.last) for one in view.courses[0].points] == [
            (minute(number), 10 * number + 1) for number in (1, 2, 3)
        ]
    ended = AskedGroup(cluster="main", consumer_group="billing", span=Span.HALF_HOUR, until=minute(4))
    assert ended.shown(NOW, NOW)[1:] == (minute(-26), minute(4))
    for since, until in ((4, 4), (4, 3), (-60 * 24 * 31, 0)):
        with pytest.raises(ValidationError):
            AskedGroup(cluster="main", consumer_group="billing", since=minute(since), until=minute(until))
    with pytest.raises(ValidationError, match="24h at most"):
        AskedQueues(cluster="main", consumer_group="billing", since=minute(0), until=minute(24 * 60 + 1))


def minutes_of_holders(*held: tuple[int | None, int, int]) -> pa.Table:
    """Return the history of two topics of 8 and 2 queues; of each minute the first one's holders, told and online."""
    rows = []
    for number, (of_orders, told, online) in enumerate(held):
        seen = {"interval_start": minute(number), "told_client_count": told, "online_client_count": online}
        seen |= {"unknown_queue_count": 0, "broker_count": 1}
        rows.append({**seen, "topic": "orders", "queue_count": 8, "held_queue_count": of_orders})
        rows.append({**seen, "topic": "payments", "queue_count": 2, "held_queue_count": 2})
    table = pa.Table.from_pylist(rows)
    return table.set_column(0, "interval_start", table["interval_start"].cast(pa.timestamp("us", "UTC")))


@pytest.mark.parametrize(
    ("offsets", "pieces", "committed"),
    [
        ((1_000, 1_750, 2_000), [("consumed", 0, 3 / 4), ("waiting", 3 / 4, 1 / 4)], 3 / 4),
        ((1_000, 2_000, 2_000), [("consumed", 0, 1)], 1),
        ((1_000, 1_000, 2_000), [("waiting", 0, 1)], 0),
        ((1_000, 0, 2_000), [("deleted", 0, 1 / 2), ("waiting", 1 / 2, 1 / 2)], 0),
        ((1_000, 3_000, 2_000), [("consumed", 0, 1 / 2), ("beyond", 1 / 2, 1 / 2)], 1),
        ((1_000, None, 2_000), [("untold", 0, 1)], None),
        ((7, 7, 7), [], 0),  # nothing is kept
        ((7, 3, 7), [("deleted", 0, 1)], 0),  # and it was not consumed
    ],
)
def test_what_is_kept_of_a_queue_is_drawn_with_the_committed_offset_in_it_before_it_or_beyond_it(
    offsets: tuple[int, int | None, int], pieces: list[tuple[str, float, float]], committed: float | None
) -> None:
    first, at, end = offsets
    about = {"topic": "orders", "broker_name": "broker-a", "queue_id": 0}
    drawn = QueueLine(**about, min_offset=first, consumer_offset=at, max_offset=end).retained
    assert drawn is not None
    assert [(name, one.x / WIDTH, one.width / WIDTH) for name, one in drawn.pieces] == pieces
    assert drawn.committed == (None if committed is None else committed * WIDTH)
    for unknown in ({"min_offset": first}, {"max_offset": end}, {}):
        assert QueueLine(**about, consumer_offset=at, **unknown).retained is None


def test_how_long_queues_had_no_holder_is_what_all_clients_said_minute_by_minute() -> None:
    """Two minutes on end 4 and 3 queues, later 1; of the minutes in which a client did not say so nothing is known."""
    history = minutes_of_holders((8, 2, 2), (4, 1, 1), (5, 2, 2), (8, 2, 2), (1, 1, 2), (None, 2, 2), (7, 2, 2))
    unheld = unheld_queues(history)
    assert dict(zip(*(unheld[name].to_pylist() for name in unheld.column_names), strict=True)) == {
        minute(0): 0, minute(1): 4, minute(2): 3, minute(3): 0, minute(5): 0, minute(6): 1,
    }  # fmt: skip
    dealt = rebalances_of(unheld, 7, ())
    assert (dealt.count, dealt.unheld_ms, dealt.longest_unheld_ms, dealt.most_unheld) == (7, 180_000, 120_000, 4)
    held = rebalances_of(unheld_queues(minutes_of_holders((8, 2, 2))), 1, ())
    assert (held.unheld_ms, held.longest_unheld_ms, held.most_unheld) == (0, 0, 0)
    unknown = rebalances_of(unheld_queues(minutes_of_holders((3, 1, 2))), 1, ())
    assert (unknown.unheld_ms, unknown.longest_unheld_ms, unknown.most_unheld) == (None, None, None)


def test_a_minute_in_which_a_broker_was_not_read_tells_nothing_of_holders() -> None:
    history = minutes_of_holders((8, 2, 2), (4, 2, 2))
    counts = pa.array([2, 1, 1, 1])  # of the minute after, a broker of `orders` is missing
    unheld = unheld_queues(history.set_column(history.column_names.index("broker_count"), "broker_count", counts))
    assert unheld["interval_start"].to_pylist() == [minute(0)]


def test_members_that_come_and_go_and_queues_without_a_holder_stand_on_the_page(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS, CLIENT_SNAPSHOTS)
    newest = Interval.containing(datetime.now(UTC) - timedelta(minutes=1))
    for ago, held in ((3, 8), (2, 5), (1, 8), (0, 8)):
        interval = Interval(newest.start - timedelta(minutes=ago))
        facts = {"consumer_group": "billing", "topic": "orders", "queue_count": 8, "held_queue_count": held}
        facts |= {"told_client_count": 1, "online_client_count": 1, "unknown_queue_count": 0, "broker_count": 1}
        warehouse.publish("main", interval, {GROUP_FACTS: [facts]})
        came = NamedChange(interval.start, Sentence("changed_count", before=1, after=2), Kind.MEMBERS, "billing")
        with writing(warehouse.engine) as session:
            changes.replace(session, "main", interval.start, [came], None)
    view = WorkspaceViews(warehouse.workspace, warehouse.engine).group(ASKED, catalogue())
    dealt = view.rebalances
    assert (dealt.count, len(dealt.moves), dealt.unheld_ms, dealt.most_unheld) == (4, 4, 60_000, 3)
    assert (view.courses[-1].figure, view.courses[-1].greatest) == ("unheld_queue_count", 3)


@pytest.mark.parametrize("asked", [AskedGroup, AskedQueues, AskedTopic, AskedChanges])
def test_who_asks_from_a_moment_on_is_shown_all_since_then(asked: type[AskedRange]) -> None:
    names = {"cluster": "main", "consumer_group": "billing", "topic": "orders"}
    before = datetime.now(UTC)
    since = before - timedelta(hours=3)
    for until in ({}, {"until": ""}):  # as a form says it
        found = asked.model_validate({**names, "since": since.isoformat(), **until})
        assert found.since == since
        assert found.until is not None
        assert before <= found.until <= datetime.now(UTC)
    with pytest.raises(ValidationError, match="until is after since"):
        asked.model_validate({**names, "since": (before + timedelta(hours=1)).isoformat()})


def test_spans_are_as_long_as_they_say() -> None:
    assert [span.length for span in Span][:3] == [timedelta(minutes=30), timedelta(hours=2), timedelta(hours=6)]
    assert Span.MONTH.length == timedelta(days=30)
