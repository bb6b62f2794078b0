"""What changed in a whole cluster, of one group or one topic, over a span: each once, with whose it is."""

from dataclasses import replace
from typing import Any

import pytest

from offsetguard.facts.changes import record_changes
from offsetguard.model.incident import BEFORE, Kind
from offsetguard.model.intervals import Interval
from offsetguard.store import changes
from offsetguard.store.changes import About, Asked
from offsetguard.store.database import reading
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    OFFSET_MOVE_FACTS,
    TOPIC_FACTS,
    Table,
)
from offsetguard_peers.lake.warehouse import Warehouse, minute

WHOLE = Asked("demo", minute(0), minute(50))
Line = tuple[str, Kind | None, int, str | None, str | None, str | None]
# (what, kind, minute, group, topic, broker), newest first
EXPECTED = [
    ("10.0.0.2:10911 became the master of broker-a", Kind.MASTERS, 48, None, None, "broker-a"),
    ("broker-a-0: brokerVersion V4_9_7 became V5_3_3", Kind.VERSIONS, 46, None, None, "broker-a"),
    ("broker-a-0 was started", Kind.RESTARTS, 45, None, None, "broker-a"),
    ("billing: retryMaxTimes 16 became 3", Kind.SETTINGS, 40, "billing", None, None),
    ("b@1 restarted", Kind.RESTARTS, 38, "billing", None, None),
    ("news: consumeBroadcastEnable true became false", Kind.SETTINGS, 38, "news", None, None),
    ("orders: writeQueueNums 8 became 4", Kind.QUEUES, 32, None, "orders", None),
    ("orders: perm 6 became 4", Kind.SETTINGS, 30, None, "orders", None),
    ("offsets of payments were moved, on 2 queues", Kind.OFFSETS, 25, "audit", "payments", None),
    ("subscription to payments: * became TagA", Kind.SUBSCRIPTIONS, 20, "audit", "payments", None),
    ("client versions: JAVA V4_9_7 became JAVA V5_3_3", Kind.VERSIONS, 15, "audit", None, None),
    ("c@2 joined and a@1 left: 2 clients online", Kind.MEMBERS, 10, "billing", None, None),
]


