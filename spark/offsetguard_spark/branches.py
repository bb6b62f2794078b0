"""One interval's rows on a branch of every published table: written and audited there, then made the main state.

A branch starts from main, so a reader of main sees nothing of it. Whatever a killed run left behind is dropped by the
next one: only one process publishes into a warehouse at a time (`lock.py`), so no other branch can be in use.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard.errors import PublishError
from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE
from offsetguard.published_facts import load_table, open_catalog
from offsetguard.tables import PUBLISHED, Table
from offsetguard_spark.tables import table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from offsetguard.intervals import Interval
    from offsetguard.workspace import Workspace

MAIN = "main"
ROWS_PER_FILE = 500_000
_AT_ONCE = 3  # a commit waits for files and the catalog: other tables' work fills the gaps


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of one run: same name in every table."""

    spark: SparkSession
    workspace: Workspace
    cluster: str
    interval: Interval
    name: str

    def start(self) -> int:
        """Create the branch in every table, from main; returns how many left-over branches were dropped."""
        left_over = [(table, name) for table, names in self._existing().items() for name in names if name != MAIN]
        for table, name in left_over:
            self.spark.sql(f"ALTER TABLE {table_name(table)} DROP BRANCH `{name}`")
        _for_each_table(
            lambda table: self.spark.sql(f"ALTER TABLE {table_name(table)} CREATE OR REPLACE BRANCH `{self.name}`")
        )
        return len(left_over)

    def write(self, rows_by_table: Mapping[Table, tuple[DataFrame, int]]) -> None:
        """Replace the interval's rows in some tables: all of them, also when there are fewer now or none.

        The numbers are the rows expected; they only decide how many files are written.
        """

        def write_one(table: Table) -> None:
            rows, row_count = rows_by_table[table]
            files = row_count // ROWS_PER_FILE + 1
            rows.coalesce(files).writeTo(table_name(table, self.name)).overwrite(self.only_this_interval())

        _for_each_table(write_one, tuple(rows_by_table))

    def read(self, table: Table) -> DataFrame:
        """Return the interval's rows as they were written."""
        return self.spark.table(table_name(table, self.name)).where(self.only_this_interval())

    def read_with_history(self, table: Table) -> DataFrame:
        """Return the table's rows of all intervals."""
        return self.spark.table(table_name(table, self.name))

    def only_this_interval(self) -> Column:
        """Return the predicate of the transaction."""
        return (F.col("cluster") == self.cluster) & (F.col("interval_start") == F.lit(self.interval.start))

    def snapshot_ids(self) -> dict[str, int]:
        """Return the snapshot id of the branch in every table, by table name."""
        catalog = open_catalog(self.workspace)
        ids = {}
        for table in PUBLISHED:
            branch = load_table(catalog, table).metadata.refs.get(self.name)
            if branch is None:
                raise PublishError(f"{table.name}: branch {self.name} is gone; run the publication again")
            ids[table.name] = branch.snapshot_id
        return ids

    def fast_forward(self) -> None:
        """Make the branch the main state of every table.

        Readers do not look at main but at published snapshot ids, so they do not see one table before another.
        """
        _for_each_table(
            lambda table: self.spark.sql(
                f"CALL {CATALOG_NAME}.system.fast_forward('{NAMESPACE}.{table.name}', '{MAIN}', '{self.name}')"
            )
        )

    def drop(self) -> None:
        """Drop the branch in every table; its snapshot stays, as main's."""
        _for_each_table(lambda table: self.spark.sql(f"ALTER TABLE {table_name(table)} DROP BRANCH `{self.name}`"))

    def _existing(self) -> dict[Table, list[str]]:
        catalog = open_catalog(self.workspace)
        return {table: list(load_table(catalog, table).metadata.refs) for table in PUBLISHED}


def _for_each_table(work: Callable[[Table], object], tables: tuple[Table, ...] = PUBLISHED) -> None:
    """Run work on several tables at once; the first error is raised after all have ended."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(work, table) for table in tables]
    for future in futures:
        future.result()
