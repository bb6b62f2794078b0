"""Bad input, a full disk, a lost folder: said clearly, nothing is published, other intervals are unharmed."""

import json
import re
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from offsetguard.collect.landing import table_of
from offsetguard.config.workspace import ENDS_AT_VARIABLE, Workspace
from offsetguard.model.errors import OffsetGuardError, PublishError, SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.database import open_database
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard_peers.lake.readers import Readers
from offsetguard_spark.landed import CLOCKS_DIFFER, one_row_per_key
from offsetguard_spark.publish import Publisher
from offsetguard_spark.reports import Progress, recorded_cycles
from offsetguard_spark.session import first_line

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
EARLIER = Interval(datetime(2026, 11, 21, 10, 38, tzinfo=UTC))
QUEUES = "queue_snapshots.parquet"


class SparkWasStarted(Exception):
    """What was wrong had to be said before."""


def no_spark() -> SparkSession:
    raise SparkWasStarted


def _queues(snapshot) -> None:
    snapshot.broker()
    snapshot.topic("orders")
    snapshot.group("billing")
    for queue_id in (0, 1):
        snapshot.topic_queue("orders", queue_id, 0, 9)
        snapshot.queue("billing", "orders", queue_id, (0, 5, 9))


def _rewrite(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        pq.write_table(change(pq.ParquetFile(folder / QUEUES).read()), folder / QUEUES)

    return rewrite


def _with(column: str, values: list[Any]) -> Callable[[Path], None]:
    return _rewrite(lambda rows: rows.set_column(rows.schema.get_field_index(column), column, pa.array(values)))


def _truncate(folder: Path) -> None:
    (folder / QUEUES).write_bytes((folder / QUEUES).read_bytes()[:-7])


def _manifest(**changes: datetime) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "manifest.json"
        texts = {name: moment.isoformat() for name, moment in changes.items()}
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | texts), "utf-8")

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_truncate, f"{QUEUES}: cannot be read as Parquet"),
        (lambda folder: (folder / QUEUES).write_text("cluster\n"), f"{QUEUES}: cannot be read as Parquet"),
        (lambda folder: (folder / QUEUES).unlink(), f"{QUEUES}: cannot be read as Parquet"),
        (_rewrite(lambda rows: rows.drop_columns(["topic"])), f"{QUEUES}: column topic is missing"),
        (_rewrite(lambda rows: rows.slice(0, 1)), f"{QUEUES}: has 1 rows, the manifest says 2"),
        (_with("max_offset", ["9", "9"]), f"{QUEUES}: column max_offset is string, expected int64"),
        (_with("topic", ["orders", None]), f"{QUEUES}: column topic: 1 rows have no value"),
        (_with("cluster", ["demo", "other"]), f"{QUEUES}: column cluster: other instead of demo"),
        (
            _manifest(interval_start=EARLIER.start),
            r"manifest.json: interval_start is 2026-11-21T10:38:00\+00:00, the folder's name says .*T10:39:00",
        ),
        (
            _manifest(finished_at=NOW + CLOCKS_DIFFER + timedelta(microseconds=1)),
            r"manifest.json: finished_at .*T10:42:00.000001\+00:00 is in the future, here it is .*T10:41:00\+00:00",
        ),
        (_manifest(finished_at=NOW + CLOCKS_DIFFER), None),
    ],
)
def test_what_is_wrong_with_a_snapshot_is_said_before_spark_starts(workspace, config, snapshot, damage, said) -> None:
    """None: nothing is wrong, and Spark is started."""
    _queues(snapshot)
    folder = snapshot.land(workspace)
    damage(folder)
    engine = open_database(workspace.database_url)
    other = PublishedInterval("demo", EARLIER, "run", NOW, "published", {"queue_facts": 7}, "{}")
    published_intervals.record(engine, other)
    publisher = Publisher(workspace, config, engine, no_spark, Progress([].append))

    with pytest.raises(SnapshotError if said else SparkWasStarted, match=said and f"(?s)^{folder}/{said}"):
        publisher.publish("demo", snapshot.interval, now=NOW)

    assert published_intervals.get(engine, "demo", snapshot.interval) is None
    assert published_intervals.get(engine, "demo", EARLIER) == other
    assert not workspace.catalog_file.exists(), "no table was touched"
    if said:
        (cycle,) = cycles.newest(engine)
        assert (cycle.failed, cycle.failed_step) == (True, "landed")
        assert cycle.error is not None
        assert str(folder) in cycle.error


