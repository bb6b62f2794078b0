"""One JVM for all Spark tests, a workspace and a session of its own for each, and snapshots to land."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from offsetguard.collect.landing import Row, land, table_of
from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.store.database import open_database
from offsetguard.tables import BROKER_SNAPSHOTS, LANDED
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.spark.local import local_session
from offsetguard_spark.publish import Publisher
from offsetguard_spark.reports import Progress
from offsetguard_spark.session import session_config, suit_row_count

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
CONFIG = one_team_text(demo="127.0.0.1:9876")


def workspace_in(folder: Path) -> Workspace:
    home = folder / "home"
    return Workspace(home, folder / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")


@pytest.fixture(scope="session")
def jvm_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    spark = local_session(workspace_in(tmp_path_factory.mktemp("jvm")))
    suit_row_count(spark, 0)
    yield spark
    spark.stop()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = workspace_in(tmp_path)
    workspace.home.mkdir()
    workspace.config_file.write_text(CONFIG, encoding="utf-8")
    return workspace


@pytest.fixture(scope="session")
def new_session(jvm_session: SparkSession) -> Callable[[Workspace], SparkSession]:
    """Open one more session in the one JVM, with a workspace's catalog."""

    def opened(workspace: Workspace) -> SparkSession:
        session = jvm_session.newSession()
        for name, value in session_config(workspace).items():
            session.conf.set(name, value)
        return session

    return opened


@pytest.fixture
def spark(new_session: Callable[[Workspace], SparkSession], workspace: Workspace) -> SparkSession:
    """Give a session in the one JVM whose catalog is the test's own workspace."""
    return new_session(workspace)


@pytest.fixture
def counted_jobs(spark: SparkSession) -> Callable[[], AbstractContextManager[list[int]]]:
    """Give ids of the jobs that Spark's own listener saw in a block, of all threads; filled in when it ends."""
    tracker = spark.sparkContext.statusTracker()

    @contextmanager
    def counted() -> Iterator[list[int]]:
        before = set(tracker.getJobIdsForGroup(None))
        jobs: list[int] = []
        yield jobs
        jobs += set(tracker.getJobIdsForGroup(None)) - before

    return counted


@pytest.fixture(scope="session")
def config() -> Config:
    return Config.model_validate(yaml.safe_load(CONFIG))


@pytest.fixture(scope="session")
def new_publisher(new_session: Callable[[Workspace], SparkSession], config: Config) -> Callable[..., Publisher]:
    """Give a publisher on a workspace, with a session of its own; `say` gets what it says."""

    def opened(workspace: Workspace, say: Callable[[str], None] = [].append) -> Publisher:
        spark = new_session(workspace)
        return Publisher(workspace, config, open_database(workspace.database_url), lambda: spark, Progress(say))

    return opened


@dataclass
class KeptWorkspace:
    """A workspace that all tests of a file begin with: what was published in it once is there again for each.

    Tables name their files by whole paths, so each test gets the same folder, made as it was.
    """

    folder: Path
    reports: list[Any] = field(default_factory=list)

    def restored(self, publish_first: Callable[[Workspace], list[Any]]) -> Workspace:
        """Return it as `publish_first` left it, which is called once and gives `reports`."""
        workspace = workspace_in(self.folder)
        kept = self.folder / "kept"
        if not kept.exists():
            workspace.home.mkdir()
            self.reports = publish_first(workspace)
            shutil.copytree(workspace.home, kept)
        shutil.rmtree(workspace.home)
        shutil.copytree(kept, workspace.home)
        return workspace


@pytest.fixture(scope="module")
def kept_workspace(tmp_path_factory: pytest.TempPathFactory) -> KeptWorkspace:
    return KeptWorkspace(tmp_path_factory.mktemp("kept_workspace"))


