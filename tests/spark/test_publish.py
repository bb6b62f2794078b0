"""Publishing an interval: what readers then see, again and again, with fewer rows, with corrupt rows.

Each test begins with a workspace in which the interval of `snapshot` is published, with the rows of `_backlog`.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from pyspark.sql import functions as F

from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.published import read_interval_facts
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.tables import INVARIANT_RESULTS, PUBLISHED, QUARANTINE, QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_peers.lake.readers import Readers
from offsetguard_spark.branches import Branches, TableRows
from offsetguard_spark.files import SparkFiles
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.publish import Publisher
from offsetguard_spark.reports import Progress, PublishReport
from offsetguard_spark.tables import load_tables, table_name

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


@dataclass(frozen=True)
class Publications(Readers):
    """A workspace with a publisher, what was published first, and what was said since."""

    publisher: Publisher
    first: PublishReport | None = None
    lines: list[str] = field(default_factory=list)

    def publish(
        self, interval: Interval, *, again: bool = False, say: Callable[[str], None] | None = None
    ) -> PublishReport:
        telling = replace(self.publisher, progress=Progress(say or self.lines.append))
        return telling.publish("demo", interval, now=NOW, again=again)


@pytest.fixture
def publications(kept_workspace, new_publisher, snapshot) -> Publications:
    def publish_first(workspace: Workspace) -> list[PublishReport]:
        first = replace(snapshot, rows={name: [] for name in snapshot.rows})
        _backlog(first)
        first.land(workspace)
        return [new_publisher(workspace).publish("demo", first.interval, now=NOW)]

    workspace = kept_workspace.restored(publish_first)
    (report,) = kept_workspace.reports
    return Publications(workspace, new_publisher(workspace), report)


def _land_again(publications: Publications, snapshot) -> None:
    """Put another snapshot in the place of a landed one, as after an operator's repair."""
    folder = publications.workspace.landing_folder / "demo" / snapshot.interval.name
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    snapshot.land(publications.workspace)


def _backlog(snapshot) -> None:
    """One group with a backlog, one that retention overtook, one that knows nothing, one that is fine."""
    snapshot.broker()
    waits = {"oldest_unconsumed_at": snapshot.interval.start - timedelta(minutes=10)}
    for topic in ("orders", "clicks", "quiet"):
        snapshot.topic(topic)
    for group in ("billing", "digg", "idle", "lost"):
        snapshot.group(group, message_model="CLUSTERING")
    for queue_id in (0, 1):
        snapshot.topic_queue("orders", queue_id, 0, 100)
        snapshot.queue("billing", "orders", queue_id, (0, 40, 100), **waits)
        snapshot.queue("idle", "orders", queue_id, (0, 100, 100))
    snapshot.topic_queue("clicks", 0, 50, 90)
    snapshot.queue("digg", "clicks", 0, (50, 10, 90))
    snapshot.topic_queue("quiet", 0, None, None)
    snapshot.queue("lost", "quiet", 0, (None, 7, None))
    moved = snapshot.interval.start + timedelta(seconds=1)
    snapshot.move(1, 10, 50, moved)
    snapshot.move(2, 10, 51, moved + timedelta(seconds=20))


def test_readers_see_the_facts_that_pure_python_makes_of_the_same_snapshot(publications, snapshot) -> None:
    _backlog(snapshot)
    pure = facts_from_snapshot(snapshot.manifest(), snapshot.rows, publications.publisher.config, snapshot.interval)

    facts = publications.facts(snapshot.interval)

    assert {replace(queue, window=None) for queue in facts.queues} == {
        replace(queue, window=None) for queue in pure.queues
    }
    assert _window_rows(facts) == _window_rows(pure)
    assert set(facts.groups) == set(pure.groups)
    assert set(facts.offset_moves) == set(pure.offset_moves)
    assert (facts.cluster, facts.interval, facts.now) == (pure.cluster, pure.interval, pure.now)
    assert {"OG-Q01": 1, "OG-S02": 1}.items() <= publications.first.violations.items()
    results = publications.rows(INVARIANT_RESULTS, snapshot.interval)
    (broken,) = (one for one in results if one["invariant_id"] == "OG-Q01")
    assert broken["examples"] == ["digg in clicks broker-a/0: min_offset 50 > consumer_offset 10 (by 40)"]
    assert (publications.workspace.data_docs_folder / "demo" / "index.html").is_file()
    assert publications.branch_names() == {"main"}

    expired = replace(publications.published(snapshot.interval), snapshot_ids={"queue_facts": 12345})
    with pytest.raises(
        PublishError, match=r"queue_facts: the published snapshot 12345 .* is not in the table any more"
    ):
        read_interval_facts(publications.workspace, expired, snapshot.manifest())


