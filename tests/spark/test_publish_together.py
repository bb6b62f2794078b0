"""One publication of several clusters: what it costs, and that nothing of one cluster is anything to another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.tables import INVARIANT_RESULTS, PUBLISHED, QUEUE_SNAPSHOTS, QUEUE_STATE, Table
from offsetguard_peers.lake.readers import Readers
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_waiting import publish_waiting
from offsetguard_spark.reports import Publication
from offsetguard_spark.tables import table_name

CLUSTERS = ("east", "north", "west")
OF_THE_RUN = {"run_id", "published_at"}


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

    def publish(self, *clusters: str, interval: Interval | None = None, again: bool = False) -> Publication:
        """Publish the newest interval, or another one, of all clusters or some; returns what became of each."""
        publication, now = Publication(), self.interval.end
        asked_for = clusters or CLUSTERS
        self.publisher.publish_clusters(asked_for, interval or self.interval, publication, now=now, again=again)
        return publication

    def move_on(self) -> None:
        for number, snapshot in enumerate(self.snapshots.values()):
            snapshot.move_on()
            for row in snapshot.rows["queue_snapshots"]:
                row["consumer_offset"] += 10 * (number + 1)

    def readers(self, cluster: str) -> Readers:
        return Readers(self.workspace, cluster=cluster)

    def commits(self, table: Table) -> int:
        """Return how many snapshots the table has had."""
        return len(load_table(open_catalog(self.workspace), table).snapshots())

    def all_rows(self, table: Table) -> dict[str, int]:
        """Return how many rows main has of each cluster, shown or not."""
        rows = self.publisher.start_spark().table(table_name(table)).groupBy("cluster").count().collect()
        return {row["cluster"]: row["count"] for row in rows}


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
        assert (list(report.done), report.failed) == (list(CLUSTERS), {})
        for cluster in CLUSTERS:
            alone = apart.publisher.publish(cluster, interval, now=interval.end)
            assert comparable(dataclasses.asdict(alone)) == comparable(dataclasses.asdict(report.done[cluster]))
    for cluster in CLUSTERS:
        for table in PUBLISHED:
            mine, its = (in_order(fleet.readers(cluster).rows(table, interval)) for fleet in (together, apart))
            assert mine == its, (cluster, table.name)
        page = Path(cluster) / f"{interval.name}.html"
        mine, its = ((fleet.workspace.data_docs_folder / page).read_text() for fleet in (together, apart))
        assert mine == its
    assert len(together.readers("west").rows(QUEUE_STATE, interval)) == 4
    grown = [fleet.commits(QUEUE_SNAPSHOTS) - before for fleet, before in zip((together, apart), commits, strict=True)]
    assert grown == [1, 3]
    assert len({one.run_id for one in cycles.newest(together.publisher.engine)}) == 2, "a run is one, of all clusters"


def test_a_snapshot_that_is_damaged_and_one_that_the_gate_stops_keep_no_other_cluster_waiting(
    new_fleet: Callable[[str], Fleet],
) -> None:
    fleet = new_fleet("fleet")
    for queue_id in range(100, 140):
        fleet.snapshots["north"].queue("billing", "orders", queue_id, (0, -5, 100))
    fleet.land()
    damaged = fleet.workspace.landing_folder / "west" / fleet.interval.name / "queue_snapshots.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100])

    session = publish_waiting(fleet.publisher, lambda: fleet.interval.end)
    assert {cluster for cluster, _ in session.published} == {"east"}
    why = {cluster: error for (cluster, _), error in session.failed.items()}
    assert str(damaged) in why["west"]
    assert why["north"].startswith(f"north {fleet.interval.name}: nothing was published: OG-Q11 ")
    assert fleet.all_rows(QUEUE_SNAPSHOTS).keys() == {"east"}, "no row of theirs is in what later minutes are made of"
    assert fleet.all_rows(INVARIANT_RESULTS).keys() == fleet.all_rows(QUEUE_STATE).keys() == {"east"}
    failed = {one.cluster: one.failed_step for one in cycles.newest(fleet.publisher.engine, failed=True)}
    assert failed == {"north": "gate", "west": "landed"}
    page = (fleet.workspace.data_docs_folder / "north" / "index.html").read_text(encoding="utf-8")
    assert "Why nothing was published" in page

    fleet.snapshots["north"].rows["queue_snapshots"] = fleet.snapshots["north"].rows["queue_snapshots"][:3]
    fleet.move_on()
    fleet.land()
    session = publish_waiting(fleet.publisher, lambda: fleet.interval.end)
    newest = {one: published_intervals.newest(fleet.publisher.engine, one).interval for one in CLUSTERS}
    assert newest == dict.fromkeys(CLUSTERS, fleet.interval), "the next minute is published of all of them"


def test_a_cluster_that_has_not_landed_or_is_published_already_is_left_as_it_is(
    new_fleet: Callable[[str], Fleet],
) -> None:
    fleet = new_fleet("fleet")
    fleet.land("east", "west")
    first = fleet.publisher.publish("west", fleet.interval, now=fleet.interval.end)
    report = fleet.publish()
    assert {cluster: one.verdict for cluster, one in report.done.items()} == {
        "west": "already published",
        "east": "published",
    }
    assert list(report.failed) == ["north"]
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
    again = fleet.publish(interval=older, again=True)
    assert (set(again.done), again.failed) == (set(CLUSTERS), {})
    assert {row["sample_count"] for row in fleet.readers("north").rows(QUEUE_STATE, older)} == {1}
    for cluster, rows in states.items():
        assert fleet.readers(cluster).rows(QUEUE_STATE, fleet.interval) == rows, "an older minute leaves it alone"
        assert {row["sample_count"] for row in rows} == {2}


def comparable(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says of the cluster and not of the run."""
    return {
        name: report[name] for name in ("cluster", "interval_start", "verdict", "rows", "quarantined", "violations")
    }


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({name: value for name, value in row.items() if name not in OF_THE_RUN}) for row in rows)
