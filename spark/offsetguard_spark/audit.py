"""The audit of what was written on the branches, before any reader sees it.

Every figure is read back from the written files: what was checked when the snapshot was read says what must be there.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.errors import PublishError
from offsetguard.tables import (
    GROUP_FACTS,
    INVARIANT_RESULTS,
    PUBLISHED,
    QUARANTINE,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    Table,
)
from offsetguard_spark.invariants import check_tables, mark
from offsetguard_spark.rows import WRITTEN_AS_LANDED, quarantined_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetguard.facts import InvariantResult
    from offsetguard_spark.branches import Branches
    from offsetguard_spark.invariants import TableCheck


def audit(branches: Branches, landed: Mapping[str, TableCheck], results: int) -> dict[str, int]:
    """Return the rows written by table name; raises PublishError naming every disagreement.

    Checked: the rows of every table; that no corrupt row is left; that every invariant finds in the written rows what
    it found in the landed ones; that groups and topics stand for all queues; that no marked queue is missing.
    """
    tables = [table for table in WRITTEN_AS_LANDED if table in branches.tables]
    written = check_tables({table.name: mark(branches.read(table), table) for table in tables})
    facts = _count_facts(branches)
    problems = [
        problem for table in WRITTEN_AS_LANDED for problem in _differences(landed[table.name], written[table.name])
    ]
    problems += _unbalanced(facts, landed, results)
    if problems:
        raise PublishError(f"{branches.cluster} {branches.interval.name}: audit failed: " + "; ".join(problems))
    return {table.name: written[table.name].row_count for table in WRITTEN_AS_LANDED} | {
        name: rows for name, (rows, _) in facts.items()
    }


def _count_facts(branches: Branches) -> dict[str, tuple[int, int]]:
    """Rows and a balance of each fact table: the queues that its rows stand for, or the rows that carry a mark."""
    balances = {GROUP_FACTS: F.sum("queue_count"), TOPIC_FACTS: F.sum("queue_count")}
    marked = F.count_if(F.size("violated_invariants") > 0)
    queries = [
        branches.read(table).select(
            F.lit(table.name).alias("table_name"),
            F.count("*").alias("row_count"),
            F.coalesce(balances.get(table, marked if table == QUEUE_FACTS else F.lit(0)), F.lit(0))
            .cast("bigint")
            .alias("balance"),
        )
        for table in branches.tables
        if table not in WRITTEN_AS_LANDED
    ]
    rows = reduce(lambda left, right: left.unionAll(right), queries).collect()
    nothing = {table.name: (0, 0) for table in PUBLISHED if table not in WRITTEN_AS_LANDED}
    return nothing | {row["table_name"]: (row["row_count"], row["balance"]) for row in rows}


def _differences(landed: TableCheck, written: TableCheck) -> list[str]:
    name = written.table_name
    problems = []
    if written.row_count != landed.sound_row_count:
        problems.append(f"{name}: {written.row_count} rows written instead of {landed.sound_row_count}")
    if written.corrupt_row_count:
        problems.append(f"{name}: {written.corrupt_row_count} corrupt rows were written")
    expected = _trouble(landed.results)
    for invariant_id, violations in _trouble(written.results).items():
        if violations != expected[invariant_id]:
            problems.append(f"{name}: {invariant_id}: {violations} violations written, {expected[invariant_id]} landed")
    return problems


def _trouble(results: tuple[InvariantResult, ...]) -> dict[str, int]:
    return {result.invariant_id: result.violations for result in results if result.violation_means == "trouble"}


def _unbalanced(facts: Mapping[str, tuple[int, int]], landed: Mapping[str, TableCheck], results: int) -> list[str]:
    queues, topic_queues = landed[QUEUE_SNAPSHOTS.name], landed[TOPIC_QUEUE_SNAPSHOTS.name]
    expected: tuple[tuple[Table, str, int, int], ...] = (
        (GROUP_FACTS, "queues", facts[GROUP_FACTS.name][1], queues.sound_row_count),
        (TOPIC_FACTS, "queues", facts[TOPIC_FACTS.name][1], topic_queues.sound_row_count),
        (QUEUE_FACTS, "marked rows", facts[QUEUE_FACTS.name][1], queues.marked_row_count),
        (QUARANTINE, "rows", facts[QUARANTINE.name][0], quarantined_count(landed)),
        (INVARIANT_RESULTS, "rows", facts[INVARIANT_RESULTS.name][0], results),
    )
    return [
        f"{table.name}: {found} {what} instead of {right}" for table, what, found, right in expected if found != right
    ]
