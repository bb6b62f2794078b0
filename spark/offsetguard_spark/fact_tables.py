"""Every fact table and what makes its rows; a new fact is one line here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.tables import (
    BROKER_FACTS,
    BROKER_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    SUBSCRIPTION_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TRAFFIC_BASELINES,
    Table,
)
from offsetguard_spark.facts import (
    broker_facts,
    cluster_facts,
    group_facts,
    has_traffic_to_fold,
    queue_facts,
    topic_facts,
    traffic_baselines,
)
from offsetguard_spark.log_facts import has_log_lines, has_subscriptions, lock_waits_of, log_lines_of, subscriptions_of
from offsetguard_spark.moves import offset_move_facts, oldest_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from offsetguard_spark.fact_sources import FactSources


_SEEN = (QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS, BROKER_SNAPSHOTS, GROUP_SNAPSHOTS)


@dataclass(frozen=True, slots=True)
class FactTable:
    """One fact table of an interval.

    `make` gives its rows, with the table's columns in their order. When `has_work` says that there can be none, nothing
    is made or written (a rerun still takes away what an earlier one wrote): tables that are mostly empty need it.
    """

    table: Table
    make: Callable[[FactSources], DataFrame]
    has_work: Callable[[FactSources], bool] | None = None


def _is_anything_seen(sources: FactSources) -> bool:
    return any(sources.row_count(table) for table in _SEEN)


def _has_queues(sources: FactSources) -> bool:
    return sources.row_count(QUEUE_SNAPSHOTS) > 0


def _offset_move_facts(sources: FactSources) -> DataFrame:
    moves = sources.history(OFFSET_MOVES)
    return offset_move_facts(moves, sources.cluster, sources.interval, _move_window(sources))


def _has_moves(sources: FactSources) -> bool:
    oldest = oldest_interval(sources.interval, _move_window(sources))
    return sources.row_count(OFFSET_MOVES) > 0 or sources.may_hold(OFFSET_MOVES, oldest, sources.interval.start)


def _move_window(sources: FactSources) -> timedelta:
    return timedelta(milliseconds=sources.config.judgement.offset_move_window_ms)


FACT_TABLES: tuple[FactTable, ...] = (
    FactTable(QUEUE_FACTS, queue_facts, _has_queues),
    FactTable(GROUP_FACTS, group_facts, _has_queues),
    FactTable(TOPIC_FACTS, topic_facts, _is_anything_seen),
    FactTable(BROKER_FACTS, broker_facts, _is_anything_seen),
    FactTable(CLUSTER_FACTS, cluster_facts, _is_anything_seen),
    FactTable(TRAFFIC_BASELINES, traffic_baselines, has_traffic_to_fold),
    FactTable(OFFSET_MOVE_FACTS, _offset_move_facts, _has_moves),
    FactTable(LOCK_WAIT_FACTS, lock_waits_of, has_log_lines),
    FactTable(SUBSCRIPTION_FACTS, subscriptions_of, has_subscriptions),
    FactTable(LOG_LINE_FACTS, log_lines_of, has_log_lines),
)
