"""The facts of one simulated cycle, of what was computed of its groups and seen of its brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.facts.interval import TrafficHour
from offsetguard.model.gaps import CollectionGap
from offsetguard.model.intervals import Interval
from offsetguard.model.known_figures import sum_of_known
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.columns import LagCounts, LagTimes
from offsetguard.tables.facts import TopicFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.table import columns_of
from offsetguard_peers.weekly_groups import STEP_S, Kind, WeeklyGroup

Row = dict[str, Any]

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
    in_detail = bool(sums["suspect_queue_count"] and online)
    filtered = group.kind is Kind.FILTERED
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
        consumer_offset_total=_sum_if_all_known(row["consumer_offset"] for row in figures),
        counted_at=figures[0]["consumer_offset_read_at"],
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


def _sum_if_all_known(values: Iterable[int | None]) -> int | None:
    of_all = list(values)
    return None if None in of_all else sum_of_known(of_all)


def _sums(figures: Sequence[Row]) -> dict[str, Any]:
    lags = {name: sum_of_known(row[name] for row in figures) for name in _LAGS}
    ages = {name: max((row[name] for row in figures if row[name] is not None), default=None) for name in _AGES}
    return {"suspect_queue_count": sum(row["suspect"] for row in figures), **lags, **ages}


def topic_facts(group: WeeklyGroup, minute: int, figures: Sequence[Row]) -> TopicFacts:
    """Give the facts of a group's topic."""
    sums = _sums(figures)
    usual = group.usual[minute // 60]
    return TopicFacts(
        topic=group.topic,
        topic_kind="normal",
        queue_count=len(figures),
        consumer_group_count=1,
        message_count=_sum_if_all_known(
            None if row["max_offset"] is None or row["min_offset"] is None else row["max_offset"] - row["min_offset"]
            for row in figures
        ),
        **sums,
        max_offset_total=_sum_if_all_known(row["max_offset"] for row in figures),
        produce_tps=sum_of_known(row["produce_tps"] for row in figures),
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
