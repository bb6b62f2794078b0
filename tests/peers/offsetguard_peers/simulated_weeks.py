"""A cluster's week, minute by minute: the facts of each cycle, made by the product's own fold and sums.

Of what a cycle does, this leaves out only the machines: brokers, Spark, tables. Snapshots are computed
(`weekly_groups.py`), some of them are missing, in some a broker did not answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from offsetguard import queue_state
from offsetguard.collect.snapshot_moves import EARLIER_COLUMNS, NOW_COLUMNS, snapshot_moves
from offsetguard.facts import (
    BrokerFacts,
    ClusterFacts,
    CollectionGap,
    GroupFacts,
    IntervalFacts,
    QueueFacts,
    TopicFacts,
    TrafficHour,
    UnseenBrokerFacts,
)
from offsetguard.intervals import Interval
from offsetguard.known_figures import epoch_ms, sum_if_all_known
from offsetguard.move_facts import offset_move_facts
from offsetguard.offsets import MessageQueue
from offsetguard.queue_sums import figures_of, is_never_committed, sums_over
from offsetguard.round_windows import sample_of
from offsetguard_peers.weekly_groups import STEP_S, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offsetguard.move_facts import Row
    from offsetguard.queue_state import QueueState
    from offsetguard.queue_sums import QueueFigures
    from offsetguard_peers.weekly_groups import Counts, WeeklyGroup

CLUSTER = "weeks"
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
BROKERS = ("broker-a", "broker-b")
LOOK_BACK = timedelta(minutes=30)
MOST_CACHED = 1_000  # pullThresholdForQueue
STEPS_PER_CYCLE = 60 // STEP_S
_COLUMNS = (
    "pull_offset",
    "pull_offset_read_at",
    "last_timestamp",
    "oldest_unconsumed_at",
)


@dataclass
class SimulatedWeek:
    """Groups of one cluster; `missing`: minutes without a snapshot; `unseen`: (minute, broker) without an answer."""

    groups: Sequence[WeeklyGroup]
    missing: frozenset[int] = frozenset()
    unseen: frozenset[tuple[int, str]] = frozenset()
    _windows: dict[tuple[str, int], QueueState] = field(default_factory=dict)
    _before: dict[tuple[str, int], Row] = field(default_factory=dict)  # the last row of each queue
    _moves: list[Row] = field(default_factory=list)

    def cycles(self, first: int, last: int) -> Iterator[tuple[int, IntervalFacts]]:
        """Yield (minute of the week, facts) of each cycle that takes place; windows go on from call to call."""
        for minute in range(first, last):
            if minute not in self.missing:
                yield minute, self._facts(minute)

    def _facts(self, minute: int) -> IntervalFacts:
        interval = Interval(MONDAY + timedelta(minutes=minute))
        unseen = frozenset(broker for at, broker in self.unseen if at == minute)
        queues: list[QueueFacts] = []
        groups, topics = [], []
        earlier = dict(self._before)
        for group in self.groups:
            figures = [self._queue(group, number, minute, interval, unseen) for number in range(group.queue_count)]
            suspects = [_queue_facts(group, one, window) for one, window in figures if one.suspect]
            queues += suspects
            groups.append(_group_facts(group, minute, figures))
            topics.append(_topic_facts(group, minute, figures))
        brokers = tuple(_broker_facts(name, interval.start, answered=name not in unseen) for name in BROKERS)
        self._moves += _moves(earlier, self._before, interval)
        return IntervalFacts(
            cluster=CLUSTER,
            interval=interval,
            now=interval.end,
            queues=tuple(queues),
            groups=tuple(groups),
            topics=tuple(topics),
            brokers=brokers,
            cluster_facts=ClusterFacts(
                len(BROKERS), len(BROKERS), len(BROKERS) - len(unseen), len(topics), len(groups)
            ),
            offset_moves=tuple(offset_move_facts(self._moves, interval.end - LOOK_BACK)),
            unseen_broker_names=unseen,
            unseen_brokers=tuple(self._unseen_since(minute, broker, interval) for broker in sorted(unseen)),
            gaps=tuple(
                _gap(broker, self._unseen_since(minute, broker, interval).unseen_since) for broker in sorted(unseen)
            ),
            traffic_hours=tuple(_traffic_hours(self.groups, minute, interval)),
        )

    def _unseen_since(self, minute: int, broker: str, interval: Interval) -> UnseenBrokerFacts:
        before = 0
        while (minute - before - 1, broker) in self.unseen:
            before += 1
        return UnseenBrokerFacts(broker, interval.start + timedelta(seconds=2) - timedelta(minutes=before))

    def _queue(
        self, group: WeeklyGroup, number: int, minute: int, interval: Interval, unseen: frozenset[str]
    ) -> tuple[QueueFigures, QueueState]:
        row = _row(group, number, minute, interval, unseen)
        key = group.name, number
        if row["max_offset"] is not None:
            self._before[key] = row
        window = self._windows[key] = queue_state.fold(self._windows.get(key), interval.start, sample_of(row))
        curve = [(offset, epoch_ms(at) or 0) for offset, at in queue_state.curve(window)]
        figures = figures_of(row, interval.end, curve)
        suspect = figures.suspect or queue_state.is_suspect(window, interval.end)
        return type(figures)(figures.row, figures.offsets, figures.in_time, suspect), window


def _row(group: WeeklyGroup, number: int, minute: int, interval: Interval, unseen: frozenset[str]) -> Row:
    """Return the queue's row of `queue_snapshots`, as read five seconds after the minute began."""
    broker = BROKERS[number % len(BROKERS)]
    row: dict[str, Any] = dict.fromkeys((*_COLUMNS, "min_offset", "max_offset", "consumer_offset"))
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


