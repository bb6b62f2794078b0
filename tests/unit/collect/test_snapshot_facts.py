"""Facts of a snapshot: which queues are suspect, what a group's sums are, and that unknown is never 0."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import offsets_of
from offsetguard.tables import GROUP_SNAPSHOTS, OFFSET_MOVES, QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard.tables.queue_state import Sample
from offsetguard_peers.cases.running import together
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.configs import one_team
from offsetguard_peers.facts import answers

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
READ_AT = INTERVAL.start + timedelta(seconds=5)
CONFIG = one_team({"main": {"name_servers": ["127.0.0.1:9876"]}})
Row = dict[str, Any]


def queue_row(
    consumer: int | None = 10, pull: int | None = None, low: int | None = 0, high: int | None = 10, **others: object
) -> Row:
    row = dict.fromkeys(column.name for column in QUEUE_SNAPSHOTS.columns)
    row |= {"consumer_group": "billing", "topic": "orders", "broker_name": "broker-a", "queue_id": 0}
    row |= {"min_offset": low, "max_offset": high, "consumer_offset": consumer, "pull_offset": pull}
    return {**row, "consumer_offset_read_at": READ_AT, "max_offset_read_at": READ_AT, **others}


def figures_of(*rows: Row) -> list[Row]:
    samples = [Sample(**{one.name: row[one.name] for one in fields(Sample) if one.name in row}) for row in rows]
    states = answers.states_of([[(INTERVAL.start, sample)] for sample in samples])
    return answers.figures_of(states, [INTERVAL.end] * len(rows))


def facts_of(*queues: Row, groups: list[Row] | None = None) -> IntervalFacts:
    manifest = manifest_of(INTERVAL, finished_at=READ_AT, unseen_broker_names=("broker-b",))
    queue_nums = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "orderly": False}
    settings = [{"broker_name": "broker-a", "topic": "orders", "topic_kind": "normal", **queue_nums}]
    group_columns = dict.fromkeys(column.name for column in GROUP_SNAPSHOTS.columns)
    rows = {
        QUEUE_SNAPSHOTS.name: list(queues),
        GROUP_SNAPSHOTS.name: [group_columns | group for group in groups or []],
        OFFSET_MOVES.name: [],
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
    assert [one["suspect"] for one in found] == [suspect for _, suspect in cases]


@together(st.tuples(*[st.none() | st.integers(0, 20)] * 4), st.booleans())
def test_whatever_is_left_out_has_nothing_waiting_and_no_broken_order(drawn: list[tuple[Any, bool]]) -> None:
    rows = [
        queue_row(consumer, pull, low, high, consumer_offset_read_at=READ_AT if was_read else None)
        for (low, high, consumer, pull), was_read in drawn
    ]
    for row, figures in zip(rows, figures_of(*rows), strict=True):
        if not figures["suspect"]:
            assert not offsets_of(row).order_violations()
            reached = row["min_offset"] if row["consumer_offset"] is None else row["consumer_offset"]
            assert row["max_offset"] == reached is not None


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
    assert [one["lag_ms"] for one in figures_of(*(row for row, _ in cases))] == [age for _, age in cases]


def test_a_groups_figures_are_those_of_its_queues() -> None:
    facts = facts_of(
        queue_row(consumer=4, pull=6, oldest_unconsumed_at=INTERVAL.end - timedelta(seconds=3)),
        queue_row(consumer=None, queue_id=1),
        queue_row(consumer=7, low=None, high=None, max_offset_read_at=None, queue_id=2),
        queue_row(consumer=2, low=5, queue_id=3, oldest_unconsumed_at=READ_AT - timedelta(seconds=8)),
        groups=[{"consumer_group": "billing", "online_client_count": 2, "message_model": "CLUSTERING"}],
    )
    (group,) = facts.groups
    assert (group.topic_kind, group.online_client_count) == ("normal", 2)
    assert (group.queue_count, group.unknown_queue_count, group.never_committed_queue_count) == (4, 1, 1)
    assert (group.lag, group.effective_lag, group.inflight, group.available, group.lost) == (14, 11, 2, 4, 3)
    assert group.lag_ms == 8_000
    assert facts.unseen_broker_names == {"broker-b"}


def test_a_queue_that_the_broker_does_not_have_is_in_no_fact() -> None:
    facts = facts_of(queue_row(low=None, high=None), queue_row(queue_id=1))
    assert facts.queues == ()
    assert [group.queue_count for group in facts.groups] == [1]


def test_a_lock_must_outlive_three_renewals() -> None:
    cases = [(True, 60_000, ()), (True, 59_999, ("OG-L01",)), (False, 1, ()), (True, None, ())]
    declared = [{"declared_orderly": orderly, "lock_max_live_time_ms": live_ms} for orderly, live_ms, _ in cases]
    groups = [{"consumer_group": str(n), "lock_interval_ms": 20_000, **one} for n, one in enumerate(declared)]
    facts = facts_of(*(queue_row(consumer_group=group["consumer_group"]) for group in groups), groups=groups)
    assert [group.violated_invariants for group in facts.groups] == [violated for _, _, violated in cases]
