"""One interval's rows on a branch of every published table: written and audited there, then made the main state.

A branch starts from main, so a reader of main sees nothing of it. Whatever a killed run left behind is dropped by the
next one: only one process publishes into a warehouse at a time (`lock.py`), so no other branch can be in use.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyspark.sql import functions as F

from offsetguard.errors import PublishError
from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE
from offsetguard.published_facts import NO_SNAPSHOT, load_table, open_catalog
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, PUBLISHED, Table
from offsetguard_spark.tables import table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetguard.intervals import Interval
    from offsetguard.workspace import Workspace

MAIN = "main"
INGESTED_TABLES = (LOG_EVENTS, OFFSET_MOVES)  # an interval's rows, and those of whole log files: see `ingest.py`
INGESTED_PREFIX = "ingested/"  # of `source`; names of log sources and brokers have no slash
ROWS_PER_FILE = 500_000
_AT_ONCE = 3  # a commit waits for files and the catalog: other tables' work fills the gaps


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of one run: same name in every table that takes part.

    A table takes part when the run has rows for it, or has to take some away. For all others, what main has is what
    this interval has: an empty table costs nothing.
    """

    spark: SparkSession
    workspace: Workspace
    cluster: str
    interval: Interval
    name: str
    tables: tuple[Table, ...] = PUBLISHED

    def start(self) -> None:
        """Create the branches, from main."""
        self._for_each(
            lambda table: self.spark.sql(f"ALTER TABLE {table_name(table)} CREATE OR REPLACE BRANCH `{self.name}`")
        )

    def write(self, rows_by_table: Mapping[Table, tuple[DataFrame, int]]) -> None:
        """Replace the interval's rows in some tables: all of them, also when there are fewer now or none.

        The numbers are the rows expected; they only decide how many files are written.
        """

        def write_one(table: Table) -> None:
            rows, row_count = rows_by_table[table]
            files = row_count // ROWS_PER_FILE + 1
            rows.coalesce(files).writeTo(table_name(table, self.name)).overwrite(self.only_this_interval(table))

        self._for_each(write_one, tuple(rows_by_table))

    def read(self, table: Table) -> DataFrame:
        """Return the interval's rows as they were written."""
        return self.read_with_history(table).where(self.only_this_interval(table))

    def read_with_history(self, table: Table) -> DataFrame:
        """Return the table's rows of all intervals."""
        return self.spark.table(table_name(table, self.name if table in self.tables else None))

    def only_this_interval(self, table: Table) -> Column:
        """Return the predicate of the transaction: what an interval's publication replaces in a table."""
        this = (F.col("cluster") == self.cluster) & (F.col("interval_start") == F.lit(self.interval.start))
        return this & ~F.col("source").startswith(INGESTED_PREFIX) if table in INGESTED_TABLES else this

    def snapshot_ids(self) -> dict[str, int]:
        """Return by table name the snapshot id that holds the interval: the branch's, or main's where none was needed.

        Raises PublishError when a branch has vanished.
        """
        ids = {}
        for table, state in load_tables(self.workspace).items():
            branch = state.metadata.refs.get(self.name if table in self.tables else MAIN)
            if branch is None and table in self.tables:
                raise PublishError(f"{table.name}: branch {self.name} is gone; run the publication again")
            ids[table.name] = NO_SNAPSHOT if branch is None else branch.snapshot_id
        return ids

    def fast_forward(self) -> None:
        """Make the branch the main state of every table.

        Readers do not look at main but at published snapshot ids, so they do not see one table before another.
        """
        self._for_each(
            lambda table: self.spark.sql(
                f"CALL {CATALOG_NAME}.system.fast_forward('{NAMESPACE}.{table.name}', '{MAIN}', '{self.name}')"
            )
        )

    def drop(self) -> None:
        """Drop the branches; their snapshots stay, as main's."""
        self._for_each(lambda table: self.spark.sql(f"ALTER TABLE {table_name(table)} DROP BRANCH `{self.name}`"))

    def _for_each(self, work: Callable[[Table], object], tables: tuple[Table, ...] | None = None) -> None:
        """Run work on several tables at once; the first error is raised after all have ended."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(work, table) for table in (self.tables if tables is None else tables)]
        for future in futures:
            future.result()


def load_tables(workspace: Workspace) -> dict[Table, IcebergTable]:
    """Load the metadata of every published table."""
    catalog = open_catalog(workspace)
    return {table: load_table(catalog, table) for table in PUBLISHED}


def drop_left_over(spark: SparkSession, states: Mapping[Table, IcebergTable]) -> int:
    """Drop the branches that a killed run left behind; returns how many there were."""
    left_over = [(table, name) for table, state in states.items() for name in state.metadata.refs if name != MAIN]
    for table, name in left_over:
        spark.sql(f"ALTER TABLE {table_name(table)} DROP BRANCH `{name}`")
    return len(left_over)


def may_hold(state: IcebergTable, cluster: str, first: datetime, last: datetime) -> bool:
    """Whether main may have rows of the intervals that start in [first, last].

    Told by the bounds in the table's manifests; no data file is read.
    """
    if state.current_snapshot() is None:
        return False
    start = Reference("interval_start")
    since = GreaterThanOrEqual(term=start, value=literal(first.isoformat()))
    until = LessThanOrEqual(term=start, value=literal(last.isoformat()))
    condition = And(EqualTo(term=Reference("cluster"), value=literal(cluster)), And(since, until))
    return any(True for _ in state.scan(row_filter=condition).plan_files())
