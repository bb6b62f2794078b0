"""Which masters refuse the pulls of a group from a topic, by the reason that they would name."""

from datetime import UTC, datetime
from typing import Any

from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, GROUP_FACTS, GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.facts.answers import answers

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
MASTERS: dict[str, dict[str, Any]] = {
    # what each says of its own permission, the topic's, and the group
    "well": {"broker_permission": 6, "perm": 6},
    "read-only": {"broker_permission": 4, "perm": 4},
    "unknown": {"broker_permission": None},
    "topic": {"broker_permission": 6, "perm": 2},
    "broker": {"broker_permission": 2, "perm": 6},
    "disabled": {"broker_permission": 6, "perm": 2, "of_group": "disabled_broker_names"},
    "uncreated": {"broker_permission": 6, "perm": 6, "of_group": "uncreated_broker_names"},
    "forbidden": {"broker_permission": 6, "perm": 6},
    "broker-first": {"broker_permission": 0, "perm": 0, "of_group": "disabled_broker_names"},
}


def refusals_of(names: list[str]) -> tuple[str, ...] | None:
    of_group = {
        column: [name for name in MASTERS if MASTERS[name].get("of_group") == column] or None
        for column in ("disabled_broker_names", "uncreated_broker_names")
    }
    settings = {"topic": "t", "topic_kind": "normal", "read_queue_nums": 1, "write_queue_nums": 1, "orderly": False}
    rows: dict[str, list[dict[str, Any]]] = {
        BROKER_SNAPSHOTS.name: [
            {"broker_name": name, "broker_id": broker_id, "broker_permission": permission}
            for name, one in MASTERS.items()
            for broker_id, permission in ((0, one["broker_permission"]), (1, 0))  # slaves' are not looked at
        ],
        TOPIC_SETTINGS.name: [
            {"broker_name": name, "perm": one["perm"], **settings} for name, one in MASTERS.items() if "perm" in one
        ],
        GROUP_SNAPSHOTS.name: [
            {
                "consumer_group": "g",
                "system_group": False,
                "in_detail": False,
                **of_group,
                "forbidden_topics": ["forbidden t", "well other"],
            }
        ],
        QUEUE_SNAPSHOTS.name: [
            {"consumer_group": "g", "topic": "t", "broker_name": name, "queue_id": 0, "origin": "broker"}
            for name in names
        ],
    }
    (found,) = answers(GROUP_FACTS, GroupFacts, rows, INTERVAL)
    return found.refusals


def test_a_master_refuses_by_the_first_of_its_reasons_and_an_unknown_permission_refuses_nothing() -> None:
    assert refusals_of(list(MASTERS)) == (
        "broker broker",
        "broker-first broker",
        "disabled disabled",
        "forbidden forbidden",
        "topic topic",
        "uncreated uncreated",
    )


def test_masters_without_queues_of_the_group_do_not_count() -> None:
    assert refusals_of(["well", "read-only", "unknown"]) is None
