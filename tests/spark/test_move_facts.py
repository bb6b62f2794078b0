"""Offset moves as facts in Spark: the cases of the pure side, and the same answer on random moves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from offsetguard.facts import OffsetMoveFacts
from offsetguard.move_facts import offset_move_facts as pure_facts
from offsetguard.tables import OFFSET_MOVES
from offsetguard_spark.moves import offset_move_facts
from offsetguard_spark.tables import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from offsetguard.collect.landing import Row
    from offsetguard.intervals import Interval

CASES = yaml.safe_load((Path(__file__).parents[1] / "unit" / "moves" / "cases.yml").read_text(encoding="utf-8"))
WINDOW = timedelta(minutes=30)
FIELDS = tuple(OffsetMoveFacts.__dataclass_fields__)


def add_move(snapshot: Any, given: dict[str, Any], consumer_group: str) -> None:
    interval = snapshot.interval
    requested, corrected = given["moved"]
    snapshot.move(
        given.get("position", 1),
        requested,
        corrected,
        interval.end - timedelta(seconds=given["s_ago"]),
        interval_start=interval.start - timedelta(minutes=given.get("collected_min_ago", 0)),
        consumer_group=consumer_group,
        origin=given.get("origin", "event"),
        source=given.get("source", "broker-a"),
        client_id=given.get("client"),
        topic=given.get("topic", "orders"),
        broker_name=given.get("broker", "broker-a"),
        queue_id=given.get("queue", 0),
    )


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    names = [column.name for column in OFFSET_MOVES.columns]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], spark_schema(OFFSET_MOVES))


def spark_facts(spark: SparkSession, rows: list[Row], interval: Interval) -> list[tuple[Any, ...]]:
    found = offset_move_facts(frame(spark, rows), "demo", interval, WINDOW).collect()
    return sorted((tuple(_plain(row[name]) for name in FIELDS) for row in found), key=repr)


def _plain(value: Any) -> Any:
    return value.timestamp() if hasattr(value, "timestamp") else value


def as_tuples(facts: list[OffsetMoveFacts]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(getattr(fact, name)) for name in FIELDS) for fact in facts), key=repr)


def test_spark_gives_the_facts_of_every_case(spark: SparkSession, snapshot) -> None:
    """All in one query, the groups of each case under names of their own."""
    expected = []
    for number, case in enumerate(CASES):
        for move in case["moves"]:
            add_move(snapshot, move, f"{number} {move.get('group', 'billing')}")
        expected += [_expected(fact, number, snapshot.interval) for fact in case["facts"]]
    assert spark_facts(spark, snapshot.rows["offset_moves"], snapshot.interval) == as_tuples(expected)


def _expected(given: dict[str, Any], number: int, interval: Interval) -> OffsetMoveFacts:
    requested, corrected = given["moved"]
    first_s_ago, last_s_ago = given["s_ago"]
    return OffsetMoveFacts(
        consumer_group=f"{number} {given.get('group', 'billing')}",
        client_id=given.get("client"),
        topic=given.get("topic", "orders"),
        broker_name=given.get("broker", "broker-a"),
        queue_id=given.get("queue", 0),
        requested_offset=requested,
        corrected_offset=corrected,
        move_count=given["count"],
        first_moved_at=interval.end - timedelta(seconds=first_s_ago),
        last_moved_at=interval.end - timedelta(seconds=last_s_ago),
        origin=given.get("origin", "event"),
    )


def test_moves_of_later_intervals_and_other_clusters_do_not_count(spark: SparkSession, snapshot) -> None:
    moved_at = snapshot.interval.end - timedelta(seconds=10)
    snapshot.move(1, 100, 330, moved_at, interval_start=snapshot.interval.end)  # a backfill must not see it
    snapshot.move(2, 100, 320, moved_at, cluster="other")
    snapshot.move(3, 100, 310, moved_at)
    (fact,) = spark_facts(spark, snapshot.rows["offset_moves"], snapshot.interval)
    assert dict(zip(FIELDS, fact, strict=True))["corrected_offset"] == 310


OFFSETS = st.integers(0, 12)
MOVES = st.lists(
    st.fixed_dictionaries(
        {
            "origin": st.sampled_from(["event", "log", "snapshot"]),
            "moved": st.tuples(OFFSETS, OFFSETS),
            "s_ago": st.integers(0, 1900),
            "client": st.sampled_from([None, "a", "b"]),
            "queue": st.sampled_from([None, 0, 1]),
            "topic": st.sampled_from(["orders", "clicks"]),
            "position": st.integers(0, 3),
        }
    ),
    min_size=80,
    max_size=110,
)


@settings(
    max_examples=2,
    phases=[Phase.generate],  # shrinking would start Spark queries by the hundred
    suppress_health_check=list(HealthCheck),
)
@given(drawn=MOVES)
def test_spark_and_pure_python_agree_on_any_moves(spark: SparkSession, snapshot, drawn) -> None:
    snapshot.rows["offset_moves"].clear()
    for number, move in enumerate(drawn):
        if not (move["origin"] == "snapshot" and move["queue"] is None):  # a snapshot always names the queue
            add_move(snapshot, move, f"group-{number % 5}")
    rows = snapshot.rows["offset_moves"]
    pure = pure_facts(rows, snapshot.interval.end - WINDOW)
    assert spark_facts(spark, rows, snapshot.interval) == as_tuples(pure)
