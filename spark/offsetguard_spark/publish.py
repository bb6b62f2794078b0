"""Publish one landed interval: write it to branches, make facts of it, check what was written, and only then show it.

landed     the files are checked, before Spark starts
session    Spark starts, or a warm server is found
tables     tables that are missing are created, those of an earlier release get the new columns
write      sound rows, and corrupt ones to quarantine, each to a branch of its table; what is and was empty is skipped
state      the state of every queue, folded forward by the snapshot; an older interval leaves it alone
facts      made of what was written, to branches as well
gate       Great Expectations evaluates all invariants on what was written and tells it in Data Docs; a stopped run ends
results    the invariants' results, to their branch
forward    every table's main state becomes the branch; readers do not look at it
show       one `published_intervals` row with the snapshot id of every table: the moment from which readers see them
history    the pages of each invariant's last day are renewed, if that is due

Killed anywhere before the end of `show`, readers stay on the last good state, and a rerun starts from main again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession
from sqlalchemy import Engine

from offsetguard.collect.landing import read_manifest, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import check_catalog_is_there
from offsetguard.lake.reading import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.locks import Lock, only_publisher
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import INVARIANT_RESULTS, QUARANTINE, QUEUE_SNAPSHOTS
from offsetguard_expectations.data_docs import is_due, publish_history
from offsetguard_spark.branches import Branches, begin
from offsetguard_spark.facts import FactSources
from offsetguard_spark.gate import TAG, GateReport, check_written
from offsetguard_spark.landed import LandedTable, check_landed, check_moment, check_same_snapshot
from offsetguard_spark.queue_state import fold_interval
from offsetguard_spark.reports import Progress, PublishReport, RecordedCycle, recorded_cycle
from offsetguard_spark.rows import Forwarding, IntervalRows
from offsetguard_spark.session import disk_errors_named, is_small, suit_row_count, tagged


@dataclass(frozen=True, slots=True)
class Publisher:
    """Everything that a publication needs besides the interval. `start_spark` is called when there is work for it."""

    workspace: Workspace
    config: Config
    engine: Engine
    start_spark: Callable[[], SparkSession]
    progress: Progress

    def publish(self, cluster: str, interval: Interval, *, now: datetime, again: bool = False) -> PublishReport:
        """Publish a landed interval; the same landed snapshot is published once unless `again`.

        Raises SnapshotError (a landed file, naming file and column) and PublishError; readers then keep what they have.
        """
        recorded = recorded_cycle(self.engine, cluster, interval, self.progress, now)
        with recorded as cycle, disk_errors_named(self.workspace):
            report = self._publish_landed(cluster, interval, now, cycle, again=again)
            if report.verdict == "published":
                cycle.published(report)
            else:
                cycle.forget()
        return report

    def _publish_landed(
        self, cluster: str, interval: Interval, now: datetime, cycle: RecordedCycle, *, again: bool
    ) -> PublishReport:
        folder = snapshot_folder(self.workspace.landing_folder, cluster, interval)
        with only_publisher(self.engine, self.progress.say) as lock:
            cycle.begin(lock)
            with self.progress.step("landed", f"checking {folder}"):
                manifest = read_manifest(folder)
                check_moment(folder, manifest, interval, now)
                before = published_intervals.get(self.engine, cluster, interval)
                if not again:
                    check_same_snapshot(folder, manifest, before)
                    if before is not None:
                        return _already_published(before)
                landed = check_landed(folder, manifest)
            with ThreadPoolExecutor(1) as background:
                # Importing GX takes seconds of one core; while Spark starts and writes, this process mostly waits.
                background.submit(importlib.import_module, "offsetguard_expectations.checkpoint")  # the gate imports it
                with self.progress.step("session", "starting Spark"):
                    spark = self.start_spark()
                    suit_row_count(spark, manifest.row_count)
                return self._publish(spark, manifest, interval, cycle.run_id, lock, landed=landed, now=now)

    def _publish(
        self,
        spark: SparkSession,
        manifest: Manifest,
        interval: Interval,
        run_id: str,
        lock: Lock,
        *,
        landed: Mapping[str, LandedTable],
        now: datetime,
    ) -> PublishReport:
        step = self.progress.step
        newest = published_intervals.newest(self.engine, manifest.cluster)
        check_catalog_is_there(self.workspace, newest)
        with step("tables", "looking for tables that are missing, and columns that are new"):
            branches = begin(
                spark,
                self.workspace,
                manifest.cluster,
                interval,
                name=run_id,
                say=self.progress.say,
                small=is_small(manifest.row_count),
            )
        forwarding = Forwarding(self.workspace, manifest.cluster, interval)
        rows = IntervalRows(branches, forwarding.may_have_begun(newest))
        with step("write", "writing sound rows and quarantine to the branches"):
            folder = snapshot_folder(self.workspace.landing_folder, manifest.cluster, interval)
            row_counts = rows.write_landed(folder, landed)
        with step("state", "folding the snapshot into the state of its queues"):
            previous = published_intervals.newest(self.engine, manifest.cluster, before=interval.start)
            state = fold_interval(branches, row_counts.get(QUEUE_SNAPSHOTS.name, 0), previous)
        with step("facts", "making facts of what was written"):
            sources = FactSources(spark, manifest.cluster, interval, self.config, branches, row_counts, state)
            rows.write_facts(sources)
        with step("gate", "checking what was written and writing Data Docs"), tagged(spark, TAG):
            newest_before = previous.interval if previous else None
            gate = check_written(branches, landed, manifest, self.workspace.data_docs_folder, previous=newest_before)
            gate.raise_problems()
        with step("results", "writing the results of the invariants"):
            rows.write_results(gate.results)
        report = self._report(branches, gate, landed)
        with step("forward", "making the branches the main state of their tables"):
            lock.check()
            forwarding.begin()
            branches.forward(report.snapshot_ids)
        with step("show", "making the interval visible to readers"):
            published_intervals.record(self.engine, _row_of(report, manifest, interval, now))
            forwarding.end()
        with step("history", "renewing the history of each invariant"):
            self._renew_history(gate)
        return report

    def _renew_history(self, gate: GateReport) -> None:
        """Renew the history of each invariant, unless the interval is an old one or the pages are fresh enough."""
        folder = self.workspace.data_docs_folder
        newest = published_intervals.newest(self.engine, gate.cluster)
        if newest and newest.interval == gate.interval and is_due(folder / gate.cluster, gate.interval):
            publish_history(FactReader(self.workspace, self.engine), gate.cluster, gate.interval, folder)

    def _report(self, branches: Branches, gate: GateReport, landed: Mapping[str, LandedTable]) -> PublishReport:
        return PublishReport(
            cluster=branches.cluster,
            interval_start=branches.interval.start.isoformat(),
            verdict="published",
            run_id=branches.name,
            rows=gate.rows | {INVARIANT_RESULTS.name: len(gate.results)},
            duplicates=sum(found.duplicate_count for found in landed.values()),
            quarantined=gate.rows[QUARANTINE.name],
            violations={result.invariant_id: result.violations for result in gate.results if result.violations},
            snapshot_ids=branches.snapshot_ids(),
            files=branches.file_counts(),
            seconds=self.progress.seconds,
        )


def _already_published(before: PublishedInterval) -> PublishReport:
    return PublishReport(
        cluster=before.cluster,
        interval_start=before.interval.start.isoformat(),
        verdict="already published",
        run_id=before.run_id,
        snapshot_ids=before.snapshot_ids,
    )


def _row_of(report: PublishReport, manifest: Manifest, interval: Interval, now: datetime) -> PublishedInterval:
    return PublishedInterval(
        cluster=report.cluster,
        interval=interval,
        run_id=report.run_id,
        published_at=now,
        verdict=(
            f"audited: {sum(report.rows.values())} rows in {len(report.rows)} tables, "
            f"{sum(report.violations.values())} violations, {report.quarantined} rows in quarantine"
        ),
        snapshot_ids=report.snapshot_ids,
        manifest_json=manifest.to_json(),
    )
