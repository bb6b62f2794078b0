"""What a published interval shows to have changed: each once, as people say it, whatever order intervals come in."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from offsetguard.facts.changes import CATCH_UP, CAUGHT_UP, FEW, MOST, catch_up, record_changes
from offsetguard.model.fact_records import VanishedFacts
from offsetguard.model.intervals import Interval
from offsetguard.store import changes as change_store
from offsetguard.store.changes import About
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
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import LOOK, Warehouse, minute

TABLES = (GROUP_FACTS, GROUP_SNAPSHOTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
BILLING = About("billing", frozenset({"orders"}), frozenset({"broker-a"}))
Rows = dict[Table, list[dict[str, Any]]]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.in_folder(tmp_path, *TABLES)


class Minutes:
    """Minutes of a group with two clients; each changes what is said from then on."""

    def __init__(self, warehouse: Warehouse, *, first: int = 0) -> None:
        """Begin with what is usual."""
        self._warehouse, self.number = warehouse, first
        self.group: dict[str, Any] = {"retry_max_times": 16, "client_versions": ["JAVA V4_9_7"]}
        self.topic: dict[str, Any] = {"broker_count": 1, "read_queue_count": 8, "write_queue_count": 8, "perm": 6}
        self.broker: dict[str, Any] = {"boot_at": minute(-500), "version": "V4_9_7", "file_reserved_time_hours": 72}
        self.clients: list[str] | None = ["a@1", "b@1"]  # None: nobody saw them by name
        self.count: int | None = None  # else: as many as are named
        self.moves: list[dict[str, Any]] = []
        self.vanished: tuple[VanishedFacts, ...] = ()

    def publish(self, *, again: bool = False) -> datetime:
        """Publish a minute, and write down what it shows; returns when it was read."""
        count = self.count if self.clients is None else len(self.clients)
        group = {"consumer_group": "billing", "topic": "orders", "online_client_count": count, **self.group}
        groups = [group, {**group, "consumer_group": "another", "retry_max_times": self.number}]
        clients = [{"consumer_group": "billing", "client_id": one} for one in self.clients or ()]
        rows: Rows = {
            GROUP_FACTS: groups,
            CLIENT_SNAPSHOTS: clients,
            TOPIC_FACTS: [{"topic": "orders", **self.topic}],
            BROKER_FACTS: [{"broker_name": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911", **self.broker}],
            OFFSET_MOVE_FACTS: self.moves,
        }
        start = minute(self.number)
        looked = {"started_at": start, "finished_at": start + LOOK}
        manifest = manifest_of(Interval(start), cluster="demo", vanished=self.vanished, **looked)
        self._warehouse.publish("demo", Interval(start), rows, again=again, manifest_json=manifest.to_json())
        record(self._warehouse, start)
        self.number += 1
        return start + LOOK


def record(warehouse: Warehouse, start: datetime) -> None:
    record_changes(warehouse.reader(), warehouse.engine, "demo", start)


def said(warehouse: Warehouse, until: datetime, about: About = BILLING) -> list[tuple[datetime, str]]:
    """Return what an incident that was found then says of it."""
    with reading(warehouse.engine) as session:
        found = change_store.around(session, "demo", until - timedelta(hours=1), until, about, limit=5)
    return [(one.at, str(one.what)) for one in found]


def unknown(warehouse: Warehouse) -> int:
    with reading(warehouse.engine) as session:
        return change_store.unknown_count(session, "demo", minute(-999), minute(999))


def test_topics_and_groups_that_were_deleted_are_changes_of_the_round_that_misses_them(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    minutes.publish()
    deleted_at = minute(1) - timedelta(seconds=20)
    by_hand = VanishedFacts(
        "orders", False, "broker-a", minute(0), minute(1), 5, True, deleted_at, "AdminBrokerThread_3"
    )
    by_replication = replace(
        by_hand, name="billing", is_group=True, deleted_at=None, deleted_by="BrokerControllerSched"
    )
    minutes.vanished = (by_hand, by_replication)
    minutes.publish()
    minutes.publish()  # they are remembered for a day
    assert said(warehouse, minute(3)) == [
        (minute(1), "billing is no longer on broker-a"),
        (deleted_at, "orders was deleted on broker-a by an operator's request"),
    ]


def test_each_kind_of_change_is_said_once_where_it_was_first_seen(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    minutes.publish()
    assert said(warehouse, minute(1)) == [], "the first look is no change"
    expected: list[tuple[datetime, str]] = []

    def changed(text: str, at: datetime | None = None) -> None:
        seen_at = minutes.publish()
        expected.insert(0, (at or seen_at, text))
        assert said(warehouse, minute(minutes.number)) == expected[:5], "what is new, and nothing again"

    minutes.clients = ["b@1", "c@2"]
    changed("c@2 joined and a@1 left: 2 clients online")
    minutes.clients = ["b@1", "c@2", "d@3", "e@4", "f@5"]
    changed("d@3, e@4 +1 joined: 5 clients online")
    minutes.group["client_versions"] = ["JAVA V5_1_0"]
    changed("client versions: JAVA V4_9_7 became JAVA V5_1_0")
    minutes.group["subscription_expressions"] = ["TagA"]
    minutes.publish()  # what was not known before is no change
    minutes.group["subscription_expressions"] = ["*"]
    changed("subscription to orders: TagA became *")
    minutes.group["retry_max_times"] = 3
    changed("billing: retryMaxTimes 16 became 3")
    minutes.topic["write_queue_count"] = 4
    changed("orders: writeQueueNums 8 became 4")
    minutes.broker["file_reserved_time_hours"] = 2
    changed("broker-a-0: fileReservedTime 72 became 2")
    booted_at = minute(minutes.number) + timedelta(seconds=7)
    minutes.broker["boot_at"] = booted_at
    changed("broker-a-0 was started", at=booted_at)
    switched_at = minute(minutes.number) + timedelta(seconds=9)
    minutes.broker |= {"master_changed_at": switched_at, "address": "10.0.0.2:10911"}
    changed("10.0.0.2:10911 became the master of broker-a", at=switched_at)
    moved_at = minute(minutes.number) + timedelta(seconds=3)
    queue = {"consumer_group": "billing", "topic": "orders", "broker_name": "broker-a", "first_moved_at": moved_at}
    minutes.moves = [{**queue, "queue_id": number, "origin": "reset"} for number in range(3)]
    minutes.moves.append({**queue, "queue_id": 9, "origin": "event"})
    changed("offsets of orders were moved, on 3 queues", at=moved_at)
    minutes.clients = []
    changed("b@1, c@2 +3 left: 0 clients online")
    minutes.publish()
    assert said(warehouse, minute(minutes.number)) == expected[:5]
    assert unknown(warehouse) == 0


def test_what_is_not_known_changes_nothing(warehouse: Warehouse) -> None:
    """A broker that was not seen takes its queues out of the sum; members that nobody named are counted only."""
    minutes = Minutes(warehouse)
    minutes.publish()
    minutes.topic |= {"broker_count": 0, "read_queue_count": 4, "write_queue_count": 4}
    minutes.group |= {"retry_max_times": None, "client_versions": []}
    minutes.clients, minutes.count = None, None
    minutes.publish()
    minutes.clients = ["a@1", "b@1"]
    minutes.publish()
    assert said(warehouse, minute(3)) == []
    minutes.clients, minutes.count = None, 5
    minutes.publish()
    assert said(warehouse, minute(4)) == [(minute(3) + LOOK, "clients online: 2 became 5")]


def test_only_the_hour_before_and_only_what_concerns_it(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    minutes.publish()
    minutes.clients = ["c@2"]
    minutes.publish()
    minutes.number = 65
    minutes.publish()
    assert said(warehouse, minute(66)) == [], "that was more than an hour before"
    another, nobody = About("another", frozenset(), frozenset()), About(None, frozenset(), frozenset({"broker-z"}))
    ours, others, none = (said(warehouse, minute(60), about) for about in (BILLING, another, nobody))
    assert [what for _, what in ours] == ["c@2 joined and a@1, b@1 left: 1 client online"]
    assert sorted(what for _, what in others) == [*("another: retryMaxTimes 0 became 1", "clients online: 2 became 1")]
    assert none == []


def test_an_interval_that_is_published_again_says_anew_what_it_and_the_next_show(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    for retries in (16, 3, 4):
        minutes.group["retry_max_times"] = retries
        minutes.publish()
    minutes.group["retry_max_times"], minutes.number = 16, 1
    minutes.publish(again=True)
    assert said(warehouse, minute(3)) == [(minute(2) + LOOK, "billing: retryMaxTimes 16 became 4")]
    assert unknown(warehouse) == 0


def test_what_was_not_gone_through_is_counted_and_caught_up_with(warehouse: Warehouse) -> None:
    minutes, interval = Minutes(warehouse), Interval(minute(1))
    minutes.publish()
    warehouse.publish("demo", interval, {GROUP_FACTS: [{"consumer_group": "billing", "topic": "orders"}]})
    assert unknown(warehouse) == 1
    caught_up = partial(catch_up, warehouse.reader(), warehouse.engine, "demo")
    assert caught_up(minute(3) + CATCH_UP) == 0, "that was published too long ago"
    assert (caught_up(minute(9)), caught_up(minute(9)), unknown(warehouse)) == (1, 0, 0)
    warehouse.publish("demo", interval, {}, run_id="another", again=True)
    assert caught_up(minute(9)) == 1, "it was published again since"
    assert CAUGHT_UP > 1


def test_a_client_that_answers_again_after_hours_is_compared_with_what_it_said_then(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    minutes.group["max_reconsume_times"] = 16
    minutes.publish()
    del minutes.group["max_reconsume_times"]
    minutes.publish()
    minutes.group["max_reconsume_times"], minutes.number = 3, 300
    at = minutes.publish()
    assert said(warehouse, minute(301)) == [(at, "billing: maxReconsumeTimes 16 became 3")]


def test_of_too_many_changes_at_once_the_others_are_counted(warehouse: Warehouse) -> None:
    many = max(FEW, MOST) + 6
    for number in range(3):
        groups = [{"consumer_group": f"g{one:03}", "topic": "t", "retry_max_times": number // 2} for one in range(many)]
        warehouse.publish("demo", Interval(minute(number)), {GROUP_FACTS: groups})
        record(warehouse, minute(number))
    told = [f"g{one:03}: retryMaxTimes 0 became 1" for one in range(MOST)]
    assert [what for _, what in said(warehouse, minute(3), About("g001", (), ()))] == [
        f"{many - MOST} more changes at this minute, not listed",
        told[1],
    ]
    with reading(warehouse.engine) as session:
        found = change_store.listed(session, change_store.Asked("demo", minute(0), minute(3)), limit=many)
    assert [str(one.what) for one in found if one.consumer_group] == told


def test_that_they_cannot_be_read_is_said_until_they_can(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, *TABLES)
    minutes = Minutes(warehouse)
    minutes.publish()
    minutes.group["retry_max_times"] = 3
    minutes.publish()
    catalog = warehouse.workspace.home / "catalog.db"
    catalog.rename(hidden := catalog.with_suffix(".hidden"))
    record(warehouse, minute(1))
    (text,) = said(warehouse, minute(2))
    assert text[0] == minute(1) + LOOK
    assert "it could not be read: " in text[1]
    assert "there is no catalog" in text[1]
    assert unknown(warehouse) == 1
    hidden.rename(catalog)
    assert catch_up(warehouse.reader(), warehouse.engine, "demo", minute(9)) == 1
    assert said(warehouse, minute(2)) == [(minute(1) + LOOK, "billing: retryMaxTimes 16 became 3")]
