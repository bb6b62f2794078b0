"""Publish one landed interval: conform, check, write, audit, and only then show.

landed     the files are checked, before Spark starts
session    Spark starts
tables     tables that are missing are created, those of an earlier release get the new columns
check      rows deduplicated by key; every invariant over every table that has rows, one query
write      sound rows, quarantine and results, each to a branch of its table; what is and was empty is left alone
facts      made of what was written, to branches as well
audit      what was written is read back and compared
document   Data Docs of the invariants' results (Great Expectations)
forward    every table's main state becomes the branch; readers do not look at it
show       one `published_intervals` row with the snapshot id of every table: the moment from which readers see them

Killed anywhere before the last statement, readers stay on the last good state, and a rerun starts from main again.
"""

from __future__ import annotations

import importlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from offsetguard.collect.landing import read_manifest, snapshot_folder
from offsetguard.errors import PublishError
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import QUARANTINE
from offsetguard_spark.audit import audit
from offsetguard_spark.branches import Branches, drop_left_over, load_tables
from offsetguard_spark.invariants import check_tables, mark
from offsetguard_spark.landed import check_landed, read_landed
from offsetguard_spark.lock import only_publisher
from offsetguard_spark.rows import tables_with_work, write_facts, write_rows
from offsetguard_spark.session import suit_row_count
from offsetguard_spark.tables import create_tables, evolve_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from datetime import datetime
    from types import ModuleType

    from pyspark.sql import SparkSession
    from sqlalchemy import Engine

    from offsetguard.collect.manifest import Manifest
    from offsetguard.config import Config
    from offsetguard.intervals import Interval
    from offsetguard.workspace import Workspace
    from offsetguard_spark.landed import LandedTable
    from offsetguard_spark.progress import Progress


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What became of an interval; one JSON line of the job."""

    cluster: str
    interval_start: str
    verdict: str  # "published" or "already published"
    run_id: str
    rows: dict[str, int] = field(default_factory=dict)  # table name -> rows written
    duplicates: int = 0  # landed rows that repeated a key
    quarantined: int = 0
    violations: dict[str, int] = field(default_factory=dict)  # invariant id -> violations, those above 0
    snapshot_ids: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return asdict(self)


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
        folder = snapshot_folder(self.workspace.landing_folder, cluster, interval)
        with only_publisher(self.workspace, lambda: self.progress.say("waiting: another interval is being published")):
            with self.progress.step("landed", f"checking {folder}"):
                manifest = read_manifest(folder)
                before = published_intervals.get(self.engine, cluster, interval)
                if before is not None and before.manifest_json == manifest.model_dump_json() and not again:
                    return _already_published(before)
                landed = check_landed(folder, manifest)
            with ThreadPoolExecutor(1) as background:
                # Importing GX takes seconds of one core; starting the JVM leaves this process idle.
                suites = background.submit(importlib.import_module, "offsetguard_expectations.suites")
                with self.progress.step("session", "starting Spark"):
                    spark = self.start_spark()
                    suit_row_count(spark, sum(manifest.row_counts.values()))
                return self._publish(spark, manifest, interval, landed=landed, suites=suites, now=now)

    def _publish(
        self,
        spark: SparkSession,
        manifest: Manifest,
        interval: Interval,
        *,
        landed: Mapping[str, LandedTable],
        suites: Future[ModuleType],
        now: datetime,
    ) -> PublishReport:
        step = self.progress.step
        run_id = f"{interval.name}_{uuid.uuid4().hex[:12]}"
        with step("tables", "creating tables that are missing, and columns that are new"):
            create_tables(spark)
            states = load_tables(self.workspace)
            for statement in evolve_tables(spark, states):
                self.progress.say(f"tables: {statement}")
            if left_over := drop_left_over(spark, states):
                self.progress.say(f"tables: dropped {left_over} branches of a run that did not end")
        with step("check", "evaluating the invariants"):
            folder = snapshot_folder(self.workspace.landing_folder, manifest.cluster, interval)
            tables = {found.table.name: found.table for found in landed.values()}
            marked = {name: mark(rows, tables[name]) for name, rows in read_landed(spark, folder, landed).items()}
            checks = check_tables(marked)
        results = [result for check in checks.values() for result in check.results]
        window = timedelta(milliseconds=self.config.judgement.offset_move_window_ms)
        taking_part = tables_with_work(states, manifest.cluster, interval, checks, window)
        branches = Branches(spark, self.workspace, manifest.cluster, interval, run_id, taking_part)
        with step("write", "writing rows, quarantine and results to the branches"):
            branches.start()
            write_rows(branches, marked, checks, results)
        with step("facts", "making facts of what was written"):
            write_facts(branches, checks, window)
        with step("audit", "reading back what was written"):
            rows = audit(branches, checks, len(results))
        with step("document", "writing Data Docs"):
            gate = suites.result().validate(manifest.cluster, interval.start, results, self.workspace.data_docs_folder)
            if gate.not_checked_ids:  # violations are published as what they are; what was not checked is not
                raise PublishError(f"invariants without a result: {', '.join(gate.not_checked_ids)}; nothing published")
        report = PublishReport(
            cluster=manifest.cluster,
            interval_start=interval.start.isoformat(),
            verdict="published",
            run_id=run_id,
            rows=rows,
            duplicates=sum(manifest.row_counts.values()) - sum(check.row_count for check in checks.values()),
            quarantined=rows[QUARANTINE.name],
            violations={result.invariant_id: result.violations for result in results if result.violations},
            snapshot_ids=branches.snapshot_ids(),
            seconds=self.progress.seconds,
        )
        with step("forward", "making the branches the main state of their tables"):
            branches.fast_forward()
            branches.drop()
        with step("show", "making the interval visible to readers"):
            published_intervals.record(self.engine, _row_of(report, manifest, interval, now))
        return report


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
        manifest_json=manifest.model_dump_json(),
    )