def _gap(broker: str, first_missed_at: datetime | None) -> CollectionGap:
    asked = "GET_ALL_CONSUMER_OFFSET"
    return CollectionGap("10.0.0.1:10911", broker, 0, asked, "unreachable", "connection refused", first_missed_at)


def _traffic_hours(groups: Sequence[WeeklyGroup], minute: int, interval: Interval) -> Iterator[TrafficHour]:
    """Yield what was written in the hour before, in the first minute of the next one."""
    if minute % 60 or not minute:
        return
    began, ended = (minute - 60) * STEPS_PER_CYCLE, minute * STEPS_PER_CYCLE
    for group in groups:
        usual = group.usual[minute // 60 - 1]
        tps = float((group.written[:, ended] - group.written[:, began]).sum()) / 3_600
        hour = interval.start - timedelta(hours=1)
        yield TrafficHour(group.topic, hour, tps, usual.mean_tps, usual.spread_tps, usual.week_count)


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


def _queue_facts(group: WeeklyGroup, queue: QueueFigures, window: QueueState) -> QueueFacts:
    row, times, newest_seen = queue.row, queue.in_time, window.unknown_count == 0
    return QueueFacts(
        consumer_group=row["consumer_group"],
        message_queue=MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
        offsets=queue.offsets,
        last_timestamp=row["last_timestamp"],
        lag_ms=times.lag_ms,
        violated_invariants=tuple(one.value for one in queue.offsets.order_violations()),
        inflight_ms=times.inflight_ms,
        available_ms=times.available_ms,
        lost_ms=times.lost_ms,
        lag_ms_basis=times.lag_ms_basis,
        produce_tps=queue_state.produce_tps(window) if newest_seen else None,
        consume_tps=queue_state.consume_tps(window) if newest_seen else None,
        window=window,
        **(_held(group, queue) if newest_seen and group.online.any() else {}),
    )


def _held(group: WeeklyGroup, queue: QueueFigures) -> dict[str, Any]:
    """Return what the queue's client says of it, if one is online."""
    row = queue.row
    at = row["consumer_offset_read_at"]
    if not group.online[(at - MONDAY) // timedelta(seconds=STEP_S)]:
        return {}
    cached = int(row["pull_offset"] - row["consumer_offset"])
    return {
        "holder_client_id": "10.0.0.2@1",
        "holder_count": 1,
        "locked": group.orderly,
        "cached_message_count": cached,
        "cached_min_offset": row["consumer_offset"] if cached else None,
        "cache_is_full": cached >= MOST_CACHED,
        "last_lock_at": at if group.orderly else None,
        "last_pull_at": at,
        "last_consume_at": at,
    }


def _group_facts(group: WeeklyGroup, minute: int, queues: Sequence[tuple[QueueFigures, QueueState]]) -> GroupFacts:
    online = int(group.online[minute * STEPS_PER_CYCLE])
    figures, windows = [one for one, _ in queues], [window for _, window in queues]
    sums = sums_over(figures)
    produced, consumed = _sum(map(queue_state.produce_tps, windows)), _sum(map(queue_state.consume_tps, windows))
    in_detail = bool(sums.suspect_queue_count and online)
    filtered = group.kind is Kind.FILTERED
    return GroupFacts(
        consumer_group=group.name,
        topic=group.topic,
        topic_kind="normal",
        queue_count=len(figures),
        unknown_queue_count=sum(one.offsets.max_offset is None for one in figures),
        never_committed_queue_count=sum(is_never_committed(one.row) for one in figures),
        **{name: getattr(sums, name) for name in _SUMS},
        online_client_count=online,
        message_model="CLUSTERING",
        consume_type="CONSUME_PASSIVELY",
        consumption="classic",
        system_group=False,
        consume_enabled=True,
        broker_count=min(len(BROKERS), len(figures)),
        produce_tps=produced,
        consume_tps=consumed,
        get_tps=consumed,
        master_get_tps=consumed,
        slave_get_tps=0.0,
        unseen_rate_count=0,
        reads_moved_to_slave=False,
        slave_read_broker_names=(),
        send_back_tps=0.0,
        filtered=filtered,
        hit_ratio=0.1 if filtered else None,
        consumer_offset_total=sum_if_all_known(one.offsets.consumer_offset for one in figures),
        counted_at=figures[0].row["consumer_offset_read_at"],
        subscription_expressions=("rare" if filtered else "*",) if online else None,
        subscriptions_differ=False if online else None,
        members_differ=False if online else None,
        in_detail=in_detail,
        told_client_count=online if in_detail else None,
        holding_client_count=min(online, len(figures)) if in_detail else None,
        held_queue_count=len(figures) if in_detail else None,
        idle_client_count=max(0, online - len(figures)) if in_detail else None,
        thread_count=20 if in_detail else None,
        orderly=group.orderly if in_detail else None,
        consume_ok_tps=consumed if in_detail else None,
        consume_failed_tps=(1.0 if group.fails_at(minute * STEPS_PER_CYCLE) else 0.0) if in_detail else None,
        max_reconsume_times=(-1 if group.orderly else 16) if in_detail else None,
        consume_rt_ms=group.handling_s * 1000 if in_detail else None,
        retry_message_count=0,
        retry_growth=0,
        dead_letter_message_count=0,
        dead_letter_growth=0,
    )


_SUMS = (
    *("suspect_queue_count", "lag", "effective_lag", "inflight", "available", "lost"),
    *("lag_ms", "inflight_ms", "available_ms", "lost_ms"),
)


def _topic_facts(group: WeeklyGroup, minute: int, queues: Sequence[tuple[QueueFigures, QueueState]]) -> TopicFacts:
    figures = [one for one, _ in queues]
    sums = sums_over(figures)
    usual = group.usual[minute // 60]
    ends = [one.offsets for one in figures]
    return TopicFacts(
        topic=group.topic,
        topic_kind="normal",
        queue_count=len(figures),
        consumer_group_count=1,
        message_count=sum_if_all_known(
            None if one.max_offset is None or one.min_offset is None else one.max_offset - one.min_offset
            for one in ends
        ),
        **{name: getattr(sums, name) for name in _SUMS},
        max_offset_total=sum_if_all_known(one.max_offset for one in ends),
        produce_tps=_sum(queue_state.produce_tps(window) for _, window in queues),
        broker_count=min(len(BROKERS), len(figures)),
        read_queue_count=len(figures),
        write_queue_count=len(figures),
        read_write_differ=False,
        unreadable_queue_count=0,
        unwritten_queue_count=0,
        perm=6,
        baseline_tps=usual.mean_tps,
        baseline_spread_tps=usual.spread_tps,
        baseline_week_count=usual.week_count,
    )


def _broker_facts(name: str, now: datetime, *, answered: bool) -> BrokerFacts:
    if not answered:
        return BrokerFacts(name, 0, listed=True, answered=False, failure="connection refused")
    return BrokerFacts(
        name,
        0,
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


def _sum(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
