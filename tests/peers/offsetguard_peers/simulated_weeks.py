"""A cluster's week, minute by minute: the facts of each cycle, made by the product's own fold and sums.

Of what a cycle does, this leaves out only the machines: brokers, Spark, tables. Snapshots are computed
(`weekly_groups.py`), some of them are missing, in some a broker did not answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from offsetguard.collect.snapshot_moves import EARLIER_COLUMNS, NOW_COLUMNS, snapshot_moves
from offsetguard.config.judgement import Judgement
from offsetguard.fact_queries import FactQueries, Moment
from offsetguard.fact_rows import queue_facts_of
from offsetguard.facts import ClusterFacts, IntervalFacts, OffsetMoveFacts, UnseenBrokerFacts
from offsetguard.intervals import Interval
from offsetguard.tables import OFFSET_MOVE_FACTS, OFFSET_MOVES
from offsetguard_peers.queue_answers import StandingQueues
from offsetguard_peers.simulated_facts import (
    BROKERS,
    MONDAY,
    MOST_CACHED,
    STEPS_PER_CYCLE,
    broker_facts,
    gap,
    group_facts,
    held,
    topic_facts,
    traffic_hours,
)
from offsetguard_peers.weekly_groups import STEP_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from offsetguard.collect.landing import Row
    from offsetguard_peers.weekly_groups import Counts, WeeklyGroup

CLUSTER = "weeks"
_COLUMNS = (
    "pull_offset",
    "pull_offset_read_at",
    "last_timestamp",
    "oldest_unconsumed_at",
)


@dataclass
class SimulatedWeek:
    """Groups of one cluster; `missing`: minutes without a snapshot; `unseen`: (minute, broker) without an answer.

    `away`: minutes whose snapshots have no row of a group, by its name: many outages at once, each of another group.
    """

    groups: Sequence[WeeklyGroup]
    missing: frozenset[int] = frozenset()
    unseen: frozenset[tuple[int, str]] = frozenset()
    away: Mapping[str, Collection[int]] = field(default_factory=dict)
    _queues: StandingQueues = field(default_factory=StandingQueues)
    _before: dict[tuple[str, int], Row] = field(default_factory=dict)  # the last row of each queue
    _moves: list[Row] = field(default_factory=list)

    def cycles(self, first: int, last: int) -> Iterator[tuple[int, IntervalFacts]]:
        """Yield (minute of the week, facts) of each cycle that takes place; windows go on from call to call."""
        for minute in range(first, last):
            all_away = all(minute in self.away.get(group.name, ()) for group in self.groups) and self.groups
            if minute not in self.missing and not all_away:
                yield minute, self._facts(minute)

    def _facts(self, minute: int) -> IntervalFacts:
        interval = Interval(MONDAY + timedelta(minutes=minute))
        unseen = frozenset(broker for at, broker in self.unseen if at == minute)
        gone = [self._unseen_since(minute, broker, interval) for broker in sorted(unseen)]
        earlier = dict(self._before)
        by_name = {group.name: group for group in self.groups if minute not in self.away.get(group.name, ())}
        seen = by_name.values()
        rows = [self._row(group, n, minute, interval, unseen) for group in seen for n in range(group.queue_count)]
        figures, suspects = self._queues.fold(rows, interval)
        of_group = {name: [row for row in figures if row["consumer_group"] == name] for name in by_name}
        groups = [group_facts(group, minute, of_group[group.name]) for group in seen]
        topics = [topic_facts(group, minute, of_group[group.name]) for group in seen]
        suspects = [row for row in suspects if row["consumer_group"] in by_name]
        queues = [queue_facts_of(row | held(by_name[row["consumer_group"]], minute, row)) for row in suspects]
        self._moves += _moves(earlier, self._before, interval)
        answered = len(BROKERS) - len(unseen)
        return IntervalFacts(
            cluster=CLUSTER,
            interval=interval,
            now=interval.end,
            queues=tuple(queues),
            groups=tuple(groups),
            topics=tuple(topics),
            brokers=tuple(broker_facts(name, interval.start, answered=name not in unseen) for name in BROKERS),
            cluster_facts=ClusterFacts(len(BROKERS), len(BROKERS), answered, len(topics), len(groups)),
            offset_moves=self._offset_moves(interval),
            unseen_broker_names=unseen,
            unseen_brokers=tuple(gone),
            gaps=tuple(gap(one.broker_name, one.unseen_since) for one in gone),
            traffic_hours=tuple(traffic_hours(self.groups, minute, interval)),
        )

    def _offset_moves(self, interval: Interval) -> tuple[OffsetMoveFacts, ...]:
        window = timedelta(milliseconds=Judgement().offset_move_window_ms)
        recent = [move for move in self._moves if move["moved_at"] >= interval.end - window]
        if not recent:
            return ()
        moment = Moment(0, interval.start, interval.end)
        queries = FactQueries([{OFFSET_MOVES.name: recent}], [moment], Judgement())
        return queries.about(0).records(OFFSET_MOVE_FACTS, OffsetMoveFacts)

    def _unseen_since(self, minute: int, broker: str, interval: Interval) -> UnseenBrokerFacts:
        first = minute
        while ((before := minute_before(first, self.missing)), broker) in self.unseen:
            first = before
        return UnseenBrokerFacts(broker, interval.start + timedelta(seconds=2) - timedelta(minutes=minute - first))

    def _row(self, group: WeeklyGroup, number: int, minute: int, interval: Interval, unseen: frozenset[str]) -> Row:
        row = _row(group, number, minute, interval, unseen)
        if row["max_offset"] is not None:
            self._before[group.name, number] = row
        return row


def minute_before(minute: int, missing: Collection[int]) -> int:
    """Return the minute of the snapshot before: a round that was not made tells nothing of a broker."""
    before = minute - 1
    while before in missing:
        before -= 1
    return before


def _row(group: WeeklyGroup, number: int, minute: int, interval: Interval, unseen: frozenset[str]) -> Row:
    """Return the queue's row of `queue_snapshots`, as read five seconds after the minute began."""
    broker = BROKERS[number % len(BROKERS)]
    row: dict[str, Any] = dict.fromkeys((*_COLUMNS, "min_offset", "max_offset", "consumer_offset"))
    row |= {"cluster": CLUSTER, "interval_start": interval.start}
    row |= {"consumer_group": group.name, "topic": group.topic, "broker_name": broker, "queue_id": number}
    row |= {"consumer_offset_read_at": None, "max_offset_read_at": None, "origin": "broker"}
    if broker in unseen:
        return row
    step = minute * STEPS_PER_CYCLE
    written, committed = group.written[number], int(group.committed[number, step])
    read_at = interval.start + timedelta(seconds=5)
    row |= {
        "min_offset": int(group.oldest[number, step]),
        "max_offset": int(written[step]),
        "consumer_offset": committed,
        "pull_offset": int(min(written[step], committed + _in_process(group, number, step))),
        "consumer_offset_read_at": read_at,
        "pull_offset_read_at": read_at + timedelta(milliseconds=100),
        "max_offset_read_at": read_at + timedelta(milliseconds=200),
        "last_timestamp": _written_at(written, committed - 1),
    }
    if committed < written[step]:
        row["oldest_unconsumed_at"] = _written_at(written, committed)
    return row


