"""Facts of a snapshot: which queues are suspect, what a group's sums are, and that unknown is never 0."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import offsets_of, sum_of_known
from offsetguard.tables import GROUP_SNAPSHOTS, OFFSET_MOVES, QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard.tables.queue_state import Sample
from offsetguard_peers.cases.running import together
from offsetguard_peers.configs import one_team
from offsetguard_peers.facts import answers

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
READ_AT = INTERVAL.start + timedelta(seconds=5)
CONFIG = one_team({"main": {"name_servers": ["127.0.0.1:9876"]}})
Row = dict[str, Any]


def queue_row(
    consumer: int | None = 10, pull: int | None = None, low: int | None = 0, high: int | None = 10, **others: object
) -> Row:
    return {
        "consumer_group": "billing",
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "min_offset": low,
        "max_offset": high,
        "consumer_offset": consumer,
        "pull_offset": pull,
        "last_timestamp": None,
        "oldest_unconsumed_at": None,
        "consumer_offset_read_at": READ_AT,
        "pull_offset_read_at": None,
        "max_offset_read_at": READ_AT,
        **others,
    }


def changes(row: Row) -> Row:
    """Return what a failure shows of a row: in what it differs from one that is well."""
    return {name: value for name, value in row.items() if value != queue_row()[name]}


def figures_of(*rows: Row) -> list[Row]:
    histories = [
        [(INTERVAL.start, Sample(**{one.name: row[one.name] for one in fields(Sample) if one.name in row}))]
        for row in rows
    ]
    return answers.figures_of(answers.states_of(histories), [INTERVAL.end] * len(rows))


def facts_of(*queues: Row, groups: list[Row] | None = None, moves: list[Row] | None = None) -> IntervalFacts:
    manifest = Manifest(
        cluster="main",
        interval_start=INTERVAL.start,
        started_at=INTERVAL.start,
        finished_at=READ_AT,
        requests=RequestCounts(),
        row_counts={},
        unseen_broker_names=("broker-b",),
    )
    queue_nums = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "orderly": False}
    settings = [{"broker_name": "broker-a", "topic": "orders", "topic_kind": "normal", **queue_nums}]
    group_columns = dict.fromkeys(column.name for column in GROUP_SNAPSHOTS.columns)
    rows = {
        QUEUE_SNAPSHOTS.name: list(queues),
        GROUP_SNAPSHOTS.name: [group_columns | group for group in groups or []],
        OFFSET_MOVES.name: moves or [],
        TOPIC_SETTINGS.name: settings,
    }
    return facts_from_snapshot(manifest, rows, CONFIG, INTERVAL)


def test_a_queue_is_suspect_unless_it_is_provably_healthy() -> None:
    cases = [
        (queue_row(consumer=10), False),
        (queue_row(consumer=9), True),
        (queue_row(consumer=10, pull=10), False),
        (queue_row(consumer=10, pull=9), True),
        (queue_row(consumer=11), True),
        (queue_row(consumer=3, low=10), True),
        (queue_row(consumer=None), True),
        (queue_row(consumer=None, low=10), False),
        (queue_row(consumer=None, low=10, consumer_offset_read_at=None), True),
        (queue_row(consumer=None, low=10, pull=11), True),
        (queue_row(low=None, high=None, max_offset_read_at=None), True),
    ]
    found = figures_of(*(row for row, _ in cases))
    wrong = [changes(row) for (row, suspect), one in zip(cases, found, strict=True) if one["suspect"] is not suspect]
    assert wrong == []


@together(st.tuples(*[st.none() | st.integers(0, 20)] * 4), st.booleans())
def test_whatever_is_left_out_has_nothing_waiting_and_no_broken_order(drawn: list[tuple[Any, bool]]) -> None:
    rows = [
        queue_row(consumer, pull, low, high, consumer_offset_read_at=READ_AT if was_read else None)
        for (low, high, consumer, pull), was_read in drawn
    ]
    for row, figures in zip(rows, figures_of(*rows), strict=True):
        if not figures["suspect"]:
            assert not offsets_of(row).order_violations()
            assert row["max_offset"] is not None
            assert row["max_offset"] == (
                row["min_offset"] if row["consumer_offset"] is None else row["consumer_offset"]
            )


def test_the_age_of_what_waits() -> None:
    cases = [
        (queue_row(consumer=10), 0),
        (queue_row(consumer=12), 0),
        (queue_row(consumer=9, oldest_unconsumed_at=READ_AT - timedelta(seconds=90)), 90_000),
        (queue_row(consumer=9, oldest_unconsumed_at=INTERVAL.end + timedelta(seconds=1)), 0),
        (queue_row(consumer=9), None),
        (queue_row(consumer=None), None),
        (queue_row(high=None, low=None), None),
    ]
    found = [figures["lag_ms"] for figures in figures_of(*(row for row, _ in cases))]
    wrong = [
        (changes(row), expected, age) for (row, expected), age in zip(cases, found, strict=True) if age != expected
    ]
    assert wrong == []


@given(st.lists(st.none() | st.integers()))
def test_a_sum_is_unknown_only_when_nothing_is_known(values: list[int | None]) -> None:
    known = [value for value in values if value is not None]
    assert sum_of_known(values) == (sum(known) if known else None)


def test_a_groups_figures_are_those_of_its_queues() -> None:
    facts = facts_of(
        queue_row(consumer=4, pull=6, oldest_unconsumed_at=INTERVAL.end - timedelta(seconds=3)),
        queue_row(consumer=None, queue_id=1),
        queue_row(consumer=7, low=None, high=None, max_offset_read_at=None, queue_id=2),
        queue_row(consumer=2, low=5, queue_id=3, oldest_unconsumed_at=READ_AT - timedelta(seconds=8)),
        groups=[{"consumer_group": "billing", "online_client_count": 2, "message_model": "CLUSTERING"}],
    )
    (group,) = facts.groups
    assert (group.topic_kind, group.queue_count, group.unknown_queue_count, group.never_committed_queue_count) == (
        "normal",
        4,
        1,
        1,
    )
    assert (group.lag, group.effective_lag, group.inflight, group.available, group.lost) == (14, 11, 2, 4, 3)
    assert (group.lag_ms, group.online_client_count) == (8_000, 2)
    assert facts.unseen_broker_names == {"broker-b"}


def test_a_queue_that_the_broker_does_not_have_is_in_no_fact() -> None:
    facts = facts_of(queue_row(low=None, high=None), queue_row(queue_id=1))
    assert facts.queues == ()
    assert [group.queue_count for group in facts.groups] == [1]


def test_a_lock_must_outlive_three_renewals() -> None:
    violated: dict[tuple[bool, int | None], tuple[str, ...]] = {
        (True, 60_000): (),
        (True, 59_999): ("OG-L01",),
        (False, 1): (),
        (True, None): (),
    }
    names = {f"{orderly}, {live_ms}": (orderly, live_ms) for orderly, live_ms in violated}
    groups = [
        {
            "consumer_group": name,
            "declared_orderly": orderly,
            "lock_interval_ms": 20_000,
            "lock_max_live_time_ms": live_ms,
        }
        for name, (orderly, live_ms) in names.items()
    ]
    facts = facts_of(*(queue_row(consumer_group=name) for name in names), groups=groups)
    assert {names[one.consumer_group]: one.violated_invariants for one in facts.groups} == violated


def test_moves_are_counted_within_the_window_per_requested_offset() -> None:
    def move(event_offset: int, minutes: int, requested: int, corrected: int) -> Row:
        return {
            "cluster": "demo",
            "interval_start": INTERVAL.start,
            "origin": "event",
            "position": event_offset,
            "moved_at": INTERVAL.end - timedelta(minutes=minutes),
            "consumer_group": "billing",
            "client_id": None,
            "topic": "orders",
            "broker_name": "broker-a",
            "queue_id": 0,
            "requested_offset": requested,
            "corrected_offset": corrected,
        }

    facts = facts_of(moves=[move(1, 31, 5, 9), move(2, 30, 5, 10), move(3, 2, 5, 12), move(4, 1, 7, 12)])
    counted = {one.requested_offset: (one.move_count, one.corrected_offset) for one in facts.offset_moves}
    assert counted == {5: (2, 12), 7: (1, 12)}