@dataclass
class Snapshot:
    """Rows to land; each method adds one row with the columns that the test does not care about filled in."""

    interval: Interval = INTERVAL
    cluster: str = "demo"
    rows: dict[str, list[Row]] = field(default_factory=lambda: {table.name: [] for table in LANDED})
    manifest_extra: dict[str, Any] = field(default_factory=dict)

    @property
    def read_at(self) -> datetime:
        return self.interval.start + timedelta(seconds=5)

    def add(self, table_name: str, **columns: Any) -> Row:
        names = next(table for table in LANDED if table.name == table_name).columns
        row = dict.fromkeys(column.name for column in names)
        row |= {"cluster": self.cluster, "interval_start": self.interval.start, **columns}
        self.rows[table_name].append(row)
        return row

    def queue(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offsets: tuple[int | None, int | None, int | None],
        **more: Any,
    ) -> Row:
        """Add a queue of a group; `offsets` are min, consumer and max offset."""
        low, committed, high = offsets
        columns = {
            "consumer_group": group,
            "topic": topic,
            "broker_name": "broker-a",
            "queue_id": queue_id,
            "min_offset": low,
            "consumer_offset": committed,
            "max_offset": high,
            "consumer_offset_read_at": self.read_at,
            "max_offset_read_at": None if high is None else self.read_at,
            "origin": "broker",
        }
        return self.add("queue_snapshots", **(columns | more))

    def fill(self, committed: int = 400) -> Self:
        """Add a group with a backlog, one that has read all, a corrupt row, one that is there twice, a moved offset."""
        self.broker()
        for group, topic, offset in (("billing", "orders", committed), ("stock", "goods", 1000)):
            self.topic(topic)
            self.group(group)
            for queue_id in range(3):
                self.topic_queue(topic, queue_id, 0, 1000)
                self.queue(group, topic, queue_id, (0, offset, 1000))
        self.queue("billing", "orders", 3, (0, -7, 1000))
        self.topic_queue("orders", 3, 0, None)
        self.move(1, 900, 400, self.interval.start + timedelta(seconds=2), consumer_group="billing")
        self.rows["queue_snapshots"].append(dict(self.rows["queue_snapshots"][0]))
        return self

    def topic_queue(self, topic: str, queue_id: int, low: int | None, high: int | None, **more: Any) -> Row:
        columns = {"topic": topic, "broker_name": "broker-a", "queue_id": queue_id, "min_offset": low}
        read_at = None if high is None else self.read_at
        return self.add("topic_queue_snapshots", **(columns | {"max_offset": high, "read_at": read_at} | more))

    def topic(self, topic: str, kind: str = "normal") -> Row:
        return self.add(
            "topic_settings",
            broker_name="broker-a",
            topic=topic,
            topic_kind=kind,
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            orderly=False,
        )

    def group(self, group: str, **more: Any) -> Row:
        columns = {"consumer_group": group, "system_group": False, "online_client_count": 0, "in_detail": False}
        return self.add("group_snapshots", **(columns | more))

    def broker(self, broker_name: str = "broker-a", *, answered: bool = True, failure: str | None = None) -> Row:
        return self.add(
            "broker_snapshots",
            broker_name=broker_name,
            broker_id=0,
            address="127.0.0.1:10911",
            answered=answered,
            failure=failure,
        )

    def move(self, position: int, requested: int, corrected: int, moved_at: datetime, **more: Any) -> Row:
        columns = {
            "source": "broker-a",
            "position": position,
            "moved_at": moved_at,
            "consumer_group": "digg",
            "client_id": None,
            "topic": "orders",
            "broker_name": "broker-a",
            "queue_id": 0,
            "requested_offset": requested,
            "corrected_offset": corrected,
            "origin": "event",
        }
        return self.add("offset_moves", **(columns | more))

    def move_on(self) -> Interval:
        """Let all rows be of the next minute; returns its interval."""
        self.interval = Interval(self.interval.end)
        for row in (row for rows in self.rows.values() for row in rows):
            row["interval_start"] = self.interval.start
            row |= {name: self.read_at for name, value in row.items() if name.endswith("_read_at") and value}
        return self.interval

    def manifest(self) -> Manifest:
        counts = {name: len(rows) for name, rows in self.rows.items()}
        return Manifest(
            cluster=self.cluster,
            interval_start=self.interval.start,
            started_at=self.read_at,
            finished_at=self.read_at + timedelta(seconds=1),
            requests=RequestCounts(),
            row_counts=counts,
            **self.manifest_extra,
        )

    def land(self, workspace: Workspace) -> Path:
        return land(workspace.landing_folder, self.manifest(), self.rows)


@pytest.fixture
def broker_rows(spark: SparkSession) -> Callable[..., DataFrame]:
    """Give a sound row of `broker_snapshots`."""

    def row_of(broker_name: str, start: datetime = INTERVAL.start) -> DataFrame:
        row = {"cluster": "demo", "interval_start": start, "broker_name": broker_name, "address": "127.0.0.1:10911"}
        return spark.createDataFrame(table_of(BROKER_SNAPSHOTS, [row | {"broker_id": 0, "answered": True}]))

    return row_of


@pytest.fixture(scope="session")
def new_snapshot() -> type[Snapshot]:
    return Snapshot


@pytest.fixture
def snapshot() -> Snapshot:
    return Snapshot()
