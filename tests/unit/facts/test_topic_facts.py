"""What a topic's settings and queues tell: queues that nobody reads, and queues that nobody writes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from offsetguard.model.intervals import Interval
from offsetguard.tables import TOPIC_FACTS, TOPIC_QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard.tables.facts import TopicFacts
from offsetguard_peers.facts.answers import answers

Row = dict[str, Any]
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))


def topic_facts(rows: list[Row], of_brokers: list[Row]) -> list[TopicFacts]:
    tables = {TOPIC_QUEUE_SNAPSHOTS.name: rows, TOPIC_SETTINGS.name: of_brokers}
    return answers(TOPIC_FACTS, TopicFacts, tables, INTERVAL)


def settings(read: int, write: int, broker_name: str = "broker-a") -> Row:
    names = {"topic": "orders", "topic_kind": "normal", "broker_name": broker_name, "perm": 6, "orderly": False}
    return {**names, "read_queue_nums": read, "write_queue_nums": write}


def queues(*max_offsets: int | None, broker_name: str = "broker-a") -> list[Row]:
    return [
        {
            "topic": "orders",
            "broker_name": broker_name,
            "queue_id": queue_id,
            "min_offset": None if high is None else 0,
            "max_offset": high,
            "last_update_at": None,
            "read_at": None,
        }
        for queue_id, high in enumerate(max_offsets)
    ]


@pytest.mark.parametrize(
    ("why", "read", "write", "ends", "expected"),
    [
        ("equal", 2, 2, (5, 5), (0, 0, None, None)),
        ("written and not read", 1, 2, (5, 7), (1, 0, None, None)),
        ("read and never written", 3, 1, (5, 0, 0), (0, 2, 0, False)),
        ("being shrunk: a queue still holds messages", 3, 1, (5, 9, 0), (0, 2, 9, True)),
        ("a queue between was not seen", 3, 1, (5, 0, None), (0, 2, 0, None)),
    ],
)
def test_queues_between_read_and_write_numbers_are_told_apart(why: str, read: int, write: int, ends, expected) -> None:
    (topic,) = topic_facts(queues(*ends), [settings(read, write)])
    found = (
        topic.unreadable_queue_count,
        topic.unwritten_queue_count,
        topic.unwritten_message_count,
        topic.unwritten_queues_used,
    )
    assert found == expected, why


def test_brokers_that_err_in_both_directions_are_added_up_apart() -> None:
    rows = [*queues(1, 2), *queues(3, 0, broker_name="broker-b")]
    (topic,) = topic_facts(rows, [settings(1, 2), settings(2, 1, "broker-b")])
    assert topic.read_write_differ
    assert (topic.read_queue_count, topic.write_queue_count) == (3, 3)
    assert (topic.unreadable_message_count, topic.unwritten_queues_used) == (2, False)
