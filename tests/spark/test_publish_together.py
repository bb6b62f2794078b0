"""One publication of several clusters and minutes: that it gives what one of each gives, and nothing stops another."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.facts.published import read_rows
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.model.intervals import Interval, Minute
from offsetguard.store import cycles, published_intervals
from offsetguard.tables import INVARIANT_RESULTS, PUBLISHED, QUEUE_SNAPSHOTS, QUEUE_STATE, TOPIC_FACTS, Table
from offsetguard_peers.lake.readers import Readers
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_waiting import publish_waiting
from offsetguard_spark.reports import Publication

CLUSTERS = ("east", "north", "west")
OF_THE_RUN = {"run_id", "published_at"}
LATER = datetime(2026, 11, 22, tzinfo=UTC)


@dataclass
class Fleet:
    """A few clusters in one workspace; the queues of each are its own, of the same group and topic in all of them."""

    workspace: Workspace
    publisher: Publisher
    snapshots: dict[str, Any]
    lines: list[str] = field(default_factory=list)

    @property
    def interval(self) -> Interval:
        """The newest one."""
        return next(iter(self.snapshots.values())).interval

    def land(self, *clusters: str) -> None:
        for cluster in clusters or CLUSTERS:
            self.snapshots[cluster].land(self.workspace)

    def publish(self, *clusters: str, intervals: tuple[Interval, ...] = (), again: bool = False) -> Publication:
        """Publish the newest interval, or others, of all clusters or some; returns what became of each."""
        publication, now = Publication(), self.interval.end
        minutes = Minutes(clusters or CLUSTERS, intervals or (self.interval,))
        self.publisher.publish_together(minutes, publication, now=now, again=again)
        return publication

    def land_without(self, gone: Mapping[str, Any]) -> None:
        """Land all but the queues that have these values."""
        for snapshot in self.snapshots.values():
            rows = dict(snapshot.rows)
            for name in ("queue_snapshots", "topic_queue_snapshots"):
                rows[name] = [row for row in rows[name] if not gone.items() <= row.items()]
            dataclasses.replace(snapshot, rows=rows).land(self.workspace)

    def move_on(self) -> None:
        for number, snapshot in enumerate(self.snapshots.values()):
            snapshot.move_on()
            for row in snapshot.rows["queue_snapshots"]:
                row["consumer_offset"] += 10 * (number + 1)
                row["max_offset"] += 30 * (number + 1)
            for row in snapshot.rows["topic_queue_snapshots"]:
                row["max_offset"] += 30 * (number + 1)
                row["read_at"] = snapshot.read_at
            for row in snapshot.rows["broker_snapshots"]:
                row |= {"commit_log_max_offset": snapshot.read_at.minute * 5000, "read_at": snapshot.read_at}

    def readers(self, cluster: str) -> Readers:
        return Readers(self.workspace, cluster=cluster)

    def commits(self, table: Table) -> int:
        """Return how many snapshots the table has had."""
        return len(load_table(open_catalog(self.workspace), table).snapshots())

    def clusters_in_main(self, table: Table, interval: Interval) -> set[str]:
        """Return of which clusters main has rows of an interval, shown or not."""
        rows = load_table(open_catalog(self.workspace), table).scan().to_arrow().to_pylist()
        return {row["cluster"] for row in rows if row["interval_start"] == interval.start}


def snapshot_of(snapshot: Any, number: int, cluster: str) -> Any:
    """Return the rows of one cluster: its figures are like no other's."""
    own = dataclasses.replace(snapshot, cluster=cluster, rows={name: [] for name in snapshot.rows})
    own.broker()
    own.topic("orders")
    own.group("billing", online_client_count=1)
    for queue_id in range(number + 1):
        own.topic_queue("orders", queue_id, 0, 1000 * (number + 1))
        own.queue("billing", "orders", queue_id, (0, 100 * queue_id, 1000 * (number + 1)))
    own.queue("billing", "orders", 90, (50 * number, 10, 200))  # below the oldest message, in all but the first
    own.topic_queue("orders", 90, 50 * number, 200)
    own.move(number + 1, 10, 20 + number, own.read_at)
    return own


