"""What the difference of two rounds tells of moved offsets: cases, and a naive version that must say the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.snapshot_moves import MOVED_BACK_FLOOR, snapshot_moves
from offsetguard.model.intervals import Interval
from offsetguard.tables import OFFSET_MOVES, QUEUE_SNAPSHOTS
from offsetguard.tables.queue_state import MISSED_AFTER
from offsetguard_peers.cases.running import for_each

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
READ_AT = INTERVAL.start + timedelta(seconds=2)
MINUTE = timedelta(minutes=1)
UNKNOWN = None


def queue(offsets: tuple[int | None, int | None, int | None], read_at: datetime | None, **more: Any) -> Row:
    """Return a queue's row; `offsets` are min, consumer and max."""
    low, committed, high = offsets
    row = {"consumer_group": "billing", "topic": "orders", "broker_name": "broker-a", "queue_id": 0, "max_offset": high}
    return row | {"min_offset": low, "consumer_offset": committed, "consumer_offset_read_at": read_at} | more


def moves_of(before: list[Row], now: list[Row], **options: Any) -> list[Row]:
    tables = (table_of(QUEUE_SNAPSHOTS, rows) for rows in (before, now))
    return snapshot_moves(*tables, "main", INTERVAL, **options)


@for_each(
    "why, earlier, now, move",
    [
        ("it went on", (0, 100, 500), (0, 300, 600), None),
        ("it stands still", (0, 100, 500), (0, 100, 600), None),
        ("retention passed it and it went on behind that", (0, 100, 500), (200, 230, 600), (100, 200)),
        ("it goes on exactly at the oldest message", (0, 100, 500), (200, 200, 600), (100, 200)),
        ("retention passed it and it has not moved yet: another rule's case", (0, 100, 500), (200, 100, 600), None),
        ("it had read everything: what is deleted now came later", (0, 500, 500), (550, 600, 600), None),
        ("nobody knows whether it had read everything", (0, 100, UNKNOWN), (200, 230, 600), None),
        ("the oldest message is unknown", (0, 100, 500), (UNKNOWN, 230, 600), None),
        ("it was set back", (0, 400, 500), (0, 120, 600), (400, 120)),
        ("it was set back from beyond the end", (0, 4080, 40), (0, 5, 40), (40, 5)),
        ("from beyond the end to the end: nothing is consumed again", (0, 4080, 40), (0, 40, 40), None),
        ("the race of two commits", (0, 400, 500), (0, 400 - MOVED_BACK_FLOOR, 500), None),
        ("one more than the race", (0, 400, 500), (0, 400 - MOVED_BACK_FLOOR - 1, 500), (400, 389)),
        ("set back, and the end is unknown", (0, 400, UNKNOWN), (UNKNOWN, 120, UNKNOWN), (400, 120)),
        ("the queue was recreated", (100, 400, 500), (0, 20, 30), (400, 20)),
        ("never committed before", (0, UNKNOWN, 500), (200, 230, 600), None),
        ("the offset is gone", (0, 400, 500), (200, UNKNOWN, 600), None),
        ("a negative offset is corrupt, not moved", (0, 400, 500), (0, -5, 600), None),
    ],
)
def test_a_pair_of_readings_is_a_move_or_not(
    why: str,
    earlier: tuple[int | None, int | None, int | None],
    now: tuple[int | None, int | None, int | None],
    move: tuple[int, int] | None,
) -> None:
    found = moves_of([queue(earlier, READ_AT - MINUTE)], [queue(now, READ_AT)])
    assert [(row["requested_offset"], row["corrected_offset"]) for row in found] == ([move] if move else []), why


def test_a_row_is_complete_and_names_its_queue() -> None:
    before = [queue((0, 400, 500), READ_AT - MINUTE), queue((0, 1, 1), READ_AT - MINUTE, queue_id=1)]
    (row,) = moves_of(before, [queue((0, 120, 600), READ_AT)])
    assert row.keys() == {column.name for column in OFFSET_MOVES.columns}
    assert row["source"] == "broker-a/orders/0/billing"
    assert row["position"] == 1_795_257_540_000
    assert (row["moved_at"], row["origin"], row["client_id"]) == (READ_AT, "snapshot", None)


def test_overtaken_is_not_told_of_readings_that_lie_far_apart() -> None:
    """In hours a group with a backlog may have consumed what was deleted since; an offset that went back did so."""
    long_ago = READ_AT - MISSED_AFTER - timedelta(seconds=1)
    before = [queue((0, 100, 500), long_ago), queue((0, 400, 500), long_ago, queue_id=1)]
    now = [queue((200, 230, 600), READ_AT), queue((0, 120, 600), READ_AT, queue_id=1)]
    assert [row["queue_id"] for row in moves_of(before, now)] == [1]


def test_what_was_handed_out_before_it_was_deleted_is_not_overtaken() -> None:
    """Brokers from 5.1 on tell how far they handed out: what lies before that is in process at a client."""
    pulled = enumerate((None, 150, 200))
    before = [queue((0, 100, 500), READ_AT - MINUTE, queue_id=number, pull_offset=pull) for number, pull in pulled]
    now = [queue((200, 230, 600), READ_AT, queue_id=number) for number in range(3)]
    moves = {row["queue_id"]: (row["requested_offset"], row["corrected_offset"]) for row in moves_of(before, now)}
    assert moves == {0: (100, 200), 1: (150, 200)}


def test_pop_groups_are_left_out() -> None:
    sides = [queue((0, 400, 500), READ_AT - MINUTE)], [queue((0, 120, 600), READ_AT)]
    assert [len(moves_of(*sides, pop_groups={group})) for group in ("billing", "other")] == [0, 1]


def naive(earlier: list[Row], now: list[Row]) -> set[tuple[str, int, int, int]]:
    """Say the same in plain words, row by row."""
    before_by_queue = {(row["consumer_group"], row["queue_id"]): row for row in earlier}
    found = set()
    for after in now:
        before = before_by_queue.get((after["consumer_group"], after["queue_id"]))
        if before is None or None in (before["consumer_offset"], after["consumer_offset"]):
            continue
        requested, committed, low = before["consumer_offset"], after["consumer_offset"], after["min_offset"]
        had_waiting = before["max_offset"] is not None and requested < before["max_offset"]
        if had_waiting and low is not None and requested < low <= committed:
            found.add((after["consumer_group"], after["queue_id"], requested, low))
        elif committed < requested - MOVED_BACK_FLOOR:
            end = before["max_offset"]
            within = requested if end is None else min(requested, end)
            if within > committed:
                found.add((after["consumer_group"], after["queue_id"], within, committed))
    return found


OFFSETS = st.none() | st.integers(0, 30) | st.integers(0, 2**63 - 1)
ROUNDS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), st.tuples(OFFSETS, OFFSETS, OFFSETS), max_size=8
)


@given(ROUNDS, ROUNDS, st.randoms())
def test_the_columns_say_what_the_naive_version_says_in_whatever_order(earlier: Any, now: Any, random: Any) -> None:
    before, after = (
        [queue(offsets, at, consumer_group=group, queue_id=number) for (group, number), offsets in drawn.items()]
        for drawn, at in ((earlier, READ_AT - MINUTE), (now, READ_AT))
    )
    names = ("consumer_group", "queue_id", "requested_offset", "corrected_offset")
    for rows in (after, random.sample(after, len(after))):
        found = [tuple(row[name] for name in names) for row in moves_of(before, rows)]
        assert sorted(found) == sorted(naive(before, after))
