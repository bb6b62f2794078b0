"""The gate on what was written: what it counts, why it keeps readers away, and how many Spark jobs that takes."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.collect.landing import table_of
from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import (
    BROKER_FACTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    LANDED,
    PUBLISHED,
    QUARANTINE,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    QUEUE_STATE,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    UNDECODABLE_RECORDS,
    Table,
)
from offsetguard.tables.facts import InvariantResult
from offsetguard_expectations.invariants import AGREEMENTS, ALL
from offsetguard_peers.lake.warehouse import rows_of
from offsetguard_spark import invariants
from offsetguard_spark.gate import GateReport, check_written
from offsetguard_spark.invariants import sound_rows as sound
from offsetguard_spark.landed import Landed, LandedTable
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.tables import spark_schema


@dataclass
class WrittenRows:
    """Rows as a run wrote them; a test may damage them before the gate looks."""

    spark: SparkSession
    clusters: tuple[str, ...]
    interval: Interval
    data_docs_folder: Path
    frames: dict[Table, DataFrame] = field(default_factory=dict)
    small: bool = False  # GX looks at what Python has read

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(self.frames)

    @property
    def minutes(self) -> Minutes:
        return Minutes(self.clusters, (self.interval,))

    def read(self, table: Table) -> DataFrame:
        return self.frames.get(table) or self.spark.createDataFrame([], spark_schema(table))

    def rows(self, table: Table) -> pa.Table:
        return self.read(table).toArrow()

    def put(self, table: Table, *rows: dict[str, Any]) -> None:
        key = {"cluster": self.clusters[0], "interval_start": self.interval.start}
        self.frames[table] = self.spark.createDataFrame(rows_of(table, [key | row for row in rows]))


def written_rows(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    """Write a snapshot as a run does: sound rows, quarantine, and facts that agree with them."""
    written = WrittenRows(spark, (snapshot.cluster,), snapshot.interval, folder)
    marked = {}
    for table in LANDED:
        if rows := snapshot.rows[table.name]:
            marked[table.name] = invariants.mark(spark.createDataFrame(table_of(table, rows)), table)
            if table in PUBLISHED:
                written.frames[table] = sound(marked[table.name])
    written.frames[QUARANTINE] = invariants.quarantine_rows(spark, marked, run_id="run-1")
    return written


def gate(written: WrittenRows, *snapshots: Any) -> dict[str, GateReport]:
    """Return the gate's report of each cluster."""
    landed, previous = {}, dict[str, PublishedInterval | None]()
    for one in snapshots:
        tables = {table.name: LandedTable(table, len(one.rows[table.name])) for table in LANDED}
        previous[one.cluster] = None
        if (minutes_ago := MINUTES_AGO.get(one.cluster, 1)) is not None:
            before = Interval(one.interval.start - timedelta(minutes=minutes_ago))
            previous[one.cluster] = PublishedInterval(one.cluster, before, "run-0", before.end, "audited", {}, "{}")
        landed[one.cluster, one.interval] = Landed(written.data_docs_folder, one.manifest(), tables)
    reports = check_written(written, written.read(QUEUE_STATE), landed, previous, written.data_docs_folder)
    return {cluster: report for (cluster, _), report in reports.items()}


def result(report: GateReport, id_: str) -> InvariantResult:
    return next(one for one in report.results if one.invariant_id == id_)


def clean(snapshot: Any) -> None:
    """Two queues of one group in one topic, all on a known broker."""
    snapshot.broker()
    snapshot.topic("orders")
    snapshot.group("billing")
    for queue_id in (0, 1):
        snapshot.topic_queue("orders", queue_id, 0, 100)
        snapshot.queue("billing", "orders", queue_id, (0, 40, 100))


def with_facts(written: WrittenRows, **changes: Any) -> WrittenRows:
    """Add the facts of `clean`; the changes damage `group_facts`."""
    figures = {"lag": 120, "effective_lag": 120, "lost": 0, "beyond_end": 0, "violated_invariants": []}
    group = {"consumer_group": "billing", "topic": "orders", "topic_kind": "normal", "queue_count": 2, **figures}
    counts = {"unknown_queue_count": 0, "never_committed_queue_count": 0, "system_group": False}
    written.put(GROUP_FACTS, group | counts | changes)
    written.put(TOPIC_FACTS, {"topic": "orders", "queue_count": 2, "consumer_group_count": 1, **figures})
    queues = {"consumed_queue_count": 2, "topic_queue_count": 2}
    written.put(BROKER_FACTS, {"broker_name": "broker-a", "broker_id": 0, "listed": True, **queues, **figures})
    written.put(CLUSTER_FACTS, queues | figures)
    return written