def rows_of(number: int) -> dict[Table, list[dict[str, Any]]]:
    """Return a minute in which what is expected has happened up to then; in minute 28 no broker was seen."""

    def since(first: int, after: Any, before: Any) -> Any:
        return after if number >= first else before

    client = {"broker_name": "broker-a", "broker_id": 0, "consumer_start_at": since(37, minute(36), minute(-90))}
    clients = [("billing", "b@1"), ("billing", since(10, "c@2", "a@1")), ("audit", "x@1"), ("calm", "y@1")]
    clients += [("CID_SYSTEM", f"s@{number}")]
    moved = {"consumer_group": "audit", "topic": "payments", "broker_name": "broker-a", "origin": "reset"}
    groups = [
        ("billing", "orders", {"online_client_count": 2, "retry_max_times": since(40, 3, 16)}),
        ("billing", "payments", {"online_client_count": 2, "retry_max_times": since(40, 3, 16)}),
        ("calm", "orders", {"online_client_count": 1, "retry_max_times": None if number == 28 else 16}),
        ("CID_SYSTEM", "orders", {"system_group": True, "retry_max_times": number}),
    ]
    audit = {"client_versions": since(15, ["JAVA V5_3_3"], ["JAVA V4_9_7"])}
    groups += [("audit", "payments", {**audit, "subscription_expressions": since(20, ["TagA"], ["*"])})]
    topic = {"broker_count": 1, "write_queue_count": since(32, 4, 8), "perm": since(30, 4, 6)}
    broker = {"broker_name": "broker-a", "broker_id": 0, "version": since(46, "V5_3_3", "V4_9_7")}
    broker |= {"boot_at": since(45, minute(45), minute(-500)), "address": since(48, "10.0.0.2:10911", "10.0.0.1:10911")}
    return {
        GROUP_FACTS: [{"consumer_group": group, "topic": name, **said} for group, name, said in groups],
        CLIENT_SNAPSHOTS: [
            {
                "consumer_group": group,
                "client_id": one,
                **client,
                **({} if one == "b@1" else {"consumer_start_at": None}),
            }
            for group, one in clients
            if number != 28
        ],
        GROUP_SNAPSHOTS: [  # `news` only broadcasts, and commits nothing
            {"consumer_group": "billing", "retry_max_times": since(40, 3, 16)},
            {"consumer_group": "news", "consume_broadcast_enabled": since(38, after=False, before=True)},
        ],
        TOPIC_FACTS: [
            {
                "topic": "orders",
                **(topic if number != 28 else {"broker_count": 0, "write_queue_count": 0, "perm": None}),
            },
            {"topic": "payments", "broker_count": 1, "write_queue_count": 8, "perm": 6},
        ],
        BROKER_FACTS: [{**broker, "master_changed_at": since(48, minute(48), None)}] if number != 28 else [],
        OFFSET_MOVE_FACTS: [
            {**moved, "queue_id": queue, "first_moved_at": minute(25)} for queue in (0, 1) if number >= 25
        ],
    }


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Publish every other minute, and what lies between two of them in none; the last one was killed before its end."""
    tables = (GROUP_FACTS, GROUP_SNAPSHOTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
    found = Warehouse.in_folder(tmp_path_factory.mktemp("changes"), *tables)
    minutes = (0, 8, 10, 15, 20, 25, 28, 30, 32, 38, 40, 45, 46, 48)
    for number in minutes:
        found.publish("demo", Interval(minute(number)), rows_of(number))
        record_changes(found.reader(), found.engine, "demo", minute(number))
    unseen = [{"consumer_group": "billing", "topic": "orders", "retry_max_times": 99}]
    found.publish("demo", Interval(minute(49)), {GROUP_FACTS: unseen}, show=False)
    record_changes(found.reader(), found.engine, "demo", minute(49))
    return found


def lines(warehouse: Warehouse, asked: Asked) -> list[Line]:
    with reading(warehouse.engine) as session:
        found = changes.listed(session, asked, limit=99)
        assert changes.count(session, asked) == len(found)
    return [
        (str(one.what), one.kind, round((one.at - minute(0)).total_seconds() / 60), *names)
        for one in found
        for names in [(one.consumer_group, one.topic, one.broker_name)]
    ]


def test_each_change_of_a_cluster_is_told_once_with_whose_it_is(warehouse: Warehouse) -> None:
    assert lines(warehouse, WHOLE) == EXPECTED
    with reading(warehouse.engine) as session:
        assert changes.unknown_count(session, "demo", minute(0), minute(50)) == 0


def test_a_change_is_the_same_for_an_incident_for_a_group_and_for_the_cluster(warehouse: Warehouse) -> None:
    about = About("billing", frozenset({"orders"}), frozenset({"broker-a"}))
    with reading(warehouse.engine) as session:
        before = changes.around(session, "demo", minute(50) - BEFORE, minute(50), about, limit=5)
    assert [str(one.what) for one in before] == [what for what, *_ in EXPECTED[:5]]
    of_group = lines(warehouse, replace(WHOLE, consumer_group="billing"))
    assert of_group == [line for line in EXPECTED if line[3] == "billing"]


def test_a_topics_changes_are_its_own_and_those_of_its_readers(warehouse: Warehouse) -> None:
    for topic in ("orders", "payments", "nobody"):
        assert lines(warehouse, replace(WHOLE, topic=topic)) == [line for line in EXPECTED if line[4] == topic]


def test_part_of_a_name_finds_groups_topics_and_brokers_in_any_case(warehouse: Warehouse) -> None:
    for search in ("BILL", "pay", "broker", "%"):
        found = lines(warehouse, replace(WHOLE, search=search))
        assert found == [line for line in EXPECTED if any(search.lower() in (name or "") for name in line[3:])], search


def test_only_the_span_and_the_kind_count_and_nothing_published_is_nothing_changed(warehouse: Warehouse) -> None:
    assert lines(warehouse, replace(WHOLE, since=minute(30))) == EXPECTED[:8]
    masters = [line for line in EXPECTED if line[1] is Kind.MASTERS]
    assert lines(warehouse, replace(WHOLE, kind=Kind.MASTERS)) == masters
    assert lines(warehouse, replace(WHOLE, cluster="another")) == []
