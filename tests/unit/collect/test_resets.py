"""What an ordered reset did: from where to where each queue went, of what two rounds and a line of a log tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.landing import table_of
from offsetguard.collect.resets import QueueReset, ordered_resets, reset_moves, told_after
from offsetguard.model.intervals import Interval
from offsetguard.sources.logs.events import LogEvent, LogOrigin
from offsetguard.sources.rocketmq.requests import SearchOffsetByTimestamp
from offsetguard.tables import CLIENT_SNAPSHOTS, QUEUE_SNAPSHOTS
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


def queues(committed: int | None, end: int | None, read_at: datetime) -> pa.Table:
    row = dict(zip(("consumer_group", "topic", "broker_name", "queue_id"), QUEUE, strict=True)) | {"cluster": "main"}
    row |= {"consumer_offset": committed, "max_offset": end, "max_offset_read_at": None if end is None else read_at}
    return table_of(QUEUE_SNAPSHOTS, [row])


def clients(tps: float, rt_ms: float) -> pa.Table:
    """Return two clients that finish half of it each, one of which two brokers see, and one that has not said."""
    names = ("client_id", "broker_name", "consume_ok_tps")
    seen = [("a", "x", tps / 2), ("b", "x", tps / 2), ("b", "y", tps / 2), ("c", "x", None)]
    rows = [dict(zip(names, one, strict=True)) for one in seen]
    return table_of(CLIENT_SNAPSHOTS, [{**row, "consumer_group": "billing", "consume_rt_ms": rt_ms} for row in rows])


def moved(
    before: tuple[int | None, int | None],
    after: tuple[int | None, int | None],
    target: int | None,
    members: Mapping[str, GroupMembers],
    tps: float = 0.0,
    *,
    rt_ms: float = 0.0,
    told_after: timedelta = timedelta(),
) -> tuple[int, int] | None:
    earlier = EarlierRound(
        tables={QUEUE_SNAPSHOTS.name: queues(*before, NOW - MINUTE), CLIENT_SNAPSHOTS.name: clients(tps, rt_ms)}
    )
    reset = QueueReset(ORDER, QUEUE, target, told_after)
    found = list(reset_moves([reset], earlier, queues(*after, NOW), members, INTERVAL))
    for row in found:
        assert (row["origin"], row["moved_at"], row["queue_id"]) == ("reset", ORDER.at, 0)
    return (found[0]["requested_offset"], found[0]["corrected_offset"]) if found else None


@for_each(
    "why, before, after, target, expected",
    [
        ("back, and regained since: nothing else shows it", (990, 1000), (1600, 1600), 700, (1300, 700)),
        ("back, and seen back", (990, 1000), (800, 1600), 700, (1300, 700)),
        ("forward to the end, with nothing waiting: nothing is skipped", (1000, 1000), (1600, 1600), None, None),
        ("forward, and this round still saw where it was", (500, 1000), (640, 1600), None, (640, 1300)),
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


def test_a_group_without_clients_is_where_it_committed() -> None:
    assert moved((1000, 1000), (700, 1600), 700, {"billing": OFFLINE}, tps=2.0) == (1000, 700)
    assert moved((1000, 1000), (700, 1600), 700, {}) == (1300, 700), "not known to have none"


def test_without_a_round_before_nobody_knows_from_where() -> None:
    assert list(reset_moves([QueueReset(ORDER, QUEUE, 1)], EarlierRound(), queues(1, 2, NOW), {}, INTERVAL)) == []


def test_a_client_that_is_told_when_it_pulls_next_has_gone_on_until_then_and_finishes_what_it_has_in_hand() -> None:
    waited = timedelta(seconds=4)
    assert moved((400, 1000), (1400, 1600), None, {"billing": ONLINE}, tps=2.0, told_after=waited) == (473, 1300)
    slow = moved((400, 1000), (1400, 1600), None, {"billing": ONLINE}, tps=2.0, rt_ms=3_000.0)
    assert slow == (471, 1300), "six messages in hand"


def test_when_clients_were_told_stands_in_the_lines_of_that_group_and_target() -> None:
    def line(after_s: int, topic: str = "orders", target: int = 700, broker_name: str = "broker-a") -> LogEvent:
        origin = replace(ORDER.origin, broker_name=broker_name)
        fields = {"topic": topic, "consumer_group": "billing", "requested_offset": 990, "corrected_offset": target}
        at = ORDER.at + timedelta(seconds=after_s)
        return replace(ORDER, origin=origin, at=at, kind="offset_corrected", fields=fields)

    others = [line(-3), line(9, topic="refunds"), line(9, target=650), line(9, broker_name="broker-b")]
    assert told_after(QueueReset(ORDER, QUEUE, 700), [line(2), *others, line(4)]) == timedelta(seconds=3)
    assert told_after(QueueReset(ORDER, QUEUE, 700), others) == timedelta(), "4.x: at once"
    assert told_after(QueueReset(ORDER, QUEUE, None), [line(2), line(4, target=701)]) == timedelta(seconds=3)


def test_where_a_queue_was_set_stands_in_the_log_of_5_x_and_is_asked_of_4_x() -> None:
    order = replace(ORDER, fields={"topic": "orders", "consumer_group": "billing", "target_timestamp_ms": 1_000})
    line = {"topic": "orders", "consumer_group": "billing", "queue_id": 0, "corrected_offset": 325}
    stored = replace(ORDER, kind="offset_reset_stored", fields=line)
    before = replace(stored, at=ORDER.at - timedelta(seconds=9), fields={**line, "queue_id": 1, "corrected_offset": 7})
    committed = {("orders", "billing"): (0, 1), ("refunds", "billing"): (0,)}

    found = list(ordered_resets("broker-a", committed, [before, order, stored]))

    asked = SearchOffsetByTimestamp("orders", 1, 1_000)
    assert [(one.queue, one.target, request) for one, request in found] == [
        (QUEUE, 325, None),
        ((*QUEUE[:3], 1), None, asked),
    ]
    assert list(ordered_resets("broker-b", committed, [order])) == [], "each broker sets its own queues"
    end = replace(order, fields={**order.fields, "target_timestamp_ms": -1})
    assert [request for _, request in ordered_resets("broker-a", committed, [end])] == [None, None]