# --- the gate looks once, at a cluster for each case ------------------------------------------------------------------


MINUTES_AGO = {"half_seen": 60, "first": None}  # when the interval before was published; one minute otherwise
HOSTILE = "<script>alert('G1')</script>"
MOST = 2**63 - 1
Written = Callable[[SparkSession, Any, Path], WrittenRows]


def sound_interval(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    clean(snapshot)
    return with_facts(written_rows(spark, snapshot, folder))


def wrong(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    """Double rows and the quarantine, make one corrupt, take a queue and its lag from the group: all at once."""
    clean(snapshot)
    snapshot.add("undecodable_records", source="events", position=1, reason="not JSON", body_base64="")
    written = with_facts(written_rows(spark, snapshot, folder), queue_count=1, lag=119, effective_lag=119, lost=-1)
    topic_queues, quarantine = written.frames[TOPIC_QUEUE_SNAPSHOTS], written.frames[QUARANTINE]
    written.frames[TOPIC_QUEUE_SNAPSHOTS] = topic_queues.withColumn("min_offset", F.expr("min_offset - queue_id"))
    written.frames[QUEUE_SNAPSHOTS] = written.frames[QUEUE_SNAPSHOTS].unionAll(written.frames[QUEUE_SNAPSHOTS])
    written.frames[QUARANTINE] = quarantine.unionAll(quarantine)
    return written


def no_suspect(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    clean(snapshot)
    snapshot.rows["queue_snapshots"][0] |= {"min_offset": 50}
    return with_facts(written_rows(spark, snapshot, folder))


def suspect(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    written = with_facts(no_suspect(spark, snapshot, folder), suspect_queue_count=1)
    row = {"consumer_group": "billing", "topic": "orders", "broker_name": "broker-a", "queue_id": 0}
    written.put(QUEUE_FACTS, row | {"violated_invariants": ["OG-Q01"]})
    return written


def not_comparable(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    """Give a lag at the end of the number range, and a state that was not folded."""
    clean(snapshot)
    return with_facts(written_rows(spark, snapshot, folder), lag=MOST, effective_lag=MOST)


def without_facts(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    written = sound_interval(spark, snapshot, folder)
    del written.frames[GROUP_FACTS]
    return written


def mostly_corrupt(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    snapshot.broker()
    for queue_id in range(40):
        snapshot.topic_queue("orders", queue_id, -1 if queue_id < 21 else 0, 100)
    written = written_rows(spark, snapshot, folder)
    written.put(TOPIC_FACTS, {"topic": "orders", "queue_count": 19, "consumer_group_count": 0})
    written.put(BROKER_FACTS, {"broker_name": "broker-a", "listed": True, "topic_queue_count": 19})
    written.put(CLUSTER_FACTS, {"topic_queue_count": 19})
    return written


def half_seen(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    snapshot.manifest_extra = {"master_broker_names": ("broker-b",), "unseen_broker_names": ("broker-b",)}
    written = sound_interval(spark, snapshot, folder)
    written.frames[BROKER_FACTS] = written.frames[BROKER_FACTS].withColumn("listed", F.lit(False))
    return written


def hostile(spark: SparkSession, snapshot: Any, folder: Path) -> WrittenRows:
    clean(snapshot)
    snapshot.rows["queue_snapshots"][0] |= {"consumer_group": HOSTILE, "min_offset": 50}
    snapshot.queue("billing", "orders", 2, (0, -5, 100))
    return with_facts(written_rows(spark, snapshot, folder))


ALONE = (sound_interval, wrong, no_suspect, suspect, not_comparable, without_facts, mostly_corrupt, half_seen, hostile)
CASES: dict[str, Written] = {one.__name__: one for one in ALONE} | {"first": sound_interval}


@dataclass(frozen=True)
class Checked:
    """What the gate said of each case, what it connected to meanwhile, and where its pages are."""

    reports: dict[str, GateReport]
    connections: list[Any]
    folder: Path


@pytest.fixture(scope="module", params=[False, True], ids=["on Spark", "of few rows"])
def checked(
    new_session: Any, new_snapshot: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Checked:
    folder, snapshots, connections = tmp_path_factory.mktemp("gate"), [], list[Any]()
    spark = new_session(Workspace(folder, folder / "offsetguard.yml", f"sqlite:///{folder / 'offsetguard.db'}"))
    all_of_them = WrittenRows(spark, tuple(CASES), new_snapshot().interval, folder, small=request.param)
    for cluster, write in CASES.items():
        snapshots.append(new_snapshot(cluster=cluster))
        for table, rows in write(spark, snapshots[-1], folder).frames.items():
            before = all_of_them.frames.get(table)
            all_of_them.frames[table] = before.unionByName(rows) if before else rows
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
            connections.extend([arguments] if "127.0.0.1" not in str(arguments) else [])  # Spark's

    sys.addaudithook(watch)  # cannot be removed again: it goes quiet instead
    reports = gate(all_of_them, *snapshots)
    watching = False
    return Checked(reports, connections, folder)


def test_a_sound_interval_has_a_result_of_every_invariant_and_no_problem(checked: Checked) -> None:
    report = checked.reports["sound_interval"]
    assert report.problem is None
    assert [one.invariant_id for one in report.results] == [check.id for check in ALL]
    assert {one.invariant_id: one.examples for one in report.results if one.violations} == {}
    assert (report.rows["queue_snapshots"], report.rows["quarantine"], report.rows["log_events"]) == (2, 0, 0)
    seen = {one.invariant_id for one in report.results if one.rows_checked}
    assert {"OG-I01", "OG-S01", "OG-Q01", "OG-Q11", "OG-F02", "OG-V01", "OG-V04"} <= seen


def test_everything_that_was_written_wrongly_is_named_and_nothing_is_published(checked: Checked) -> None:
    report = checked.reports["wrong"]
    assert sorted(problem.split(":")[0] for problem in report.not_published_because) == [
        "OG-F02 A figure of groups is impossible",
        "OG-V01 Groups do not stand for all queues",
        "OG-V03 The lag of groups is not that of their queues",
        "OG-V04 The lag of topics is not that of their groups",
        "OG-V07 Brokers do not stand for all queues of groups",
        "OG-V09 The lag on brokers is not that of groups",
        "OG-V10 The lag of the cluster is not that of groups",
        "OG-V13 The losses of the cluster are not those of groups",
        "queue_snapshots",
        "topic_queue_snapshots",
        "undecodable_records",
    ]
    for text in (
        "queue_snapshots: 4 rows written and 0 in quarantine, 2 landed",
        "undecodable_records: 0 rows written and 2 in quarantine, 1 landed",
        "topic_queue_snapshots: 1 corrupt rows were written (OG-T11)",
        "queues in group_facts: 1 instead of 4 (queues in queue_snapshots)",
        "billing in orders: 1 queues, unknown 0, never committed 0, lag 119, effective 119, lost -1",
    ):
        assert any(text in problem for problem in report.not_published_because), text
    assert report.problem.startswith("wrong 20261121T103900Z: nothing was published: queue_snapshots: 4 rows")


def test_a_queue_in_trouble_that_is_no_suspect_keeps_readers_away(checked: Checked) -> None:
    assert "OG-V05" in checked.reports["no_suspect"].not_published_because[0]
    assert checked.reports["suspect"].not_published_because == ()


def test_figures_that_cannot_be_compared_are_neither_good_nor_bad(checked: Checked) -> None:
    report = checked.reports["not_comparable"]
    assert report.not_published_because == ()
    for id_ in ("OG-V03", "OG-V04", "OG-V09", "OG-V10", "OG-V14"):
        assert (result(report, id_).rows_checked, result(report, id_).violations) == (0, 0)


def test_facts_that_were_not_written_at_all_keep_readers_away(checked: Checked) -> None:
    problems = checked.reports["without_facts"].not_published_because
    assert problems[0].endswith(": queues in group_facts: 0 instead of 2 (queues in queue_snapshots)")


def test_when_most_rows_of_a_table_are_corrupt_nothing_is_published(checked: Checked) -> None:
    """Which share is too large: tests/unit/expectations/test_invariants.py."""
    assert (
        checked.reports["mostly_corrupt"]
        .not_published_because[0]
        .startswith(
            "OG-T11 The broker reports negative offsets: 21 of 40 rows of topic_queue_snapshots, more than 50%: orders"
        )
    )


def test_gaps_in_time_unknown_brokers_and_a_half_seen_cluster_are_told_and_published(checked: Checked) -> None:
    report = checked.reports["half_seen"]
    assert report.problem is None
    violations = {one.invariant_id: one.violations for one in report.results if one.violations}
    assert violations == {"OG-I01": 1, "OG-I05": 1, "OG-B01": 1}
    assert result(report, "OG-I01").examples == ("2026-11-21 09:39:00 is the one before: 3540 s without a snapshot",)
    assert not result(checked.reports["first"], "OG-I01").rows_checked


def test_the_page_names_and_shows_violations_with_hostile_names_escaped(checked: Checked) -> None:
    folder = checked.folder / "hostile"
    assert {file.name for file in folder.iterdir()} == {"index.html", "20261121T103900Z.html", "runs.json"}
    page = (folder / "index.html").read_text(encoding="utf-8")
    by_id = {check.id: check for check in ALL}
    assert page.index(by_id["OG-Q01"].violation) < page.index(by_id["OG-Q11"].violation)
    assert "&lt;script&gt;alert(&#39;G1&#39;)&lt;/script&gt; in orders broker-a/0" in page
    assert "<script" not in page
    assert "Why nothing was published" in page, "a queue in trouble is not among the suspects"
    assert "OG-V05 A queue in trouble is not among the suspects: " in page


def test_the_gate_opens_no_connection(checked: Checked) -> None:
    assert checked.connections == []


def test_what_great_expectations_could_not_evaluate_is_not_checked_and_never_good(spark, snapshot, tmp_path) -> None:
    written = sound_interval(spark, snapshot, tmp_path)
    written.frames[QUEUE_SNAPSHOTS] = written.frames[QUEUE_SNAPSHOTS].drop("pull_offset")
    report = gate(written, snapshot)["demo"]
    of_it = re.compile(r"pull_offset\b")
    missing = {check.id for check in ALL} - {one.invariant_id for one in report.results}
    assert missing == {
        *(one.id for one in invariants.invariants_of(QUEUE_SNAPSHOTS) if of_it.search(one.violated_when)),
        *(one.id for one in AGREEMENTS if of_it.search(one.figure.aggregate + one.expected.aggregate)),
    }
    assert missing <= report.not_evaluated.keys()
    assert re.match(r"invariants without a result: OG-Q02, .*nothing published: .*pull_offset", report.problem)
    assert not report.success
    assert "Whether they hold is unknown." in (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")


# --- one query a table, whatever the number ---------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_there_is_a_job_for_each_table_and_one_for_all_examples(
    spark, snapshot, tmp_path, counted_jobs, capfd: pytest.CaptureFixture[str], *, adaptive: str
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    clean(snapshot)
    written = with_facts(written_rows(spark, snapshot, tmp_path))
    tables = len(written.tables) + 1  # and the manifest
    with counted_jobs() as sound_rows:
        report = gate(written, snapshot)["demo"]
    assert not [one for one in report.results if one.violations]
    assert len(sound_rows) == tables
    assert capfd.readouterr().err == "", "no progress bar"

    snapshot.queue("billing", "orders", 2, (50, 40, 30))
    written = with_facts(written_rows(spark, snapshot, tmp_path))
    with counted_jobs() as of_violations:
        report = gate(written, snapshot)["demo"]
    assert len([one for one in report.results if one.violations]) > 5
    assert len(of_violations) == tables + 1
    assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive


def test_examples_are_few_and_the_same_in_every_run_even_when_every_row_violates(spark) -> None:
    interval = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
    two = "explode(array('demo', 'other')) AS cluster", "TIMESTAMP '2026-11-21 10:39:00' AS interval_start"
    rows = spark.range(5_000).selectExpr(*two, "CONCAT('queue ', LPAD(id, 5, '0')) AS line")
    line, demo, other = F.col("line"), ("demo", interval), ("other", interval)
    sought = [
        invariants.Sought(demo, "few", rows, "line >= 'queue 04990'", line, 10),
        invariants.Sought(demo, "rare", rows, "TRUE", line, 5_000),
        invariants.Sought(demo, "frequent", rows, "TRUE", line, 10**9),
        invariants.Sought(demo, "elsewhere", spark.range(1).selectExpr(*two, "'x' AS line"), "line = 'x'", line, 1),
        invariants.Sought(other, "few", rows, "line >= 'queue 04990'", line, 10),
    ]
    of_both = invariants.find_examples(sought)
    assert of_both[other, "few"] == of_both[demo, "few"]
    found = {id_: lines for (minute, id_), lines in of_both.items() if minute == demo}
    assert found["few"] == tuple(f"queue {number:05}" for number in range(4_990, 5_000))
    assert found["rare"] == tuple(f"queue {number:05}" for number in range(invariants.MAX_EXAMPLES))
    assert found["elsewhere"] == ("x",)
    assert len(found["frequent"]) == invariants.MAX_EXAMPLES


def test_every_table_that_can_have_corrupt_rows_tells_why(spark) -> None:
    """`quarantine_rows` needs at least one corrupt invariant of each table, or the rows could not be explained."""
    for table in LANDED:
        assert table == UNDECODABLE_RECORDS or invariants.corrupt_invariants_of(table)
