"""A cluster's week, minute by minute: the facts of each cycle, made by the product's own fold and sums.

Of what a cycle does, this leaves out only the machines: brokers, Spark, tables. Snapshots are computed
(`weekly_groups.py`), some of them are missing, in some a broker did not answer.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.snapshot_moves import EARLIER_COLUMNS, NOW_COLUMNS, snapshot_moves
from offsetguard.config.groups import Judgement
from offsetguard.facts.interval import IntervalFacts, queue_facts_of
from offsetguard.facts.queries import FactQueries, Moment, MomentQueries, Tables
from offsetguard.model.gaps import UnseenBrokerFacts
from offsetguard.model.intervals import Interval
from offsetguard.tables import OFFSET_MOVE_FACTS, OFFSET_MOVES, QUEUE_FACTS, QUEUE_SNAPSHOTS
from offsetguard.tables.broker_facts import ClusterFacts
from offsetguard.tables.facts import OffsetMoveFacts
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
from offsetguard_peers.weekly_groups import STEP_S, Counts, WeeklyGroup

CLUSTER = "weeks"
_AT_ONCE = 60  # cycles
_LOOK_BACK = 120  # rounds that the windows are folded of, as the pipeline rebuilds them (`queue_state.LOOK_BACK`)
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
    _before: dict[tuple[str, int], Row] = field(default_factory=dict)  # the last row of each queue
    _rounds: deque[Tables] = field(default_factory=deque)  # that windows are folded of and moves looked back for

    def cycles(self, first: int, last: int) -> Iterator[tuple[int, IntervalFacts]]:
        """Yield (minute of the week, facts) of each cycle that takes place; windows go on from call to call."""
        minutes = [minute for minute in range(first, last) if minute not in self.missing]
        for begin in range(0, len(minutes), _AT_ONCE):
            yield from self._facts_of(minutes[begin : begin + _AT_ONCE])

    def _facts_of(self, minutes: Sequence[int]) -> Iterator[tuple[int, IntervalFacts]]:
        """Yield the facts of some cycles: a query costs as much for many of them as for one."""
        while len(self._rounds) > _LOOK_BACK:
            self._rounds.popleft()
        before = len(self._rounds)
        self._rounds.extend(self._round(minute) for minute in minutes)
        intervals = [Interval(MONDAY + timedelta(minutes=minute)) for minute in minutes]
        moments = [Moment(before + place, one.start, one.end) for place, one in enumerate(intervals)]
        queries = FactQueries(list(self._rounds), moments, Judgement())
        for place, minute in enumerate(minutes):
            yield minute, self._facts(minute, intervals[place], queries.about(place))

    def _round(self, minute: int) -> Tables:
        interval = Interval(MONDAY + timedelta(minutes=minute))
        unseen = self._unseen(minute)
        earlier = dict(self._before)
        rows = [
            self._row(group, n, minute, interval, unseen)
            for group in self._seen(minute)
            for n in range(group.queue_count)
        ]
        moves = _moves(earlier, self._before, interval)
        return {
            QUEUE_SNAPSHOTS.name: table_of(QUEUE_SNAPSHOTS, rows),
            OFFSET_MOVES.name: table_of(OFFSET_MOVES, moves),
        }

    def _seen(self, minute: int) -> list[WeeklyGroup]:
        return [group for group in self.groups if minute not in self.away.get(group.name, ())]

    def _unseen(self, minute: int) -> frozenset[str]:
        return frozenset(broker for at, broker in self.unseen if at == minute)

    def _facts(self, minute: int, interval: Interval, queries: MomentQueries) -> IntervalFacts:
        unseen = self._unseen(minute)
        gone = [self._unseen_since(minute, broker, interval) for broker in sorted(unseen)]
        of_group = defaultdict(list)
        for row in queries.rows("queue_figures"):
            of_group[row["consumer_group"]].append(row)
        by_name = {group.name: group for group in self._seen(minute)}
        groups = [group_facts(group, minute, of_group[name]) for name, group in by_name.items()]
        topics = [topic_facts(group, minute, of_group[name]) for name, group in by_name.items()]
        suspects = queries.rows(QUEUE_FACTS.name)
        queues = [queue_facts_of(row | held(by_name[row["consumer_group"]], minute, row)) for row in suspects]
        answered = len(BROKERS) - len(unseen)
        return IntervalFacts(
            cluster=CLUSTER,
            interval=interval,
            now=interval.end,
            queues=tuple(queues),
            groups=tuple(groups),
            topics=tuple(topics),
            brokers=tuple(broker_facts(name, interval.start, answered=name not in unseen) for name in BROKERS),
            cluster_facts=ClusterFacts(
                broker_count=len(BROKERS),
                replica_count=len(BROKERS),
                answered_replica_count=answered,
                topic_count=len(topics),
                consumer_group_count=len(groups),
            ),
            offset_moves=queries.records(OFFSET_MOVE_FACTS, OffsetMoveFacts),
            unseen_broker_names=unseen,
            unseen_brokers=tuple(gone),
            gaps=tuple(gap(one.broker_name, one.unseen_since) for one in gone),
            traffic_hours=tuple(traffic_hours(self.groups, minute, interval)),
        )

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
