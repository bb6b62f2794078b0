"""Some intervals' rows of some clusters on a branch of each table: written and audited there, then the main state.

A branch starts from main, so a reader of main sees nothing of it. Whatever a killed run left behind is dropped by the
next one: only one process publishes into a warehouse at a time (`store/locks.py`), so no other branch can be in use.

Spark writes and reads the rows. Creating, forwarding and dropping branches only changes metadata: pyiceberg does that
in milliseconds, as commits to the same catalog, with the state of main that they rely on stated in the commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import And, GreaterThanOrEqual, In, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import NO_SNAPSHOT, catalog_errors_named, database_of, load_table
from offsetguard.lake.data_files import Condition
from offsetguard.lake.reading import read_snapshot
from offsetguard.lake.upkeep.commit_times import check_times
from offsetguard.lake.upkeep.packing import unpack
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import CLUSTERS_PROPERTY, INTERVALS_PROPERTY, RUN_PROPERTY
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, Table
from offsetguard_spark.files import SparkFiles
from offsetguard_spark.minutes import Minutes, columns_of
from offsetguard_spark.session import tagged
from offsetguard_spark.tables import Query, as_frame, load_tables, prepare_tables, quoted, table_name

MAIN = "main"
EVER_SINCE = datetime.min.replace(tzinfo=UTC)
INGESTED_TABLES = (LOG_EVENTS, OFFSET_MOVES)  # an interval's rows, and those of whole log files: see `ingest.py`
INGESTED_PREFIX = "ingested/"  # of `source`; names of log sources and brokers have no slash
ROWS_PER_FILE = 500_000
MOST_SENT = 20_000  # rows; of 112,000 landed ones the server took 2.5 GiB when all were sent, and 1.4 so
_COMMIT_ATTEMPTS = 5
_AT_ONCE = 3  # a commit waits for files and the catalog: other tables' work fills the gaps


class TableRows(NamedTuple):
    """Rows for a table, or what makes them."""

    table: Table
    rows: pa.Table | Callable[[], DataFrame | Query]
    row_count: int  # at most


@dataclass(slots=True)
class Branches:
    """The branches of one run: same name in every table that takes part.

    A table takes part when the run has rows for it, or has to take some away. For all others, what main has is what
    these intervals have: an empty table costs nothing.
    """

    spark: SparkSession
    minutes: Minutes  # whose rows it replaces
    name: str
    states: Mapping[Table, IcebergTable]  # the tables' metadata when the run began: `load_tables`
    files: SparkFiles
    small: bool = False  # there are few rows: they are read without Spark
    tables: list[Table] = field(default_factory=list)  # those that take part
    kept: dict[Table, tuple[int, pa.Table]] = field(default_factory=dict, repr=False)

    def start(self, tables: Iterable[Table]) -> None:
        """Let tables take part: create their branches, from main. May be called again with others."""
        for table in tables:
            if table in self.tables:
                continue
            main = self._main(table)
            if main is None:  # pyiceberg cannot branch off nothing; Spark writes an empty snapshot. Once in its life.
                self.spark.sql(f"ALTER TABLE {table_name(table)} CREATE OR REPLACE BRANCH `{self.name}`")
            else:
                self._commit(table, (_point(self.name, main),))
            self.tables.append(table)

    def unpack(self, tables: Iterable[Table]) -> None:
        """Give the intervals files of their own where several lie in one file.

        Iceberg replaces files as a whole, so a rerun could not replace an interval alone.
        """
        for table in tables:
            if table not in self.tables:
                for cluster in self.minutes.clusters:
                    if unpack(self.states[table], table, cluster, self.minutes.first, self.minutes.last):
                        self.states[table].refresh()

    def write(self, rows_of_tables: Iterable[TableRows]) -> None:
        """Replace the intervals' rows in some tables, which take part: all, also when there are fewer now or none.

        On several threads, while the next ones are made: what one table waits for, another one uses. The first error
        is raised after all have ended.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(self._replace, *one) for one in rows_of_tables]
        for future in futures:
            future.result()

    @property
    def write_options(self) -> dict[str, str]:
        """Spark's options of each write: every snapshot tells which run wrote it."""
        return {
            f"snapshot-property.{RUN_PROPERTY}": self.name,
            f"snapshot-property.{CLUSTERS_PROPERTY}": ",".join(self.minutes.clusters),
        }

    def read(self, table: Table, interval: Interval | None = None) -> DataFrame:
        """Return the rows of the intervals, or of one of them, as they were written.

        Few rows are read here and sent: Spark would look for them in catalog, manifests and files for each query.
        """
        if self.small:
            rows = self.rows(table)
            of_one = rows.filter(pc.field("interval_start") == interval.start) if interval else rows
            return as_frame(self.spark, table, of_one).coalesce(1)  # so that no step after it needs an exchange
        return self.read_with_history(table).where(self._only(table, interval))

    def read_with_history(self, table: Table) -> DataFrame:
        """Return the table's rows of all intervals."""
        return self.spark.table(table_name(table, self.name if table in self.tables else None))

    def rows(self, table: Table) -> pa.Table:
        """Return what `read` does, without Spark; kept for as long as nobody writes to the branch."""
        state, snapshot_id = self._newest(table)
        if table not in self.kept or self.kept[table][0] != snapshot_id:
            own = pc.field("interval_start").isin([one.start for one in self.minutes.intervals])
            if table in INGESTED_TABLES:
                own &= ~pc.starts_with(pc.field("source"), INGESTED_PREFIX)
            rows = read_snapshot(state, table, snapshot_id, self._span(self.minutes.first))
            self.kept[table] = snapshot_id, rows.filter(own)
        return self.kept[table][1]

    def rows_since(self, since: datetime, table: Table) -> pa.Table:
        """Return the clusters' rows of all intervals from `since` to the newest of these, without Spark."""
        state, snapshot_id = self._newest(table)
        return read_snapshot(state, table, snapshot_id, self._span(since))

    def _newest(self, table: Table) -> tuple[IcebergTable, int]:
        """Return a table with the snapshot that it would be published with."""
        if table not in self.tables:
            return self.states[table], self._main(table) or NO_SNAPSHOT
        state = _loaded(self.states[table], table)
        snapshot = state.snapshot_by_name(self.name)
        if snapshot is None:
            raise PublishError(_is_gone(table, self.name))
        return state, snapshot.snapshot_id

    def _span(self, since: datetime) -> list[Condition]:
        span = ("interval_start", ">=", since), ("interval_start", "<", self.minutes.until)
        return [("cluster", "in", self.minutes.clusters), *span]

    def _only(self, table: Table, interval: Interval | None = None) -> str:
        """Return the condition of the intervals' rows, in SQL; of a state: those of the queues that they saw."""
        intervals = (interval,) if interval else self.minutes.intervals
        starts = ", ".join(f"TIMESTAMP {quoted(one.start.isoformat())}" for one in intervals)
        this = f"{self._of_clusters} AND interval_start IN ({starts})"
        return f"{this} AND NOT startswith(source, '{INGESTED_PREFIX}')" if table in INGESTED_TABLES else this

    def of_clusters(self, table: Table) -> DataFrame:
        """Return the clusters' rows of all intervals; of a state's rows, each is of its queue's newest interval."""
        return self.read_with_history(table).where(self._of_clusters)

    def added_row_counts(self) -> dict[Table, int]:
        """Return how many rows each branch's last write added: Iceberg counted them when it wrote."""
        counts = {}
        for table in self.tables:
            state, snapshot_id = self._newest(table)
            snapshot = state.snapshot_by_id(snapshot_id)
            added = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
            counts[table] = int(added.get("added-records", 0)) if snapshot_id != self._main(table) else 0
        return counts

    def may_hold(
        self,
        table: Table,
        first: datetime,
        last: datetime,
        snapshot_id: int | None = None,
        *,
        cluster: str | None = None,
    ) -> bool:
        """Whether main, or an older snapshot, may have rows of the clusters' intervals that start in [first, last].

        `cluster`: of this one alone. Told by the bounds in the table's manifests; no data file is read.
        """
        state = self.states[table]
        if state.current_snapshot() is None:
            return False
        start = Reference("interval_start")
        since = GreaterThanOrEqual(term=start, value=literal(first.isoformat()))
        until = LessThanOrEqual(term=start, value=literal(last.isoformat()))
        clusters = self.minutes.clusters if cluster is None else (cluster,)
        condition = And(In(term=Reference("cluster"), literals={literal(name) for name in clusters}), And(since, until))
        return any(True for _ in state.scan(row_filter=condition, snapshot_id=snapshot_id).plan_files())

    def snapshot_ids(self) -> dict[str, int]:
        """Return by table name the snapshot id that holds the intervals: the branch's, or main's where none was needed.

        Raises PublishError when a branch has vanished, or a clock was put back since the run began.
        """
        ids = {table.name: self._main(table) or NO_SNAPSHOT for table in self.states}
        written = {table: _loaded(self.states[table], table) for table in self.tables}
        check_times(written.values(), datetime.now(UTC))  # `forward` commits next
        for table, state in written.items():
            branch = state.metadata.refs.get(self.name)
            if branch is None:
                raise PublishError(_is_gone(table, self.name))
            ids[table.name] = branch.snapshot_id
        return ids

    def file_counts(self) -> dict[str, int]:
        """Return by table name how many data files main had when the run began: Iceberg counts them in each commit."""
        heads = {table.name: state.current_snapshot() for table, state in self.states.items()}
        return {
            name: int(head.summary.additional_properties.get("total-data-files", 0))
            for name, head in heads.items()
            if head is not None and head.summary is not None
        }

    def forward(self, snapshot_ids: Mapping[str, int]) -> None:
        """Make the branches the main state of every table, and drop them; raises PublishError when main has moved.

        `snapshot_ids`: what the branches hold, as `snapshot_ids()` told it. Readers do not look at main but at
        published snapshot ids, so they do not see one table before another.
        """
        for table in self.tables:
            head = snapshot_ids[table.name]
            updates = (_point(MAIN, head), RemoveSnapshotRefUpdate(ref_name=self.name))
            self._commit(table, updates, AssertRefSnapshotId(ref=self.name, snapshot_id=head))

    @property
    def _of_clusters(self) -> str:
        return f"cluster IN ({', '.join(map(quoted, self.minutes.clusters))})"

    def _replace(self, table: Table, given: pa.Table | Callable[[], DataFrame | Query], row_count: int) -> None:
        """Write rows in the place of the intervals'; a state is replaced as a whole.

        A query is written by one statement: its rows would be analysed, and then once more with what writes them.
        """
        self.start([table])
        with self._seen_by_spark(table, given) as rows:
            self._write(table, rows, row_count)

    def _write(self, table: Table, rows: DataFrame | Query, row_count: int) -> None:
        name, files = table_name(table, self.name), row_count // ROWS_PER_FILE + 1
        starts = ",".join(one.start.isoformat() for one in self.minutes.intervals)
        options = self.write_options | {f"snapshot-property.{INTERVALS_PROPERTY}": starts}
        replaced = self._of_clusters if _is_state(table) else self._only(table)
        with tagged(self.spark, f"write {table.name}"):
            if isinstance(rows, Query):
                told = ", ".join(f"{quoted(key)} = {quoted(value)}" for key, value in options.items())
                text = f"SELECT /*+ COALESCE({files}) */ {self._columns(table)} FROM (\n{rows.text}\n)"
                self.spark.sql(f"INSERT INTO {name} WITH ({told}) REPLACE WHERE {replaced}\n{text}", rows.parameters)
            else:
                rows.coalesce(files).writeTo(name).options(**options).overwrite(F.expr(replaced))

    @contextmanager
    def _seen_by_spark(
        self, table: Table, given: pa.Table | Callable[[], DataFrame | Query]
    ) -> Iterator[DataFrame | Query]:
        """Give rows as Spark reads them; those that Python has are sent, or lie in a file for as long as it reads them.

        A file is read piece by piece, where Spark's server holds what it is sent, decoded, and once more as its rows.
        """
        if not isinstance(given, pa.Table):
            yield given()
        elif len(given) <= MOST_SENT:
            yield as_frame(self.spark, table, given)
        else:
            with self.files.handed_over(self.spark, table, given) as rows:
                yield rows

    def _columns(self, table: Table) -> str:
        """Return the columns of a query as the table has them, by position: it may be of another release."""
        own = columns_of(table)
        names = (field.name for field in self.states[table].schema().fields)
        return ", ".join(name if name in own else f"NULL AS {name}" for name in names)

    def _commit(self, table: Table, updates: tuple[TableUpdate, ...], *requirements: TableRequirement) -> None:
        """Change a table's references, provided that main is where it was when the run began."""
        state = self.states[table]
        required = (AssertRefSnapshotId(ref=MAIN, snapshot_id=self._main(table)), *requirements)
        try:
            with catalog_errors_named(database_of(state.catalog)):
                _commit(table, state, updates, required)
        except (OSError, ValueError):
            _loaded(state, table)  # raises, naming the table, where its metadata are lost
            raise

    def _main(self, table: Table) -> int | None:
        """Return main's snapshot id when the run began; None when nothing was ever written."""
        main = self.states[table].metadata.refs.get(MAIN)
        return None if main is None else main.snapshot_id


