"""How offsets were moved: what two rounds show, and where an ordered reset, of which a log tells, took each queue."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.resets import QueueReset, ordered_resets, reset_moves, told_after, went_to
from offsetguard.collect.snapshot_moves import MOVED_BACK_FLOOR, snapshot_moves
from offsetguard.model.intervals import Interval
from offsetguard.sources.logs.events import LogEvent, LogOrigin
from offsetguard.sources.rocketmq.requests import SearchOffsetByTimestamp
from offsetguard.tables import CLIENT_SNAPSHOTS, OFFSET_MOVES, QUEUE_SNAPSHOTS
from offsetguard.tables.queue_state import MISSED_AFTER
from offsetguard_peers.cases.running import for_each

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
NOW = INTERVAL.start + timedelta(seconds=2)
MINUTE = timedelta(minutes=1)
QUEUE = ("billing", "orders", "broker-a", 0)
ONLINE, OFFLINE = (GroupMembers(count, "CLUSTERING", "CONSUME_PASSIVELY", frozenset()) for count in (1, 0))
ORDER = LogEvent(
    LogOrigin("broker-a", "1:2", "broker-a", 0),
    position=4711,
    line=1,
    at=NOW - timedelta(seconds=30.5),  # in the second before the middle of the two rounds
    kind="offset_reset_started",
    level="INFO",
    thread="AdminBrokerThread_1",
    fields={},
)


def queues(committed: int | None, end: int | None, read_at: datetime, oldest: int = 0) -> pa.Table:
    row = dict(zip(("consumer_group", "topic", "broker_name", "queue_id"), QUEUE, strict=True)) | {"cluster": "main"}
    row |= {
        "consumer_offset": committed,
        "min_offset": oldest,
        "max_offset": end,
        "max_offset_read_at": None if end is None else read_at,
    }
    return table_of(QUEUE_SNAPSHOTS, [row])


def clients(tps: float | None, rt_ms: float, *, newcomer: str | None = None) -> pa.Table:
    """Return three clients that finish a third of it each; two brokers see b, and c does not say so."""
    names = ("client_id", "broker_name", "consume_ok_tps")
    each = None if tps is None else tps / 3
    seen = [("a", "x", each), ("b", "x", each), ("b", "y", each), ("c", "x", None)]
    seen += [(newcomer, "x", None)] if newcomer else []
    rows = [dict(zip(names, one, strict=True)) for one in seen]
    return table_of(CLIENT_SNAPSHOTS, [{**row, "consumer_group": "billing", "consume_rt_ms": rt_ms} for row in rows])


def this_round(
    committed: int | None, end: int | None, *, oldest: int = 0, newcomer: str | None = None
) -> Mapping[str, pa.Table]:
    names = QUEUE_SNAPSHOTS.name, CLIENT_SNAPSHOTS.name
    return dict(zip(names, (queues(committed, end, NOW, oldest), clients(0.0, 0.0, newcomer=newcomer)), strict=True))


def moved(
    before: tuple[int | None, int | None],
    after: tuple[int | None, int | None],
    target: int | None,
    members: Mapping[str, GroupMembers],
    tps: float | None = 0.0,
    *,
    rt_ms: float = 0.0,
    told_after: timedelta = timedelta(),
    oldest: int = 0,
    oldest_now: int = 0,
    is_written: bool = False,
    went_to: int | None = None,
    ago_s: float = 30.5,
    newcomer: str | None = None,
) -> tuple[int, int] | None:
    earlier = EarlierRound(
        tables={QUEUE_SNAPSHOTS.name: queues(*before, NOW - MINUTE, oldest), CLIENT_SNAPSHOTS.name: clients(tps, rt_ms)}
    )
    order = replace(ORDER, at=NOW - timedelta(seconds=ago_s))
    reset = QueueReset(order, QUEUE, target, told_after, is_written, went_to)
    now = this_round(*after, oldest=oldest_now, newcomer=newcomer)
    found = list(reset_moves([reset], earlier, now, members, INTERVAL))
    for row in found:
        assert (row["origin"], row["moved_at"], row["queue_id"]) == ("reset", order.at, 0)
    return (found[0]["requested_offset"], found[0]["corrected_offset"]) if found else None


@for_each(
    "why, before, after, target, expected",
    [
        ("back, and regained since: nothing else shows it", (990, 1000), (1600, 1600), 700, (1300, 700)),
        ("back, and seen back", (990, 1000), (800, 1600), 700, (1300, 700)),
        (
            "forward to the end, with nothing waiting: nothing is skipped",
            (1000, 1000),
            (1600, 1600),
            None,
            (1300, 1300),
        ),
        ("forward, and it is there: 2 a second since its last commit", (400, 1000), (1400, 1600), None, (465, 1300)),
        ("back, of a slow group", (400, 1000), (200, 1600), 100, (465, 100)),
        ("it stands where it was set", (700, 1000), (700, 1600), 760, (700, 760)),
        ("it never committed", (None, 1000), (700, 1600), 700, None),
        ("the round before did not see the queue", (990, None), (700, 1600), 700, None),
        ("this round did not see it", (990, 1000), (700, None), 700, None),
    ],
)
def test_a_queue_went_from_where_it_was_consumed_to_where_it_was_set(
    why: str, before: Any, after: Any, target: int | None, expected: tuple[int, int] | None
) -> None:
    assert moved(before, after, target, {"billing": ONLINE}, tps=2.0) == expected, why


@for_each(
    "why, ago_s, is_written, committed_since, expected",
    [
        ("its clients wait for 10 s before they go", 9.0, False, 640, (640, 1500)),
        ("they may have gone to where it was set then", 14.0, False, 1490, None),
        ("they went there long ago: the broker may have set it further back than it says now", 30.5, False, 1450, None),
        ("the log says where, and this is before it: nobody was told yet", 30.5, True, 640, (640, 1500)),
        ("it stands", 30.5, False, 500, (500, 1500)),
    ],
)
def test_a_commit_before_the_target_is_one_of_before_the_order_unless_the_broker_was_only_asked_for_it(
    why: str, ago_s: float, is_written: bool, committed_since: int, expected: tuple[int, int] | None
) -> None:
    """4.9.7, seen live: 26 skipped of 471, as commits behind the reset lay before the offset asked for 37 s later."""
    sides = (500, 1000), (committed_since, 1600)
    assert moved(*sides, 1500, {"billing": ONLINE}, 2.0, is_written=is_written, ago_s=ago_s) == expected, why


def test_a_client_that_came_since_may_be_slow_whatever_its_group_was_before() -> None:
    """5.5.0, seen live: a group that had kept up was deployed anew, fell behind, and was set to the end: 0 skipped."""
    for what, before, after, expected in (
        ("it kept up", (999, 1000), (1300, 1600), None),
        ("it was behind", (400, 1000), (1300, 1600), None),
        ("nothing has come since", (1300, 1300), (1300, 1300), (1300, 1300)),
        ("this round still saw where it was", (999, 1000), (1100, 1600), (1100, 1300)),
    ):
        moves = moved(before, after, 1300, {"billing": ONLINE}, 2.0, newcomer="d", is_written=True)
        assert moves == expected, what


def test_a_group_without_clients_is_where_it_committed() -> None:
    assert moved((1000, 1000), (700, 1600), 700, {"billing": OFFLINE}, tps=2.0) == (1000, 700)
    assert moved((1000, 1000), (700, 1600), 700, {}) == (1300, 700), "not known to have none"
    assert moved((400, 1000), (1550, 1600), 700, {"billing": OFFLINE}) is None, (
        "one came, committed behind it, and went"
    )


def test_where_a_queue_was_is_not_known_where_no_client_says_how_fast_the_group_goes() -> None:
    """A pace that is unknown is not 0: 400 of a queue that is behind would be where it was 30 s before."""
    for what, before, expected in (
        ("it is behind", (400, 1000), None),
        ("it keeps up", (990, 1000), (1300, 1600)),
        ("it has nothing to go on with", (1300, 1300), (1300, 1600)),
    ):
        after = (1600, 1300 if before[1] == 1300 else 1600)
        assert moved(before, after, 1600, {"billing": ONLINE}, tps=None) == expected, what
    assert moved((400, 1000), (1600, 1600), 1600, {"billing": OFFLINE}, tps=None) == (400, 1600), "it stands"


def test_what_retention_had_deleted_is_not_skipped_by_a_reset() -> None:
    """4.9.7, seen live: 1,600 messages to the end and 575 of them skipped, of which 411 had been deleted."""
    for oldest, requested in ((0, 465), (460, 465), (900, 900), (1500, 1300)):
        moves = moved((400, 1000), (1400, 1600), None, {"billing": ONLINE}, tps=2.0, oldest=oldest)
        assert moves == (requested, 1300), oldest
    assert moved((400, 1000), (450, 1600), 450, {"billing": OFFLINE}, oldest=440) == (440, 450)
    assert moved((700, 1000), (100, 1600), 100, {"billing": OFFLINE}, oldest=90) == (700, 100), "back"


@pytest.mark.parametrize("minutes", [2, 5])
def test_where_a_queue_was_is_not_known_if_a_round_was_missed(minutes: int) -> None:
    """4.9.7, seen live: 5 min without a round told of 2,812 messages skipped, where it was at the end all the time.

    And 2 min told of 20, where it had been slow for one.
    """
    for committed, expected in ((1300, None), (1450, 1450), (400, 400)):
        earlier = EarlierRound(
            tables={
                QUEUE_SNAPSHOTS.name: queues(400, 1000, NOW - minutes * MINUTE),
                CLIENT_SNAPSHOTS.name: clients(2.0, 0.0),
            }
        )
        target = 1600 if committed == 1450 else 1300
        now = this_round(committed, 1600)
        for members in (ONLINE, OFFLINE):
            resets = [QueueReset(ORDER, QUEUE, target, is_written=committed == 1450)]
            found = list(reset_moves(resets, earlier, now, {"billing": members}, INTERVAL))
            assert [row["requested_offset"] for row in found] == ([] if expected is None else [expected])


def test_without_a_round_before_nobody_knows_from_where() -> None:
    assert list(reset_moves([QueueReset(ORDER, QUEUE, 1)], EarlierRound(), this_round(1, 2), {}, INTERVAL)) == []


def test_where_a_queue_was_is_not_known_if_it_was_not_read_before_the_order_and_after_it() -> None:
    """`check` reads lines of half an hour, and a bundle may hold lines that were written behind its last round."""
    seen = {QUEUE_SNAPSHOTS.name: queues(990, 1000, NOW - MINUTE), CLIENT_SNAPSHOTS.name: clients(None, 0.0)}
    earlier = EarlierRound(tables=seen)
    for at, known in ((NOW - 2 * MINUTE, 0), (NOW - MINUTE, 1), (NOW, 1), (NOW + MINUTE, 0)):
        reset = QueueReset(replace(ORDER, at=at), QUEUE, 700)
        assert len(list(reset_moves([reset], earlier, this_round(700, 1600), {}, INTERVAL))) == known, at


def test_a_client_that_is_told_when_it_pulls_next_has_gone_on_until_then_and_finishes_what_it_has_in_hand() -> None:
    waited = timedelta(seconds=4)
    assert moved((400, 1000), (1400, 1600), None, {"billing": ONLINE}, tps=2.0, told_after=waited) == (473, 1300)
    slow = moved((400, 1000), (1400, 1600), None, {"billing": ONLINE}, tps=2.0, rt_ms=3_000.0)
    assert slow == (471, 1300), "six messages in hand"


@for_each(
    "why, target, is_written, went_to, expected",
    [
        ("all up to 1400 is deleted now: its clients went back, and committed there", 1400, False, 700, (1300, 700)),
        ("no line says where they went", 1400, False, None, None),
        ("where it was set stands in the log of 5.x", 700, True, None, (1300, 700)),
        ("what was deleted lies before it", 1450, False, None, (1300, 1450)),
    ],
)
def test_what_a_broker_answers_after_messages_were_deleted_is_not_where_it_set_the_queue(
    why: str, target: int, is_written: bool, went_to: int | None, expected: tuple[int, int] | None
) -> None:
    """4.9.7, seen live: "0 are consumed again and 124 are skipped" of a reset by which 716 were consumed again."""
    given = {"oldest_now": 1400, "is_written": is_written, "went_to": went_to}
    assert moved((990, 1000), (1600, 1600), target, {"billing": ONLINE}, **given) == expected, why


def test_where_clients_went_stands_in_the_line_about_their_first_commit_which_they_make_after_ten_seconds() -> None:
    def line(after_s: int, offset: int, queue_id: int = 0, topic: str = "orders", broker: str = "broker-a") -> LogEvent:
        origin = replace(ORDER.origin, broker_name=broker)
        fields = {"topic": topic, "consumer_group": "billing", "queue_id": queue_id, "requested_offset": offset}
        at = ORDER.at + timedelta(seconds=after_s)
        return replace(ORDER, origin=origin, at=at, kind="commit_moved_back", fields=fields)

    others = [line(1, 5), line(10, 6, queue_id=1), line(10, 7, topic="refunds"), line(10, 8, broker="broker-b")]
    reset = QueueReset(ORDER, QUEUE, 900)
    assert went_to(reset, [*others, line(14, 710), line(10, 700)]) == 700
    assert went_to(reset, [*others, line(40, 710)]) is None


def test_when_clients_were_told_stands_in_the_lines_of_that_group_and_target() -> None:
    def line(after_s: int, topic: str = "orders", target: int = 700, broker_name: str = "broker-a") -> LogEvent:
        origin = replace(ORDER.origin, broker_name=broker_name)
        fields = {"topic": topic, "consumer_group": "billing", "requested_offset": 990, "corrected_offset": target}
        at = ORDER.at + timedelta(seconds=after_s)
        return replace(ORDER, origin=origin, at=at, kind="offset_corrected", fields=fields)

    others = [line(-3), line(9, topic="refunds"), line(9, target=650), line(9, broker_name="broker-b")]
    assert told_after(QueueReset(ORDER, QUEUE, 700), [line(2), *others, line(4)]) == timedelta(seconds=3)
    assert told_after(QueueReset(ORDER, QUEUE, 700), others) == timedelta(), "4.x: at once"
    until_it_pulls = timedelta(seconds=7.5)
    assert told_after(QueueReset(ORDER, QUEUE, 700, until_it_pulls), others) == until_it_pulls, "5.x"
    assert told_after(QueueReset(ORDER, QUEUE, None), [line(2), line(4, target=701)]) == timedelta(seconds=3)


def test_where_queues_were_set_stands_in_the_log_of_5_x_and_is_asked_of_4_x() -> None:
    order = replace(ORDER, fields={"topic": "orders", "consumer_group": "billing", "target_timestamp_ms": 1_000})
    committed = {("orders", "billing"): (0, 1), ("refunds", "billing"): (0,)}

    def stored(line: str, after: int = 1) -> LogEvent:
        fields = {"topic": "orders", "consumer_group": "billing", "offsets": line}
        return replace(order, kind="offset_reset_stored", position=order.position + after, fields=fields)

    def found(*events: LogEvent, broker_name: str = "broker-a") -> list[tuple[int, int | None, object]]:
        return [(one.queue[3], one.target, ask) for one, ask in ordered_resets(broker_name, committed, events)]

    ask = [(queue_id, None, SearchOffsetByTimestamp("orders", queue_id, 1_000)) for queue_id in (0, 1)]
    assert found(order) == ask, "4.x does not say where they went"
    both = stored(f'{{"offsetTable":{{{KEY.format(1)}:100,{KEY.format(0)}:325}}}}')
    assert found(both, order) == [(0, 325, None), (1, 100, None)]
    one = stored(f'{{"offsetTable":{{{KEY.format(1)}:7}}}}', after=3)
    again = replace(order, position=order.position + 2)
    assert found(order, both, again, one) == [(0, 325, None), (1, 7, None)], "the second one named a queue"
    for unreadable in ('{"offsetTable":{{"brokerName"', '{"offsetTable":{"orders":1}}', '{"offsetTable":[]}'):
        assert found(order, stored(unreadable)) == ask
    assert found(replace(both, position=1), order) == ask, "of an order before"
    assert found(order, replace(both, thread="AdminBrokerThread_2")) == ask, "of another order"
    assert found(order, broker_name="broker-b") == [], "each broker sets its own queues"
    end = replace(order, fields={**order.fields, "target_timestamp_ms": -1})
    assert found(end) == [(0, None, None), (1, None, None)], "its end is known"


KEY = '{{"brokerName":"broker-a","queueId":{},"topic":"orders"}}'
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
    found = moves_of([queue(earlier, NOW - MINUTE)], [queue(now, NOW)])
    assert [(row["requested_offset"], row["corrected_offset"]) for row in found] == ([move] if move else []), why


def test_a_row_is_complete_and_names_its_queue() -> None:
    before = [queue((0, 400, 500), NOW - MINUTE), queue((0, 1, 1), NOW - MINUTE, queue_id=1)]
    (row,) = moves_of(before, [queue((0, 120, 600), NOW)])
    assert row.keys() == {column.name for column in OFFSET_MOVES.columns}
    assert row["source"] == "broker-a/orders/0/billing"
    assert row["position"] == 1_795_257_540_000
    assert (row["moved_at"], row["origin"], row["client_id"]) == (NOW, "snapshot", None)


def test_overtaken_is_not_told_of_readings_that_lie_far_apart() -> None:
    """In hours a group with a backlog may have consumed what was deleted since; an offset that went back did so."""
    long_ago = NOW - MISSED_AFTER - timedelta(seconds=1)
    before = [queue((0, 100, 500), long_ago), queue((0, 400, 500), long_ago, queue_id=1)]
    now = [queue((200, 230, 600), NOW), queue((0, 120, 600), NOW, queue_id=1)]
    assert [row["queue_id"] for row in moves_of(before, now)] == [1]


def test_what_was_handed_out_before_it_was_deleted_is_not_overtaken() -> None:
    """Brokers from 5.1 on tell how far they handed out: what lies before that is in process at a client."""
    pulled = enumerate((None, 150, 200))
    before = [queue((0, 100, 500), NOW - MINUTE, queue_id=number, pull_offset=pull) for number, pull in pulled]
    now = [queue((200, 230, 600), NOW, queue_id=number) for number in range(3)]
    moves = {row["queue_id"]: (row["requested_offset"], row["corrected_offset"]) for row in moves_of(before, now)}
    assert moves == {0: (100, 200), 1: (150, 200)}


def test_pop_groups_are_left_out() -> None:
    sides = [queue((0, 400, 500), NOW - MINUTE)], [queue((0, 120, 600), NOW)]
    assert [len(moves_of(*sides, pop_groups={group})) for group in ("billing", "other")] == [0, 1]


def test_the_order_of_the_queues_does_not_matter() -> None:
    before = [queue((0, 400 + number, 500), NOW - MINUTE, queue_id=number) for number in range(4)]
    now = [queue((0, 400 - 100 * number, 600), NOW, queue_id=number) for number in range(4)]
    for after in (now, now[::-1]):
        moves = {(row["queue_id"], row["requested_offset"], row["corrected_offset"]) for row in moves_of(before, after)}
        assert moves == {(1, 401, 300), (2, 402, 200), (3, 403, 100)}
