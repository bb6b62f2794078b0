"""Every fact table and what makes its rows; a new fact is one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from offsetguard.facts.traffic_baselines import FIRST_MINUTES, hour_that_passed
from offsetguard.tables import (
    BROKER_FACTS,
    BROKER_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
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


def has_traffic_to_fold(sources: FactSources) -> bool:
    """Whether an hour has just passed whose beginning was seen."""
    hour = hour_that_passed(sources.interval.start)
    return hour is not None and sources.may_hold(TOPIC_FACTS, hour, hour + FIRST_MINUTES)


def has_log_lines(sources: FactSources) -> bool:
    """Whether the look-back window may hold lines of any log."""
    return _looks_back_on(sources, LOG_EVENTS, "oldest_log_interval")


def has_subscriptions(sources: FactSources) -> bool:
    """Whether there are lines, or clients that may subscribe differently: one client alone agrees with itself."""
    return sources.row_count(CLIENT_SNAPSHOTS) > 1 or has_log_lines(sources)


def _has_moves(sources: FactSources) -> bool:
    return _looks_back_on(sources, OFFSET_MOVES, "oldest_move_interval")


def _looks_back_on(sources: FactSources, table: Table, oldest: str) -> bool:
    since = sources.parameters[oldest]
    return sources.row_count(table) > 0 or sources.may_hold(table, since, sources.interval.start)


def _by_query(table: Table, has_work: Callable[[FactSources], bool] | None = None) -> FactTable:
    """Return a table whose rows are those of the file of its name in `facts/`."""
    return FactTable(table, lambda sources: sources.facts(table.name), has_work)


FACT_TABLES: tuple[FactTable, ...] = (
    _by_query(QUEUE_FACTS, _has_queues),
    _by_query(GROUP_FACTS, _has_queues),
    _by_query(TOPIC_FACTS, _is_anything_seen),
    _by_query(BROKER_FACTS, _is_anything_seen),
    _by_query(CLUSTER_FACTS, _is_anything_seen),
    _by_query(TRAFFIC_BASELINES, has_traffic_to_fold),
    _by_query(OFFSET_MOVE_FACTS, _has_moves),
    _by_query(LOCK_WAIT_FACTS, has_log_lines),
    _by_query(SUBSCRIPTION_FACTS, has_subscriptions),
    _by_query(LOG_LINE_FACTS, has_log_lines),
)