def test_a_whole_snapshot_from_the_future_is_refused(workspace, config, snapshot) -> None:
    """The clock of the machine that publishes counts; a collector whose clock is ahead is found out here."""
    _queues(snapshot)
    snapshot.land(workspace)
    publisher = Publisher(workspace, config, open_database(workspace.database_url), no_spark, Progress([].append))
    early = snapshot.interval.start - CLOCKS_DIFFER - timedelta(seconds=1)
    with pytest.raises(SnapshotError, match=r"manifest.json: interval_start .* is in the future, .*compare the clocks"):
        publisher.publish("demo", snapshot.interval, now=early)
    with pytest.raises(SparkWasStarted):
        publisher.publish("demo", snapshot.interval, now=snapshot.interval.end)


def test_two_snapshots_of_one_interval_that_disagree_need_a_person(workspace, config, snapshot) -> None:
    _queues(snapshot)
    folder = snapshot.land(workspace)
    engine = open_database(workspace.database_url)
    published = snapshot.manifest().to_json()
    published_intervals.record(
        engine, PublishedInterval("demo", snapshot.interval, "run-1", NOW, "published", {}, published)
    )
    publisher = Publisher(workspace, config, engine, no_spark, Progress([].append))
    assert publisher.publish("demo", snapshot.interval, now=NOW).verdict == "already published"

    snapshot.manifest_extra = {"gap_count": 1}
    assert snapshot.land(workspace) == folder, "what has landed stays: a past moment cannot be looked at again"
    assert publisher.publish("demo", snapshot.interval, now=NOW).verdict == "already published"

    shutil.rmtree(folder)  # as somebody does who copies another machine's folder
    snapshot.land(workspace)
    with pytest.raises(
        PublishError, match=rf"^{folder}: was collected at .*, but .* \(run run-1\), and the two disagree: say --again"
    ):
        publisher.publish("demo", snapshot.interval, now=NOW)
    found = published_intervals.get(engine, "demo", snapshot.interval)
    assert found is not None
    assert found.run_id == "run-1"
    with pytest.raises(SparkWasStarted):
        publisher.publish("demo", snapshot.interval, now=NOW, again=True)


def test_the_same_row_of_a_repeated_key_stays_whatever_the_order(spark: SparkSession, snapshot) -> None:
    snapshot.queue("g", "orders", 0, (0, 5, 9))
    snapshot.queue("g", "orders", 0, (0, 7, 9))
    snapshot.queue("g", "orders", 0, (None, None, None))
    snapshot.queue("g", "orders", 1, (None, None, None))
    rows = snapshot.rows["queue_snapshots"]
    for order in (rows, rows[::-1]):
        kept = one_row_per_key(spark.createDataFrame(table_of(QUEUE_SNAPSHOTS, order)), QUEUE_SNAPSHOTS)
        assert kept.columns == [column.name for column in QUEUE_SNAPSHOTS.columns]
        assert sorted((row.queue_id, row.consumer_offset) for row in kept.collect()) == [(0, 7), (1, None)]


@contextmanager
def full_disk(spark: SparkSession, workspace: Workspace) -> Iterator[None]:
    """Let the kernel refuse the JVM to write more than 4 kB of a file; it says so as it does of a full disk."""
    del workspace
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    before = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, before)


@contextmanager
def folder_is_gone(spark: SparkSession, workspace: Workspace) -> Iterator[None]:
    del spark
    folder = workspace.warehouse_folder / "facts" / "group_snapshots"
    elsewhere = folder.rename(workspace.home / "elsewhere")
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        elsewhere.rename(folder)


@contextmanager
def catalog_is_missing(spark: SparkSession, workspace: Workspace) -> Iterator[None]:
    """With what SQLite keeps beside it: its log has all that was written last, and would mend the file."""
    del spark
    moved = [
        (file, file.rename(workspace.home / f"elsewhere{file.name}")) for file in workspace.home.glob("catalog.db*")
    ]
    try:
        yield
    finally:
        for file in workspace.home.glob("catalog.db*"):
            file.unlink()
        for file, elsewhere in moved:
            elsewhere.rename(file)


@contextmanager
def catalog_is_no_database(spark: SparkSession, workspace: Workspace) -> Iterator[None]:
    with catalog_is_missing(spark, workspace):
        workspace.catalog_file.write_bytes(b"no database " * 1_000)
        yield


