"""Which rows go to which table of an interval, and which intervals may have rows already; `publish.py` says when."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from offsetguard.config.object_store import make_folder
from offsetguard.config.workspace import Workspace, replace_text
from offsetguard.model.intervals import Minute
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import INVARIANT_RESULTS, LANDED, PUBLISHED, QUARANTINE, UNDECODABLE_RECORDS, Table
from offsetguard.tables.facts import InvariantResult
from offsetguard.tables.table import arrow_schema
from offsetguard_spark.branches import Branches, TableRows
from offsetguard_spark.facts import SparkFacts
from offsetguard_spark.invariants import mark, quarantine_rows, sound_rows
from offsetguard_spark.landed import LandedTable, read_landed
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.small_facts import SmallFacts
from offsetguard_spark.tables import nothing

WRITTEN_AS_LANDED = tuple(table for table in LANDED if table in PUBLISHED)


@dataclass(frozen=True, slots=True)
class IntervalRows:
    """Writes the intervals' rows to the branches, those of all clusters at once.

    A table takes part when it gets rows, or when `written_before` (an earlier run may have brought one of these
    intervals to main) and main does hold rows of it: many tables are empty in most intervals (no events, no
    quarantine), and a branch, a write and an audit of each would cost more than all others.
    """

    branches: Branches
    written_before: bool

    def write_landed(self, landed: Mapping[Path, Mapping[str, LandedTable]]) -> dict[str, int]:
        """Write the sound rows of every landed table, and the others to quarantine; returns rows written by table name.

        `landed`: by folder what has landed of a cluster. How many rows are corrupt is known after the write, from what
        Iceberg counted: no query looks for them.
        """
        frames = read_landed(self.branches.spark, landed, self.branches.files)
        marked = {table.name: mark(rows, table) for table, rows in frames.items()}
        counts = {table: sum(one[table.name].key_count for one in landed.values()) for table in WRITTEN_AS_LANDED}
        self._write(TableRows(table, partial(self._sound, table, marked), counts[table]) for table in counts)
        written = self.branches.added_row_counts()
        corrupt = {table.name: marked[table.name] for table in counts if written.get(table, 0) < counts[table]}
        if UNDECODABLE_RECORDS.name in marked:
            corrupt[UNDECODABLE_RECORDS.name] = marked[UNDECODABLE_RECORDS.name]
        rows = partial(quarantine_rows, self.branches.spark, corrupt, run_id=self.branches.name)
        self._write([TableRows(QUARANTINE, rows, len(corrupt))])
        return {table.name: count for table, count in written.items()}

    def write_facts(self, facts: SparkFacts | SmallFacts) -> None:
        """Make the facts of the rows as they were written, so that facts and rows cannot disagree."""
        try:
            self._write(facts.rows())
        finally:
            facts.release()

    def write_results(self, results: Mapping[Minute, Sequence[InvariantResult]]) -> None:
        """Write the invariants' results."""
        rows = _results_rows(results)
        self._write([TableRows(INVARIANT_RESULTS, rows, len(rows))])

    def _write(self, rows_of_tables: Iterable[TableRows]) -> None:
        self.branches.write(one for one in rows_of_tables if self._takes_part(one))

    def _takes_part(self, one: TableRows) -> bool:
        """Whether a table does; one of an earlier run's intervals is ready to be written then."""
        takes_part = one.row_count > 0 or self._has_older_rows(one.table)
        if takes_part and self.written_before:
            self.branches.unpack([one.table])
        return takes_part

    def _has_older_rows(self, table: Table) -> bool:
        minutes = self.branches.minutes
        return self.written_before and self.branches.may_hold(table, minutes.first, minutes.last)

    def _sound(self, table: Table, marked: Mapping[str, DataFrame]) -> DataFrame:
        if table.name not in marked:
            return nothing(self.branches.spark, table)
        return sound_rows(marked[table.name]).select(*[column.name for column in table.columns])


def _results_rows(results: Mapping[Minute, Sequence[InvariantResult]]) -> pa.Table:
    rows = [
        {"cluster": cluster, "interval_start": interval.start} | asdict(result)
        for (cluster, interval), of_it in results.items()
        for result in of_it
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(INVARIANT_RESULTS))


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The way of some intervals to main."""

    workspace: Workspace
    minutes: Minutes

    def begin(self) -> None:
        """Mark the intervals; the marks are on the disk when this returns."""
        for file in self._marks:
            make_folder(file.parent)
            replace_text(file, "", durable=True)

    def end(self) -> None:
        """Remove the marks: the `published_intervals` rows tell of the intervals now."""
        for file in self._marks:
            file.unlink()

    def may_have_begun(self, newest: Iterable[PublishedInterval | None]) -> bool:
        """Whether main may hold rows of the intervals. `newest`: of each cluster the newest published interval."""
        is_older = any(one is not None and self.minutes.first <= one.interval.start for one in newest)
        return is_older or any(file.exists() for file in self._marks)

    @property
    def _marks(self) -> list[Path]:
        folder = self.workspace.shared / "forwarding"
        return [folder / cluster / interval.name for cluster, interval in self.minutes.each()]
