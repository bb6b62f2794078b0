"""Publish landed intervals: write them to branches, make facts of them, check what was written, and only then show it.

One publication is of all clusters of which an interval has landed, and of the intervals that wait behind it: a table is
written, and checked, once for all of them. What a snapshot or the gate's verdict about it says keeps that interval of
that cluster out, and no other.

landed     the files are checked, before Spark starts
session    the warm server is found, or started
tables     tables that are missing are created, those of an earlier release get the new columns
write      sound rows, and corrupt ones to quarantine, each to a branch of its table; what is and was empty is skipped
state      the state of every queue, folded forward by one snapshot after the other; older ones leave it alone
facts      made of what was written, to branches as well; these and the state by DuckDB where rows are few
gate       Great Expectations evaluates all invariants on what was written and tells it in Data Docs; where it stops an
           interval of a cluster, the others start again at `tables` without it, so that none of its rows is in what
           follows; an interval that lacks a cluster then is published before those behind it
results    the invariants' results, to their branch
forward    every table's main state becomes the branch; readers do not look at it
show       one `published_intervals` row per interval of a cluster with the snapshot id of every table, all in one
           transaction: the moment from which readers see them
history    the pages of each invariant's last day are renewed, if that is due

Killed anywhere before the end of `show`, readers stay on the last good state, and a rerun starts from main again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from pyspark.sql import SparkSession
from sqlalchemy import Engine

from offsetguard.collect.landing import read_manifest, snapshot_folder
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import check_catalog_is_there
from offsetguard.lake.reading import FactReader
from offsetguard.model.errors import PublishError, SnapshotError
from offsetguard.model.intervals import Interval, Minute
from offsetguard.store import published_intervals
from offsetguard.store.locks import Lock, only_publisher
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import INVARIANT_RESULTS, QUARANTINE, QUEUE_SNAPSHOTS
from offsetguard_expectations.data_docs import is_due, publish_history
from offsetguard_spark.branches import Branches, begin
from offsetguard_spark.facts import SparkFacts
from offsetguard_spark.gate import TAG, GateReport, check_written
from offsetguard_spark.landed import Landed, check_landed, check_moment, check_same_snapshot
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.queue_state import StateInMain, fold_intervals, state_in_main
from offsetguard_spark.reports import Progress, Publication, PublishReport, RecordedCycles, recorded_cycles
from offsetguard_spark.rows import Forwarding, IntervalRows
from offsetguard_spark.session import disk_errors_named, suit_row_count, tagged
from offsetguard_spark.small_facts import MOST_READ, MOST_ROWS, SmallFacts


@dataclass(frozen=True, slots=True)
class Publisher:
    """Everything that a publication needs besides the interval. `start_spark` is called when there is work for it."""

    workspace: Workspace
    config: Config
    engine: Engine
    start_spark: Callable[[], SparkSession]
    progress: Progress

    def publish(self, cluster: str, interval: Interval, *, now: datetime, again: bool = False) -> PublishReport:
        """Publish a landed interval of one cluster; the same landed snapshot is published once unless `again`.

        Raises SnapshotError (a landed file, naming file and column) and PublishError; readers then keep what they have.
        """
        publication = Publication()
        self.publish_together(Minutes((cluster,), (interval,)), publication, now=now, again=again)
        for error in publication.failed.values():
            raise error
        return publication.done[cluster, interval]

    def publish_together(
        self, minutes: Minutes, publication: Publication, *, now: datetime, again: bool = False
    ) -> None:
        """Publish landed intervals of clusters, together: each table is written and checked once for all of them.

        One whose snapshot is wrong, or which the gate stops, is left out with the reason; the others go on. What became
        of each is noted in `publication`, also where something that ends the run for all others is raised. Several
        intervals are of one hour, and none of them is its first: that one folds the usual traffic of the hour before.
        """
        recorded = recorded_cycles(self.engine, minutes.each(), self.progress, now)
        with (
            recorded as cycles,
            disk_errors_named(self.workspace),
            only_publisher(self.engine, self.progress.say) as lock,
        ):
            cycles.begin(lock)
            with self.progress.step("landed", "checking what has landed"):
                landed = self._check_landed(minutes.each(), now, cycles, publication, again=again)
            if not landed:
                return
            with self.progress.step("session", "starting Spark"):
                spark = self.start_spark()
                suit_row_count(spark, sum(one.manifest.row_count for one in landed.values()))
            while landed:  # once, unless the gate stops one of them, or main has unusual states of some clusters
                for minute in self._publish(spark, landed, cycles=cycles, publication=publication, lock=lock, now=now):
                    del landed[minute]

    def _check_landed(
        self,
        minutes: Sequence[Minute],
        now: datetime,
        cycles: RecordedCycles,
        publication: Publication,
        *,
        again: bool,
    ) -> dict[Minute, Landed]:
        landed = {}
        for minute in minutes:
            cluster, interval = minute
            folder = snapshot_folder(self.workspace.landing_folder, cluster, interval)
            try:
                manifest = read_manifest(folder)
                check_moment(folder, manifest, interval, now)
                before = published_intervals.get(self.engine, cluster, interval)
                if not again:
                    check_same_snapshot(folder, manifest, before)
                    if before is not None:
                        publication.done[minute] = _already_published(before)
                        cycles.forget(minute)
                        continue
                landed[minute] = Landed(folder, manifest, check_landed(folder, manifest))
            except (SnapshotError, PublishError) as error:
                publication.failed[minute] = error
                cycles.failed({minute: str(error)})
        return landed

    def _publish(
        self,
        spark: SparkSession,
        waiting: Mapping[Minute, Landed],
        *,
        cycles: RecordedCycles,
        publication: Publication,
        lock: Lock,
        now: datetime,
    ) -> Iterable[Minute]:
        """Publish those that can be published together; returns what need not be tried again."""
        step, every = self.progress.step, _that_go_together(waiting)
        newest = {one: published_intervals.newest(self.engine, one) for one in every.clusters}
        for published in newest.values():
            check_catalog_is_there(self.workspace, published)
        with step("tables", "looking for tables that are missing, and columns that are new"):
            branches = begin(spark, self.workspace, every, name=cycles.run_id, say=self.progress.say)
            in_main = {cluster: state_in_main(branches, cluster) for cluster in every.clusters}
            kind = in_main[every.clusters[0]]
            minutes = replace(every, clusters=tuple(one for one in every.clusters if in_main[one] is kind))
            is_usual = minutes.are_one and kind is StateInMain.BEFORE_THEM
            row_count = sum(waiting[one].manifest.row_count for one in minutes.each())
            branches = replace(branches, minutes=minutes, small=row_count <= (MOST_ROWS if is_usual else MOST_READ))
        previous = {one: published_intervals.newest(self.engine, one, before=minutes.first) for one in minutes.clusters}
        landed = {one: waiting[one] for one in minutes.each()}
        forwarding = Forwarding(self.workspace, minutes)
        rows = IntervalRows(branches, forwarding.may_have_begun(newest[one] for one in minutes.clusters))
        with step("write", "writing sound rows and quarantine to the branches"):
            row_counts = rows.write_landed({one.folder: one.tables for one in landed.values()})
        with step("state", "folding the snapshot into the state of its queues"):
            queue_count, of_each = row_counts.get(QUEUE_SNAPSHOTS.name, 0), (minutes, self.config, branches, row_counts)
            facts: SparkFacts | SmallFacts
            if branches.small and is_usual:
                state, facts = None, SmallFacts(*of_each)
            else:
                state = fold_intervals(branches, queue_count, previous, kind)
                facts = SparkFacts(*of_each, spark, state)
        with step("facts", "making facts of what was written"):
            rows.write_facts(facts)
        with step("gate", "checking what was written and writing Data Docs"), tagged(spark, TAG):
            gate = check_written(branches, state, landed, previous, self.workspace.data_docs_folder)
            stopped = {minute: report.problem for minute, report in gate.items() if report.problem is not None}
            if stopped:  # their rows are on the branches: the others begin once more, without them
                publication.failed |= {minute: PublishError(problem) for minute, problem in stopped.items()}
                cycles.failed(stopped)
                return tuple(stopped)
        with step("results", "writing the results of the invariants"):
            rows.write_results({minute: report.results for minute, report in gate.items()})
        with step("forward", "making the branches the main state of their tables"):
            lock.check()
            snapshot_ids = branches.snapshot_ids()
            forwarding.begin()
            branches.forward(snapshot_ids)
        reports = self._reports(branches, snapshot_ids, gate, landed)
        with step("show", "making the interval visible to readers"):
            shown = [_row_of(report, landed[minute], now) for minute, report in reports.items()]
            published_intervals.record(self.engine, *shown)
            forwarding.end()
        with step("history", "renewing the history of each invariant"):
            for cluster in minutes.clusters:
                self._renew_history(cluster, minutes.intervals)
        publication.done |= reports
        cycles.published(reports)
        return minutes.each()

    def _renew_history(self, cluster: str, intervals: Sequence[Interval]) -> None:
        """Renew the history of each invariant, unless the intervals are old ones or the pages are fresh enough."""
        folder = self.workspace.data_docs_folder
        newest = published_intervals.newest(self.engine, cluster)
        if newest and newest.interval == intervals[-1] and any(is_due(folder / cluster, one) for one in intervals):
            publish_history(FactReader(self.workspace, self.engine), cluster, intervals[-1], folder)

    def _reports(
        self,
        branches: Branches,
        snapshot_ids: dict[str, int],
        gate: Mapping[Minute, GateReport],
        landed: Mapping[Minute, Landed],
    ) -> dict[Minute, PublishReport]:
        files = branches.file_counts()
        return {
            minute: PublishReport(
                cluster=report.cluster,
                interval_start=report.interval.start.isoformat(),
                verdict="published",
                run_id=branches.name,
                rows=report.rows | {INVARIANT_RESULTS.name: len(report.results)},
                duplicates=landed[minute].duplicate_count,
                quarantined=report.rows[QUARANTINE.name],
                violations={one.invariant_id: one.violations for one in report.results if one.violations},
                snapshot_ids=snapshot_ids,
                files=files,
                seconds=self.progress.seconds,
            )
            for minute, report in gate.items()
        }


def _that_go_together(waiting: Mapping[Minute, Landed]) -> Minutes:
    """Return the oldest interval that waits, and those behind it of which the same clusters do."""
    clusters_of: dict[Interval, list[str]] = {}
    for cluster, interval in waiting:
        clusters_of.setdefault(interval, []).append(cluster)
    clusters = next(iter(clusters_of.values()))
    return Minutes(tuple(clusters), tuple(takewhile(lambda one: clusters_of[one] == clusters, clusters_of)))


def _already_published(before: PublishedInterval) -> PublishReport:
    return PublishReport(
        cluster=before.cluster,
        interval_start=before.interval.start.isoformat(),
        verdict="already published",
        run_id=before.run_id,
        snapshot_ids=before.snapshot_ids,
    )


def _row_of(report: PublishReport, landed: Landed, now: datetime) -> PublishedInterval:
    return PublishedInterval(
        *landed.minute,
        run_id=report.run_id,
        published_at=now,
        verdict=(
            f"audited: {sum(report.rows.values())} rows in {len(report.rows)} tables, "
            f"{sum(report.violations.values())} violations, {report.quarantined} rows in quarantine"
        ),
        snapshot_ids=report.snapshot_ids,
        manifest_json=landed.manifest.to_json(),
    )
