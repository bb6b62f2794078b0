"""What changed in the hour before an incident, from published facts: the newest five, each as people say it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.facts.changes import MOST_CHANGES, About, changes_before
from offsetguard.model.incident import Change
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_FACTS, CLIENT_SNAPSHOTS, GROUP_FACTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, Table
from offsetguard_peers.lake.warehouse import Warehouse, minute, with_digest

TABLES = (GROUP_FACTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
BILLING = About("billing", frozenset({"orders"}), frozenset({"broker-a"}))
Rows = dict[Table, list[dict[str, Any]]]


@pytest.fixture(params=[True, False], ids=["digests", "of an earlier release"])
def warehouse(tmp_path: Path, request: pytest.FixtureRequest) -> Warehouse:
    Minutes.have_digests = request.param
    return Warehouse.in_folder(tmp_path, *TABLES)


class Minutes:
    """Minutes of a group with two clients; each changes what is said from then on."""

    have_digests = True

    def __init__(self, warehouse: Warehouse, *, first: int = 0) -> None:
        """Begin with what is usual."""
        self._warehouse, self.number = warehouse, first
        self.group: dict[str, Any] = {"retry_max_times": 16, "client_versions": ["JAVA V4_9_7"]}
        self.topic: dict[str, Any] = {"broker_count": 1, "read_queue_count": 8, "write_queue_count": 8, "perm": 6}
        self.broker: dict[str, Any] = {"boot_at": minute(-500), "version": "V4_9_7", "file_reserved_time_hours": 72}
        self.clients: list[str] | None = ["a@1", "b@1"]  # None: nobody saw them by name
        self.count: int | None = None  # else: as many as are named
        self.moves: list[dict[str, Any]] = []

    def publish(self) -> datetime:
        """Publish a minute; returns its start."""
        count = self.count if self.clients is None else len(self.clients)
        group = {"consumer_group": "billing", "topic": "orders", "online_client_count": count, **self.group}
        groups = [group, {**group, "consumer_group": "another", "retry_max_times": self.number}]
        clients = [{"consumer_group": "billing", "client_id": one} for one in self.clients or ()]
        rows: Rows = {
            GROUP_FACTS: [with_digest(one, clients) if self.have_digests else one for one in groups],
            CLIENT_SNAPSHOTS: clients,
            TOPIC_FACTS: [{"topic": "orders", **self.topic}],
            BROKER_FACTS: [{"broker_name": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911", **self.broker}],
            OFFSET_MOVE_FACTS: self.moves,
        }
        start = minute(self.number)
        self._warehouse.publish("demo", Interval(start), rows)
        self.number += 1
        return start


def changes(warehouse: Warehouse, until: datetime, *asked: About) -> list[tuple[Change, ...]]:
    return list(changes_before(warehouse.reader(), "demo", asked or (BILLING,), until))


def said(warehouse: Warehouse, until: datetime) -> list[tuple[datetime, str]]:
    (found,) = changes(warehouse, until)
    return [(one.at, str(one.what)) for one in found]


def test_each_kind_of_change_is_said_once_where_it_was_first_seen(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    minutes.publish()
    assert said(warehouse, minute(1)) == [], "the first look is no change"
    expected: list[tuple[datetime, str]] = []

    def changed(text: str, at: datetime | None = None) -> None:
        start = minutes.publish()
        minutes.publish()
        expected.insert(0, (at or start, text))
        assert said(warehouse, minute(minutes.number)) == expected[:MOST_CHANGES]

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
    changed("offsets of orders were set, on 3 queues", at=moved_at.replace(second=0))
    minutes.clients = []
    changed("b@1, c@2 +3 left: 0 clients online")
    assert len(changes(warehouse, minute(minutes.number))[0]) == MOST_CHANGES


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
    assert said(warehouse, minute(4)) == [(minute(3), "clients online: 2 became 5")]


def test_only_the_hour_before_and_only_what_concerns_it(warehouse: Warehouse) -> None:
    minutes = Minutes(warehouse)
    minutes.publish()
    minutes.clients = ["c@2"]
    minutes.publish()
    minutes.number = 65
    minutes.publish()
    assert said(warehouse, minute(66)) == [], "that was more than an hour before"
    another, nobody = About("another", frozenset(), frozenset()), About(None, frozenset(), frozenset({"broker-z"}))
    ours, others, none = changes(warehouse, minute(60), BILLING, another, nobody)
    assert [str(one.what) for one in ours] == ["c@2 joined and a@1, b@1 left: 1 client online"]
    told = sorted(str(one.what) for one in others)
    assert told == ["another: retryMaxTimes 0 became 1", "clients online: 2 became 1"]
    assert none == ()


def test_that_they_cannot_be_read_is_said(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, *TABLES)
    Minutes(warehouse).publish()
    (warehouse.workspace.home / "catalog.db").unlink()
    (text,) = said(warehouse, minute(1))
    assert text[0] == minute(1)
    assert "it could not be read: " in text[1]
    assert "there is no catalog" in text[1]
