"""Which rows go to which table of an interval; `publish.py` says when."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetguard.collect.landing import arrow_schema
from offsetguard.tables import (
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    INVARIANT_RESULTS,
    LANDED,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    PUBLISHED,
    QUARANTINE,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    UNDECODABLE_RECORDS,
)
from offsetguard_spark.branches import may_hold
from offsetguard_spark.facts import group_facts, queue_facts, topic_facts
from offsetguard_spark.invariants import mark, quarantine_rows, sound_rows
from offsetguard_spark.moves import offset_move_facts, oldest_interval
from offsetguard_spark.tables import spark_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import DataFrame

    from offsetguard.facts import InvariantResult
    from offsetguard.intervals import Interval
    from offsetguard.tables import Table
    from offsetguard_spark.branches import Branches
    from offsetguard_spark.invariants import TableCheck

WRITTEN_AS_LANDED = tuple(table for table in LANDED if table in PUBLISHED)


def tables_with_work(
    states: Mapping[Table, IcebergTable],
    cluster: str,
    interval: Interval,
    checks: Mapping[str, TableCheck],
    window: timedelta,
) -> tuple[Table, ...]:
    """Return the tables that get rows, or may have to lose what an earlier publication of the interval wrote.

    `states`: the tables' metadata before this run. Many tables are empty in most intervals (no events, no quarantine):
    a branch, a write and an audit of each would cost more than all others.
    """
    row_counts = {table: checks[table.name].sound_row_count for table in WRITTEN_AS_LANDED}
    row_counts[QUARANTINE] = quarantined_count(checks)
    old_moves = may_hold(states[OFFSET_MOVES], cluster, oldest_interval(interval, window), interval.start)
    row_counts[OFFSET_MOVE_FACTS] = row_counts[OFFSET_MOVES] + old_moves
    return tuple(
        table
        for table in PUBLISHED
        if row_counts.get(table, 1) or may_hold(states[table], cluster, interval.start, interval.start)
    )


def write_rows(
    branches: Branches,
    marked: Mapping[str, DataFrame],
    checks: Mapping[str, TableCheck],
    results: Sequence[InvariantResult],
) -> None:
    """Write the sound rows of every landed table, the quarantine and the invariants' results."""
    rows = {table: (_sound(branches, table, marked), checks[table.name].sound_row_count) for table in WRITTEN_AS_LANDED}
    corrupt = {name: rows for name, rows in marked.items() if _is_quarantined(checks[name])}
    rows[QUARANTINE] = (quarantine_rows(branches.spark, corrupt), quarantined_count(checks))
    rows[INVARIANT_RESULTS] = (_results_rows(branches, results), len(results))
    branches.write({table: rows[table] for table in rows if table in branches.tables})


def write_facts(branches: Branches, checks: Mapping[str, TableCheck], window: timedelta) -> None:
    """Make the facts of the rows as they were written, so that facts and rows cannot disagree.

    `window`: how far offset moves are looked back for.
    """
    end = branches.interval.end
    queues = mark(branches.read(QUEUE_SNAPSHOTS), QUEUE_SNAPSHOTS)
    groups = mark(branches.read(GROUP_SNAPSHOTS), GROUP_SNAPSHOTS)
    settings = branches.read(TOPIC_SETTINGS)
    moves = offset_move_facts(branches.read_with_history(OFFSET_MOVES), branches.cluster, branches.interval, window)
    size = checks[QUEUE_SNAPSHOTS.name].sound_row_count
    rows = {
        QUEUE_FACTS: (queue_facts(queues, end), size),
        GROUP_FACTS: (group_facts(queues.drop("violated_invariants"), groups, settings, end), size),
        TOPIC_FACTS: (topic_facts(queues, branches.read(TOPIC_QUEUE_SNAPSHOTS), settings, end), size),
        OFFSET_MOVE_FACTS: (moves, 0),
    }
    branches.write({table: rows[table] for table in rows if table in branches.tables})


def quarantined_count(checks: Mapping[str, TableCheck]) -> int:
    """Return how many rows the quarantine gets: one per corrupt row and invariant, one per undecodable record."""
    not_published = [table.name for table in LANDED if table not in PUBLISHED]
    undecodable = sum(checks[name].row_count for name in not_published)
    return undecodable + sum(check.corrupt_violation_count for check in checks.values())


def _is_quarantined(check: TableCheck) -> bool:
    return bool(check.corrupt_row_count) or (check.table_name == UNDECODABLE_RECORDS.name and check.row_count > 0)


def _sound(branches: Branches, table: Table, marked: Mapping[str, DataFrame]) -> DataFrame:
    if table.name not in marked:
        return branches.spark.createDataFrame([], spark_schema(table))
    return sound_rows(marked[table.name]).select(*[column.name for column in table.columns])


def _results_rows(branches: Branches, results: Sequence[InvariantResult]) -> DataFrame:
    """Give Spark the results as Arrow: rows of Python would start a Python worker to convert them."""
    transaction = {"cluster": branches.cluster, "interval_start": branches.interval.start}
    rows = [transaction | asdict(result) for result in results]
    return branches.spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(INVARIANT_RESULTS)))