def _in_process(group: WeeklyGroup, number: int, step: int) -> int:
    """Return how many messages are pulled and not committed: a client holds at most 1,000 of a queue."""
    if not group.online[step] or group.is_left_at(step, number):
        return 0
    return min(MOST_CACHED, int(group.written[number, step] - group.committed[number, step]))


def written_at_step(written: Counts, offset: int) -> int:
    """Return the step in which the message with that offset was stored."""
    return min(int(np.searchsorted(written, offset, side="right")), len(written) - 1)


def _written_at(written: Counts, offset: int) -> datetime:
    return MONDAY + timedelta(seconds=written_at_step(written, offset) * STEP_S)


def _moves(earlier: Mapping[tuple[str, int], Row], now: Mapping[tuple[str, int], Row], interval: Interval) -> list[Row]:
    """Return what the collector would land of queues whose offsets went back or were overtaken."""
    pairs = [(before, now[key]) for key, before in earlier.items() if _moved(before, now[key])]
    if not pairs:
        return []
    before, after = (
        pa.Table.from_pylist([{name: row[name] for name in names} for row in rows])
        for names, rows in zip((EARLIER_COLUMNS, NOW_COLUMNS), zip(*pairs, strict=True), strict=True)
    )
    return snapshot_moves(before, after, CLUSTER, interval)


def _moved(before: Row, now: Row) -> bool:
    return bool(now["consumer_offset"] < before["consumer_offset"] or before["consumer_offset"] < now["min_offset"])