@contextmanager
def catalog_is_locked(spark: SparkSession, workspace: Workspace) -> Iterator[None]:
    del spark
    other = sqlite3.connect(workspace.catalog_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def data_docs_cannot_be_written(_: SparkSession, workspace: Workspace) -> Iterator[None]:
    elsewhere = workspace.data_docs_folder.rename(workspace.home / "elsewhere")
    workspace.data_docs_folder.write_text("no folder", encoding="utf-8")
    try:
        yield
    finally:
        workspace.data_docs_folder.unlink()
        elsewhere.rename(workspace.data_docs_folder)


def told(publisher: Publisher, interval: Interval, step: str, *faults: AbstractContextManager[None]) -> str | None:
    """Publish in a world that breaks when a step begins; return what an operator is told, None when it is published."""
    coming = list(faults)
    with ExitStack() as broken:

        def say(_: str) -> None:
            if coming and progress.current == step:
                broken.enter_context(coming.pop())

        progress = Progress(say)
        try:
            replace(publisher, progress=progress).publish("demo", interval, now=NOW)
        except OffsetGuardError as error:
            return f"{progress.current}: {error}"
        except (PySparkException, Py4JError) as error:
            return f"{progress.current}: {first_line(error)}"
    return None


FAULTS: list[tuple[str, Callable[[Any, Any], AbstractContextManager[None]], str]] = [
    ("session", catalog_is_missing, r"catalog\.db: missing, although demo 20261121T103900Z was published with it"),
    (
        "tables",
        catalog_is_no_database,
        r"catalog\.db: the catalog cannot be used: file is not a database; bring it back",
    ),
    (
        "tables",
        folder_is_gone,
        r"table facts\.group_snapshots: cannot be read: .*No such file.*; if its folder is lost",
    ),
    (
        "write",
        full_disk,
        r"home: cannot be written: File too large; [\d,]+ bytes are free there: make room on the disk",
    ),
    ("write", catalog_is_locked, r"catalog\.db: the catalog cannot be used: database is locked; another process holds"),
    ("facts", folder_is_gone, r"group_snapshots"),
    (
        "gate",
        data_docs_cannot_be_written,
        r"Data Docs: .*/data_docs/demo: cannot be written: Not a directory; name another place",
    ),
    ("results", catalog_is_locked, r".*database is locked"),
]


def test_a_world_that_breaks_under_way_is_told_and_readers_keep_what_they_have(
    new_publisher, workspace, snapshot
) -> None:
    """One workspace goes through all faults; then it is whole again, and the same interval is published."""
    _queues(snapshot)
    snapshot.land(workspace)
    publisher = new_publisher(workspace)
    readers, first = Readers(workspace), snapshot.interval
    assert told(publisher, first, "") is None
    before = readers.facts(first)
    assert before is not None
    interval = snapshot.move_on()
    snapshot.land(workspace)

    for step, fault, said in FAULTS:
        error = told(publisher, interval, step, fault(publisher.start_spark(), workspace))
        assert error is not None, f"{fault.__name__} at {step} was not noticed"
        assert re.match(f"(?s)^{step}: .*{said}", error), error
        assert readers.facts(interval) is None
        assert readers.facts(first) == before
    assert told(publisher, interval, "") is None
    facts = readers.facts(interval)
    assert facts is not None
    assert len(facts.groups) == 1


@pytest.mark.parametrize(
    ("ends_in", "error", "said"),
    [
        (
            timedelta(seconds=-1),
            ConnectionRefusedError(111, "Connection refused"),
            "ended by the time-out of its task (",
        ),
        (timedelta(minutes=4), ConnectionRefusedError(111, "Connection refused"), "ended from outside: its task was"),
        (timedelta(minutes=4), KeyboardInterrupt(), "ended from outside: its task was"),
        (timedelta(minutes=4), ValueError("no such column\nat line 3"), "no such column"),
    ],
)
def test_a_cycle_says_what_ended_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, ends_in: timedelta, error: BaseException, said: str
) -> None:
    """A time-out or a kill takes Spark away first: that nobody answers any more is not why it failed."""
    monkeypatch.setenv(ENDS_AT_VARIABLE, (datetime.now(UTC) + ends_in).isoformat())
    engine, progress = open_database(workspace.database_url), Progress([].append)
    with (
        pytest.raises(type(error)),
        recorded_cycles(engine, [("demo", EARLIER)], progress, datetime.now(UTC)),
        progress.step("write", ""),
    ):
        raise error
    (cycle,) = cycles.newest(engine)
    assert (cycle.failed_step, cycle.error[: len(said)]) == ("write", said)