def begin(
    spark: SparkSession, workspace: Workspace, minutes: Minutes, *, name: str, say: Callable[[str], None]
) -> Branches:
    """Bring the tables to this release, and drop the branches of a run that was killed; returns those of a new run.

    None of them exists yet. `name`: of the run, and of its branches.
    """
    states = prepare_tables(spark, workspace, say)
    left_over = [(table, branch) for table, state in states.items() for branch in state.metadata.refs if branch != MAIN]
    if left_over:
        for table, branch in left_over:
            _commit(table, states[table], (RemoveSnapshotRefUpdate(ref_name=branch),), ())
        why = "that did not end, or began again without what its gate stopped"
        say(f"tables: dropped {len(left_over)} branches of a run {why}")
        states = load_tables(workspace)
    files = SparkFiles(workspace)
    files.clear()
    return Branches(spark, minutes, name, states, files)


def _loaded(state: IcebergTable, table: Table) -> IcebergTable:
    return load_table(state.catalog, table)


def _commit(
    table: Table, state: IcebergTable, updates: tuple[TableUpdate, ...], required: tuple[TableRequirement, ...]
) -> None:
    """Change a table's references; raises PublishError when it is not as required.

    Other commits to the table (a write of a dead run that a server has not noticed yet, an expiry of snapshots) are no
    reason to fail: the catalog lets one commit at a time through, the other is tried again.
    """
    for attempt in range(1, _COMMIT_ATTEMPTS + 1):
        try:
            new = state.catalog.commit_table(state, required, updates).metadata  # reads the newest metadata itself
        except CommitFailedException as error:
            if attempt == _COMMIT_ATTEMPTS:
                raise PublishError(
                    f"{table.name}: something else has changed the table meanwhile: {error}; run it again"
                ) from error
        else:
            named = {one.metadata_file for one in new.metadata_log}
            for (
                one
            ) in state.metadata.metadata_log:  # `write.metadata.previous-versions-max`: only Table's commits do it
                if one.metadata_file not in named:
                    with suppress(OSError):  # gone already; what stays belongs to nothing, and housekeeping deletes it
                        state.io.delete(one.metadata_file)
            return


def _is_state(table: Table) -> bool:
    return table.partition == ("cluster",)


def _point(reference: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=reference,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def _is_gone(table: Table, branch: str) -> str:
    return f"{table.name}: branch {branch} is gone; run the publication again"
