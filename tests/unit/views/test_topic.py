"""One topic's page, from published facts."""

from __future__ import annotations

from pathlib import Path

from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_FACTS, GROUP_FACTS, TOPIC_FACTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard.views.course import Span, usual_of
from offsetguard.views.fleet import Trust
from offsetguard.views.published import PublishedFacts
from offsetguard.views.topic import QUEUES, AskedTopic, topic_view
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse, minute

NOW = minute(3)
ASKED = AskedTopic(cluster="main", topic="orders", span=Span.HALF_HOUR)


def test_a_topics_page_has_who_reads_it_from_where_to_where_and_what_is_usual(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, BROKER_FACTS, GROUP_FACTS, TOPIC_FACTS, TOPIC_QUEUE_SNAPSHOTS)
    for number in (0, 2):
        interval = Interval(minute(number))
        rows = {
            BROKER_FACTS: [
                {"broker_name": broker, "broker_id": replica, "earliest_message_at": minute(kept)}
                for broker, replica, kept in (
                    ("broker-a", 0, -9),
                    ("broker-a", 1, -3),
                    ("broker-b", 0, -5),
                    ("broker-c", 0, -1),
                )
            ],
            GROUP_FACTS: [
                {"consumer_group": "quick", "topic": "orders", "effective_lag": 0, "lag_ms": 0},
                {"consumer_group": "slow", "topic": "orders", "effective_lag": 9, "lag_ms": 70_000},
                {"consumer_group": "unseen", "topic": "orders", "effective_lag": None, "lag_ms": None},
                {"consumer_group": "slow", "topic": "payments", "effective_lag": 9, "lag_ms": 90_000},
            ],
            TOPIC_FACTS: [
                {"topic": "orders", "produce_tps": 5.0 + number, "perm": 6, "read_queue_count": 8}
                | {"baseline_tps": 4.0, "baseline_spread_tps": 1.0},
                {"topic": "payments", "produce_tps": 1.0},
            ],
            TOPIC_QUEUE_SNAPSHOTS: [
                {"topic": topic, "broker_name": "broker-a", "queue_id": n, "min_offset": 100, "max_offset": 100 + n}
                for topic in ("orders", "payments")
                for n in range(QUEUES + 1)
            ]
            + [{"topic": "orders", "broker_name": "broker-b", "queue_id": 0, "min_offset": None, "max_offset": None}],
        }
        warehouse.publish("main", interval, rows, manifest_json=manifest_of(interval).to_json())
    facts = PublishedFacts(warehouse.workspace, warehouse.engine)
    view = topic_view(ASKED, facts.of_topic(ASKED, NOW), NOW)
    assert [(one.consumer_group, one.lag_ms) for one in view.readers] == [
        ("slow", 70_000),
        ("unseen", None),
        ("quick", 0),
    ]
    assert (view.perm, view.read_queue_count, view.write_queue_count) == (6, 8, None)
    assert (view.queue_count, len(view.queues)) == (QUEUES + 2, QUEUES)
    assert [one.message_count for one in view.queues[:3]] == [0, 1, 2]
    produced, kept = view.courses
    usual, spread = view.usual
    assert [(one.at, one.last) for one in produced.points if one.last is not None] == [
        (minute(0), 5.0),
        (minute(2), 7.0),
    ]
    assert (usual.greatest, spread.greatest, kept.greatest) == (4.0, 1.0, None)
    first, second = usual_of(view.usual, 10.0)
    assert [pair.split(",")[1] for pair in first.split()] == ["60.0", "60.0", "84.0", "84.0"], (
        "5 to 3 of 10, upside down"
    )
    assert len(second.split()) == 4, "between them nothing is known"
    assert view.trust is Trust.FRESH
    assert view.kept_since == minute(-5), "of the masters that have its queues"

    nobody = ASKED.model_copy(update={"topic": "nobody"})
    empty = topic_view(nobody, facts.of_topic(nobody, NOW), NOW)
    assert (empty.usual, usual_of(empty.usual, 1.0)) == ((), ()), "no band is promised"
    assert (empty.readers, empty.queues, empty.perm, empty.message_count, empty.kept_since) == (
        (),
        (),
        None,
        None,
        None,
    )
