"""A cluster's week, minute by minute: the facts of each cycle, made by the product's own fold and sums.

Of what a cycle does, this leaves out only the machines: brokers, Spark, tables. Snapshots are computed
(`weekly_groups.py`), some of them are missing, in some a broker did not answer.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.snapshot_moves import EARLIER_COLUMNS, NOW_COLUMNS, snapshot_moves
from offsetguard.config.groups import Judgement
from offsetguard.facts.interval import IntervalFacts, TrafficHour, queue_facts_of
from offsetguard.facts.queries import FactQueries, Moment, MomentQueries, Tables
from offsetguard.model.fact_records import CollectionGap, UnseenBrokerFacts
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import sum_of_known
from offsetguard.tables import OFFSET_MOVE_FACTS, OFFSET_MOVES, QUEUE_FACTS, QUEUE_SNAPSHOTS
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.facts import OffsetMoveFacts, TopicFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.table import LagCounts, LagTimes, columns_of
from offsetguard_peers.simulated.weekly_groups import STEP_S, Counts, Kind, WeeklyGroup

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
BROKERS = ("broker-a", "broker-b")
MOST_CACHED = 1_000  # pullThresholdForQueue
STEPS_PER_CYCLE = 60 // STEP_S
_LAGS, _AGES = ([one.name for one in columns_of(kind)] for kind in (LagCounts, LagTimes))


def gap(broker: str, first_missed_at: datetime | None) -> CollectionGap:
    """Give what a broker that did not answer leaves behind."""
    asked = "GET_ALL_CONSUMER_OFFSET"
    return CollectionGap("10.0.0.1:10911", broker, 0, asked, "unreachable", "connection refused", first_missed_at)


def traffic_hours(groups: Sequence[WeeklyGroup], minute: int, interval: Interval) -> Iterator[TrafficHour]:
    """Yield what was written in the hour before, in the first minute of the next one."""
    if minute % 60 or not minute:
        return
    began, ended = (minute - 60) * STEPS_PER_CYCLE, minute * STEPS_PER_CYCLE
    for group in groups:
        usual = group.usual[minute // 60 - 1]
        tps = float((group.written[:, ended] - group.written[:, began]).sum()) / 3_600
        hour = interval.start - timedelta(hours=1)
        yield TrafficHour(group.topic, hour, tps, usual.mean_tps, usual.spread_tps, usual.week_count)


def held(group: WeeklyGroup, minute: int, row: Row) -> Row:
    """Return what a suspect queue's client says of it, if one is online and the queue was seen."""
    if row["unknown_count"] or not group.online[minute * STEPS_PER_CYCLE]:
        return {}
    at = row["seen_at"]
    cached = int(row["pull_offset"] - row["consumer_offset"])
    return {
        "holder_client_id": "10.0.0.2@1",
        "holder_count": 1,
        "locked": group.orderly,
        "cached_message_count": cached,
        "cached_min_offset": row["consumer_offset"] if cached else None,
        "cached_max_offset": row["pull_offset"] - 1 if cached else None,
        "cache_is_full": cached >= MOST_CACHED,
        "last_lock_at": at if group.orderly else None,
        "last_pull_at": at,
        "last_consume_at": at,
    }