def _window_rows(facts: IntervalFacts) -> list[dict[str, object]]:
    """Return the windows of all suspect queues."""
    rows = []
    for queue in sorted(facts.queues, key=lambda one: (one.consumer_group, one.message_queue)):
        assert queue.window is not None
        rows.append({"consumer_group": queue.consumer_group, "queue": queue.message_queue} | asdict(queue.window))
    return rows


def test_what_is_published_already_is_left_alone(publications, snapshot) -> None:
    """A rerun that gives the same rows: test_recompute.py."""
    first, same = publications.first, publications.publish(snapshot.interval)
    assert (same.verdict, same.run_id, same.snapshot_ids) == ("already published", first.run_id, first.snapshot_ids)


def next_minute(snapshot):
    """Return the backlog of the minute after a snapshot's."""
    later = replace(snapshot, interval=Interval(snapshot.interval.end), rows={name: [] for name in snapshot.rows})
    _backlog(later)
    return later


def test_corrupt_rows_are_kept_in_quarantine_and_out_of_the_facts(publications, snapshot) -> None:
    snapshot = next_minute(snapshot)
    snapshot.queue("billing", "orders", 1, (0, 39, 100))  # its key again, knowing less: the other row stays
    corrupt = snapshot.queue("billing", "orders", 2, (0, -5, 100), last_timestamp=NOW + timedelta(days=300))
    snapshot.add(
        "undecodable_records",
        source="OFFSET_MOVED_EVENT of broker-a",
        position=4,
        reason="not JSON",
        body_base64="e30=",
    )
    snapshot.land(publications.workspace)

    report = publications.publish(snapshot.interval)

    quarantine = publications.rows(QUARANTINE, snapshot.interval)
    assert [(row["table_name"], row["invariant_id"], row["row_key"], row["reason_number"]) for row in quarantine] == [
        ("queue_snapshots", "OG-Q11", "broker-a orders 2 billing", 1),
        ("queue_snapshots", "OG-Q13", "broker-a orders 2 billing", 2),
        ("undecodable_records", "UNDECODABLE", "OFFSET_MOVED_EVENT of broker-a 4", 1),
    ]
    found = {row["invariant_id"]: row for row in publications.rows(INVARIANT_RESULTS, snapshot.interval)}
    counts = {id_: (found[id_]["rows_checked"], found[id_]["violations"]) for id_ in ("OG-Q11", "OG-Q13")}
    assert counts == {"OG-Q11": (7, 1), "OG-Q13": (3, 1)}
    assert found["OG-Q11"]["examples"] == ["billing in orders broker-a/2: min 0, consumer -5, pull unknown, max 100"]
    kept = json.loads(quarantine[0]["row_json"])
    assert {name: kept[name] for name in ("consumer_offset", "pull_offset", "queue_id")} == {
        "consumer_offset": -5,
        "pull_offset": None,
        "queue_id": 2,
    }
    assert set(kept) == {column.name for column in QUEUE_SNAPSHOTS.columns}
    assert json.loads(quarantine[2]["row_json"])["reason"] == "not JSON"
    assert (report.quarantined, report.duplicates) == (3, 1)
    assert corrupt["queue_id"] not in {row["queue_id"] for row in publications.rows(QUEUE_SNAPSHOTS, snapshot.interval)}
    billing = next(group for group in publications.facts(snapshot.interval).groups if group.consumer_group == "billing")
    assert (billing.queue_count, billing.lag) == (2, 120)