@pytest.fixture
def new_fleet(tmp_path: Path, snapshot: Any, new_publisher: Callable[..., Publisher]) -> Callable[[str], Fleet]:
    """Make fleets that have seen the same, in a workspace each."""

    def new(name: str) -> Fleet:
        home = tmp_path / name
        home.mkdir()
        workspace = Workspace(home, home / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        lines: list[str] = []
        publisher = new_publisher(workspace, lines.append)
        clusters = dict.fromkeys(CLUSTERS, publisher.config.clusters["demo"])
        config = publisher.config.model_copy(update={"clusters": clusters})
        snapshots = {cluster: snapshot_of(snapshot, number, cluster) for number, cluster in enumerate(CLUSTERS)}
        return Fleet(workspace, dataclasses.replace(publisher, config=config), snapshots, lines)

    return new


@pytest.mark.slow
def test_each_cluster_gets_what_a_publication_of_its_own_gives_by_one_commit_of_each_table(
    new_fleet: Callable[[str], Fleet],
) -> None:
    together, apart = new_fleet("together"), new_fleet("apart")
    for minute in range(2):
        commits = [fleet.commits(QUEUE_SNAPSHOTS) if minute else 0 for fleet in (together, apart)]
        for fleet in (together, apart):
            if minute:
                fleet.move_on()
            fleet.land()
        interval = together.interval
        report = together.publish()
        assert ([cluster for cluster, _ in report.done], report.failed) == (list(CLUSTERS), {})
        for cluster in CLUSTERS:
            alone = apart.publisher.publish(cluster, interval, now=interval.end)
            both = (comparable(dataclasses.asdict(one)) for one in (alone, report.done[cluster, interval]))
            assert next(both) == next(both)
    for cluster in CLUSTERS:
        assert_same(together, apart, (cluster, interval))
    assert len(together.readers("west").rows(QUEUE_STATE, interval)) == 4
    grown = [fleet.commits(QUEUE_SNAPSHOTS) - before for fleet, before in zip((together, apart), commits, strict=True)]
    assert grown == [1, 3]
    assert len({one.run_id for one in cycles.newest(together.publisher.engine)}) == 2, "a run is one, of all clusters"


@pytest.mark.slow
def test_minutes_that_wait_are_one_publication_and_give_what_one_after_the_other_gives(
    new_fleet: Callable[[str], Fleet],
) -> None:
    together, apart = new_fleet("together"), new_fleet("apart")
    for fleet in (together, apart):
        fleet.land()
        assert len(publish_waiting(fleet.publisher, lambda: LATER).published) == len(CLUSTERS)
    intervals = []
    for minute in range(4):
        for fleet in (together, apart):
            fleet.move_on()
            gone = {"topic": "orders", "queue_id": 90} if minute == 1 else {"topic": "nothing", "queue_id": 0}
            fleet.land_without(gone)
        intervals.append(together.interval)
        apart.publish()
    before = together.commits(QUEUE_SNAPSHOTS), together.commits(QUEUE_STATE)

    session = publish_waiting(together.publisher, lambda: LATER)
    assert session.failed == {}
    assert set(session.published) == {(cluster, interval) for cluster in CLUSTERS for interval in intervals}
    assert len({report.run_id for report in session.published.values()}) == 1
    assert (together.commits(QUEUE_SNAPSHOTS), together.commits(QUEUE_STATE)) == (before[0] + 1, before[1] + 1)
    for minute_of_cluster in session.published:
        assert_same(together, apart, minute_of_cluster, newest=intervals[-1])
    west = together.readers("west")
    assert [row["produce_tps"] for row in west.rows(TOPIC_FACTS, intervals[3])] == [4 * 90 / 60]

    again = together.publish(intervals=(intervals[1],), again=True)
    assert len(again.done) == len(CLUSTERS)
    for cluster in CLUSTERS:
        for interval in intervals:  # an older interval's state is not written, and so not compared with its facts
            assert_same_rows(together, apart, (cluster, interval), set(PUBLISHED) - {QUEUE_STATE, INVARIANT_RESULTS})


def test_of_minutes_that_wait_one_that_is_wrong_stops_only_itself(new_fleet: Callable[[str], Fleet]) -> None:
    fleet = new_fleet("fleet")
    rows = fleet.snapshots["north"].rows["queue_snapshots"]
    sound = list(rows)
    for queue_id in range(100, 140):
        fleet.snapshots["north"].queue("billing", "orders", queue_id, (0, -5, 100))
    fleet.land()
    intervals = [fleet.interval]
    rows[:] = sound
    fleet.move_on()
    fleet.land()
    intervals.append(fleet.interval)
    damaged = fleet.workspace.landing_folder / "west" / intervals[0].name / "queue_snapshots.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])

    session = publish_waiting(fleet.publisher, lambda: LATER)
    wrong = {("north", intervals[0]), ("west", intervals[0])}
    assert set(session.failed) == wrong
    assert set(session.published) == {(one, other) for one in CLUSTERS for other in intervals} - wrong
    for cluster in CLUSTERS:
        starts = published_intervals.starts(fleet.publisher.engine, cluster, intervals[0].start, LATER)
        assert starts == [one.start for one in intervals if (cluster, one) not in wrong]
        (state,) = {row["interval_start"] for row in fleet.readers(cluster).rows(QUEUE_STATE, intervals[1])}
        assert state == intervals[1].start
    for table in (QUEUE_SNAPSHOTS, INVARIANT_RESULTS):  # no row of theirs is in what later minutes are made of
        assert fleet.clusters_in_main(table, intervals[0]) == {"east"}
    why = {cluster: error for (cluster, _), error in session.failed.items()}
    assert str(damaged) in why["west"]
    assert why["north"].startswith(f"north {intervals[0].name}: nothing was published: OG-Q11 ")
    failed = {one.cluster: one.failed_step for one in cycles.newest(fleet.publisher.engine, failed=True)}
    assert failed == {"north": "gate", "west": "landed"}


@pytest.mark.slow
def test_a_cluster_that_has_not_landed_or_is_published_already_is_left_as_it_is(
    new_fleet: Callable[[str], Fleet],
) -> None:
    fleet = new_fleet("fleet")
    fleet.land("east", "west")
    first = fleet.publisher.publish("west", fleet.interval, now=fleet.interval.end)
    report = fleet.publish()
    assert {cluster: one.verdict for (cluster, _), one in report.done.items()} == {
        "west": "already published",
        "east": "published",
    }
    assert list(report.failed) == [("north", fleet.interval)]
    assert fleet.readers("west").published(fleet.interval).run_id == first.run_id

    late = fleet.snapshots["north"]
    fleet.move_on()
    fleet.land("east", "west")
    fleet.publish("east", "west")
    older = Interval(fleet.interval.start - timedelta(minutes=1))
    for row in (row for rows in late.rows.values() for row in rows):
        row["interval_start"] = older.start
    dataclasses.replace(late, interval=older).land(fleet.workspace)
    states = {cluster: fleet.readers(cluster).rows(QUEUE_STATE, fleet.interval) for cluster in ("east", "west")}
    again = fleet.publish(intervals=(older,), again=True)
    assert ({cluster for cluster, _ in again.done}, again.failed) == (set(CLUSTERS), {})
    assert {row["sample_count"] for row in fleet.readers("north").rows(QUEUE_STATE, older)} == {1}
    for cluster, rows in states.items():
        assert fleet.readers(cluster).rows(QUEUE_STATE, fleet.interval) == rows, "an older minute leaves it alone"
        assert {row["sample_count"] for row in rows} == {2}


def assert_same(one: Fleet, other: Fleet, minute: Minute, newest: Interval | None = None) -> None:
    """Both show the same of it; a state is that of the newest interval that was published with it."""
    cluster, interval = minute
    assert_same_rows(
        one, other, minute, [table for table in PUBLISHED if table != QUEUE_STATE or newest in (None, interval)]
    )
    page = Path(cluster) / f"{interval.name}.html"
    mine, its = ((fleet.workspace.data_docs_folder / page).read_text() for fleet in (one, other))
    assert mine == its


def assert_same_rows(one: Fleet, other: Fleet, minute: Minute, tables: Collection[Table]) -> None:
    mine, its = (rows_of(fleet, minute, tables) for fleet in (one, other))
    for name, rows in mine.items():
        assert rows == its[name], (minute, name)


def rows_of(fleet: Fleet, minute: Minute, tables: Collection[Table]) -> dict[str, list[str]]:
    """Return what some tables show of a minute; opened once, which takes longer than a table does."""
    cluster, interval = minute
    published, catalog = fleet.readers(cluster).published(interval), open_catalog(fleet.workspace)
    assert published is not None
    return {table.name: in_order(read_rows(catalog, table, published)) for table in tables}


def comparable(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says of the cluster and not of the run."""
    return {
        name: report[name] for name in ("cluster", "interval_start", "verdict", "rows", "quarantined", "violations")
    }


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({name: value for name, value in row.items() if name not in OF_THE_RUN}) for row in rows)