def group_facts(group: WeeklyGroup, minute: int, figures: Sequence[Row]) -> GroupFacts:
    """Give the facts of a group in its topic; its clients are asked when a queue is a suspect."""
    online = int(group.online[minute * STEPS_PER_CYCLE])
    sums = _sums(figures)
    produced, consumed = (sum_of_known(row[name] for row in figures) for name in ("produce_tps", "consume_tps"))
    filtered = group.kind is Kind.FILTERED
    in_detail = bool(sums["suspect_queue_count"] and online)
    told_by_clients: dict[str, Any] = {
        "told_client_count": online,
        "holding_client_count": min(online, len(figures)),
        "held_queue_count": len(figures),
        "idle_client_count": max(0, online - len(figures)),
        "thread_count": 20,
        "orderly": group.orderly,
        "consume_ok_tps": consumed,
        "consume_failed_tps": 1.0 if group.fails_at(minute * STEPS_PER_CYCLE) else 0.0,
        "max_reconsume_times": -1 if group.orderly else 16,
        "consume_rt_ms": group.handling_s * 1000,
    }
    return GroupFacts(
        consumer_group=group.name,
        topic=group.topic,
        topic_kind="normal",
        queue_count=len(figures),
        unknown_queue_count=sum(row["max_offset"] is None for row in figures),
        never_committed_queue_count=sum(row["never_committed"] for row in figures),
        **sums,
        online_client_count=online,
        message_model="CLUSTERING",
        consume_type="CONSUME_PASSIVELY",
        consumption="classic",
        system_group=False,
        produce_tps=produced,
        consume_tps=consumed,
        get_tps=consumed,
        master_get_tps=consumed,
        slave_get_tps=0.0,
        unseen_rate_count=0,
        reads_moved_to_slave=False,
        slave_read_broker_names=(),
        filtered=filtered,
        hit_ratio=0.1 if filtered else None,
        subscription_expressions=("rare" if filtered else "*",) if online else None,
        subscriptions_differ=False if online else None,
        members_differ=False if online else None,
        in_detail=in_detail,
        retry_message_count=0,
        retry_growth=0,
        dead_letter_message_count=0,
        dead_letter_growth=0,
        **(told_by_clients if in_detail else {}),
    )


def _sums(figures: Sequence[Row]) -> dict[str, Any]:
    lags = {name: sum_of_known(max(0, row[name]) for row in figures if row[name] is not None) for name in _LAGS}
    ages = {name: max((row[name] for row in figures if row[name] is not None), default=None) for name in _AGES}
    return {"suspect_queue_count": sum(row["suspect"] for row in figures), **lags, **ages}


def topic_facts(group: WeeklyGroup, minute: int, figures: Sequence[Row]) -> TopicFacts:
    """Give the facts of a group's topic."""
    usual = group.usual[minute // 60]
    return TopicFacts(
        topic=group.topic,
        topic_kind="normal",
        queue_count=len(figures),
        consumer_group_count=1,
        **_sums(figures),
        produce_tps=sum_of_known(row["produce_tps"] for row in figures),
        broker_count=min(len(BROKERS), len(figures)),
        read_queue_count=len(figures),
        write_queue_count=len(figures),
        read_write_differ=False,
        unreadable_queue_count=0,
        unwritten_queue_count=0,
        baseline_tps=usual.mean_tps,
        baseline_spread_tps=usual.spread_tps,
        baseline_week_count=usual.week_count,
    )


def broker_facts(name: str, now: datetime, *, answered: bool) -> BrokerFacts:
    """Give the facts of a master with room on its disk; files live for three days."""
    if not answered:
        return BrokerFacts(broker_name=name, broker_id=0, listed=True, answered=False, failure="connection refused")
    return BrokerFacts(
        broker_name=name,
        broker_id=0,
        listed=True,
        answered=True,
        slave_count=0,
        role="ASYNC_MASTER",
        commit_log_disk_ratio=0.45,
        commit_log_file_bytes=2**30,
        earliest_message_at=now - timedelta(hours=72),
        file_reserved_time_hours=72,
        delete_when="04",
        disk_max_used_space_ratio=75,
        disk_clean_forcibly_ratio=85,
        clean_file_forcibly=True,
        dispatch_behind_bytes=0,
        page_cache_lock_time_ms=0,
        send_queue_size=0,
        send_queue_head_wait_ms=0,
        pull_queue_size=0,
        pull_queue_head_wait_ms=0,
        clock_ahead_ms=0,
        read_at=now,
    )


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
        return IntervalFacts(
            cluster=CLUSTER,
            interval=interval,
            now=interval.end,
            queues=tuple(queues),
            groups=tuple(groups),
            topics=tuple(topics),
            brokers=tuple(broker_facts(name, interval.start, answered=name not in unseen) for name in BROKERS),
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