def test_rows_changed_behind_the_writer_stop_at_the_gate_and_readers_stay(publications, snapshot) -> None:
    """A row lost and one made corrupt between writing and gate: nothing of the run becomes visible."""
    snapshot = next_minute(snapshot)
    snapshot.land(publications.workspace)

    def damage(line: str) -> None:
        if line.startswith("gate:"):
            states = load_tables(publications.workspace)
            name = next(iter(publications.branch_names() - {"main"}))
            minutes = Minutes(("demo",), (snapshot.interval,))
            spark, files = publications.publisher.start_spark(), SparkFiles(publications.workspace)
            branches = Branches(spark, minutes, name, states, files)
            branches.tables = [QUEUE_SNAPSHOTS]
            rows = branches.read(QUEUE_SNAPSHOTS).where("consumer_group <> 'digg'")
            broken = F.when(F.col("queue_id") == 1, F.lit(-1)).otherwise(F.col("queue_id"))
            changed = rows.withColumn("queue_id", broken).localCheckpoint()
            branches.write([TableRows(QUEUE_SNAPSHOTS, lambda: changed, 1)])

    problem = "nothing was published: queue_snapshots: 5 rows written and 0 in quarantine, 6 landed"
    with pytest.raises(PublishError, match=problem) as failure:
        publications.publish(snapshot.interval, say=damage)
    assert "queue_snapshots: 2 corrupt rows were written" in str(failure.value)
    assert publications.published(snapshot.interval) is None

    assert publications.publish(snapshot.interval).verdict == "published"
    assert any("branches of a run that did not end" in line for line in publications.lines)
    assert publications.branch_names() == {"main"}


def test_two_publishers_at_once_take_turns_and_a_reader_never_sees_half_of_an_interval(publications, snapshot) -> None:
    newer = next_minute(snapshot)
    newer.land(publications.workspace)
    seen: list[IntervalFacts] = []
    ended, has_read = Event(), Event()

    def read_again_and_again() -> None:
        while not ended.wait(0.05):  # publishing gets the processor as well
            newest = published_intervals.newest(publications.publisher.engine, "demo")
            assert newest is not None
            facts = publications.facts(newest.interval)
            if facts not in seen:
                seen.append(facts)
                has_read.set()

    with ThreadPoolExecutor(3) as pool:
        reader = pool.submit(read_again_and_again)
        try:
            assert has_read.wait(300)
            publishers = [
                pool.submit(publications.publish, snapshot.interval, again=True),
                pool.submit(publications.publish, newer.interval),
            ]
            verdicts = [publisher.result().verdict for publisher in publishers]
        finally:
            ended.set()
        reader.result()

    assert verdicts == ["published", "published"]
    assert any(line.startswith("waiting: another interval is being published") for line in publications.lines)
    assert seen[0] == publications.facts(snapshot.interval)
    assert seen[1:] in ([], [publications.facts(newer.interval)])


def test_another_snapshot_with_fewer_or_no_rows_replaces_its_interval_and_no_other(publications, snapshot) -> None:
    newer = next_minute(snapshot)
    newer.land(publications.workspace)
    publications.publish(newer.interval)

    def of_newer() -> list[object]:
        state = publications.publisher.start_spark().table(table_name(QUEUE_STATE)).orderBy(*QUEUE_STATE.key).collect()
        return [
            state,
            [publications.rows(table, newer.interval) for table in PUBLISHED],
            publications.facts(newer.interval),
        ]

    before = of_newer()
    _backlog(snapshot)
    snapshot.rows["queue_snapshots"] = snapshot.rows["queue_snapshots"][:1]
    _land_again(publications, snapshot)
    with pytest.raises(PublishError, match="and the two disagree: say --again if this one is right, or delete it"):
        publications.publish(snapshot.interval)

    report = publications.publish(snapshot.interval, again=True)

    assert report.rows["queue_snapshots"] == 1
    older = publications.facts(snapshot.interval)
    assert [group.consumer_group for group in older.groups] == ["billing"]
    assert of_newer() == before

    newer.rows = {name: [] for name in newer.rows}
    _land_again(publications, newer)
    report = publications.publish(newer.interval, again=True)
    facts = publications.facts(newer.interval)
    assert (facts.queues, facts.groups) == ((), ())
    # What is left: the results, and the older interval's moves, which are history of the look-back window.
    assert {name for name, rows in report.rows.items() if rows} == {"invariant_results", "offset_move_facts"}
    assert publications.facts(snapshot.interval) == older


def test_a_reader_is_told_when_nothing_was_published_in_the_workspace(workspace, snapshot) -> None:
    published = published_intervals.PublishedInterval("demo", snapshot.interval, "r", NOW, "", {}, "{}")
    with pytest.raises(PublishError, match=r"catalog\.db: there is no catalog, .* run spark/jobs/publish_interval"):
        read_interval_facts(workspace, published, snapshot.manifest())
