"""Which rows go to which table of an interval; `publish.py` says when."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
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
)
from offsetguard_spark.facts import group_facts, queue_facts, topic_facts
from offsetguard_spark.invariants import mark, quarantine_rows, sound_rows
from offsetguard_spark.moves import offset_move_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from offsetguard.config import Config
    from offsetguard.facts import InvariantResult
    from offsetguard_spark.branches import Branches
    from offsetguard_spark.invariants import TableCheck

WRITTEN_AS_LANDED = tuple(table for table in LANDED if table in PUBLISHED)


def write_rows(
    branches: Branches,
    marked: Mapping[str, DataFrame],
    checks: Mapping[str, TableCheck],
    results: Sequence[InvariantResult],
) -> None:
    """Write the sound rows of every landed table, the quarantine and the invariants' results."""
    sound = {
        table: (
            sound_rows(marked[table.name]).select(*[column.name for column in table.columns]),
            checks[table.name].sound_row_count,
        )
        for table in WRITTEN_AS_LANDED
    }
    others = {
        QUARANTINE: (quarantine_rows(marked), quarantined_count(checks)),
        INVARIANT_RESULTS: (_results_rows(branches, results), len(results)),
    }
    branches.write(sound | others)


def write_facts(branches: Branches, checks: Mapping[str, TableCheck], config: Config) -> None:
    """Make the facts of the rows as they were written, so that facts and rows cannot disagree."""
    end = branches.interval.end
    window = timedelta(milliseconds=config.judgement.offset_move_window_ms)
    queues = mark(branches.read(QUEUE_SNAPSHOTS), QUEUE_SNAPSHOTS)
    groups = mark(branches.read(GROUP_SNAPSHOTS), GROUP_SNAPSHOTS)
    settings = branches.read(TOPIC_SETTINGS)
    moves = offset_move_facts(branches.read_with_history(OFFSET_MOVES), branches.cluster, branches.interval, window)
    size = checks[QUEUE_SNAPSHOTS.name].sound_row_count
    branches.write(
        {
            QUEUE_FACTS: (queue_facts(queues, end), size),
            GROUP_FACTS: (group_facts(queues.drop("violated_invariants"), groups, settings, end), size),
            TOPIC_FACTS: (topic_facts(queues, branches.read(TOPIC_QUEUE_SNAPSHOTS), settings, end), size),
            OFFSET_MOVE_FACTS: (moves, 0),
        }
    )


def quarantined_count(checks: Mapping[str, TableCheck]) -> int:
    """Return how many rows the quarantine gets: one per corrupt row and invariant, one per undecodable record."""
    not_published = [table.name for table in LANDED if table not in PUBLISHED]
    undecodable = sum(checks[name].row_count for name in not_published)
    return undecodable + sum(check.corrupt_violation_count for check in checks.values())


def _results_rows(branches: Branches, results: Sequence[InvariantResult]) -> DataFrame:
    """Give Spark the results as Arrow: rows of Python would start a Python worker to convert them."""
    transaction = {"cluster": branches.cluster, "interval_start": branches.interval.start}
    rows = [transaction | asdict(result) for result in results]
    return branches.spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(INVARIANT_RESULTS)))
