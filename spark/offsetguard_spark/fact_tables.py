"""Every fact table and what makes its rows; a new fact is one line here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.tables import (
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    SUBSCRIPTION_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    Table,
)
from offsetguard_spark.facts import group_facts, queue_facts, topic_facts
from offsetguard_spark.log_facts import has_log_lines, has_subscriptions, lock_waits_of, subscriptions_of
from offsetguard_spark.moves import offset_move_facts, oldest_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from offsetguard_spark.fact_sources import FactSources


@dataclass(frozen=True, slots=True)
class FactTable:
    """One fact table of an interval.

    `make` gives its rows, with the table's columns in their order. When `has_work` says that there can be none, nothing
    is made or written (a rerun still takes away what an earlier one wrote): tables that are mostly empty need it.
    """

    table: Table
    make: Callable[[FactSources], DataFrame]
    has_work: Callable[[FactSources], bool] | None = None


def _queue_facts(sources: FactSources) -> DataFrame:
    return queue_facts(sources.rows(QUEUE_SNAPSHOTS), sources.interval.end)


def _group_facts(sources: FactSources) -> DataFrame:
    queues = sources.rows(QUEUE_SNAPSHOTS).drop("violated_invariants")
    groups, settings = sources.rows(GROUP_SNAPSHOTS), sources.rows(TOPIC_SETTINGS)
    return group_facts(queues, groups, settings, sources.interval.end)


def _topic_facts(sources: FactSources) -> DataFrame:
    queues, topic_queues = sources.rows(QUEUE_SNAPSHOTS), sources.rows(TOPIC_QUEUE_SNAPSHOTS)
    return topic_facts(queues, topic_queues, sources.rows(TOPIC_SETTINGS), sources.interval.end)


def _offset_move_facts(sources: FactSources) -> DataFrame:
    moves = sources.history(OFFSET_MOVES)
    return offset_move_facts(moves, sources.cluster, sources.interval, _move_window(sources))


def _has_moves(sources: FactSources) -> bool:
    oldest = oldest_interval(sources.interval, _move_window(sources))
    return sources.row_count(OFFSET_MOVES) > 0 or sources.may_hold(OFFSET_MOVES, oldest, sources.interval.start)


def _move_window(sources: FactSources) -> timedelta:
    return timedelta(milliseconds=sources.config.judgement.offset_move_window_ms)


FACT_TABLES: tuple[FactTable, ...] = (
    FactTable(QUEUE_FACTS, _queue_facts),
    FactTable(GROUP_FACTS, _group_facts),
    FactTable(TOPIC_FACTS, _topic_facts),
    FactTable(OFFSET_MOVE_FACTS, _offset_move_facts, _has_moves),
    FactTable(LOCK_WAIT_FACTS, lock_waits_of, has_log_lines),
    FactTable(SUBSCRIPTION_FACTS, subscriptions_of, has_subscriptions),
)
