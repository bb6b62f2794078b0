"""One housekeeping: delete what is too old, pack what is small, let go of what nobody needs, in this order.

Each step is a transaction of one table, and a step that was killed is done by the next housekeeping. The publish lock
is held for commits only, so that publications wait for milliseconds.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table as IcebergTable
from sqlalchemy import Engine

from offsetguard.config import Retention
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import catalog_exists, load_table, open_catalog, table_names
from offsetguard.lake.upkeep import expiry
from offsetguard.lake.upkeep.commit_times import check_times
from offsetguard.lake.upkeep.packing import exchange, pack
from offsetguard.store import ageing, changes, cycles, judge_memory, judged_intervals, published_intervals
from offsetguard.store.database import writing
from offsetguard.store.locks import Lock, only_publisher
from offsetguard.tables import PUBLISHED, Table

KEEP_SNAPSHOTS = timedelta(hours=1)  # a reader that began before is done by now
KEEP_UNNAMED_FILES = timedelta(days=1)  # a run that wrote them has committed or died by now
_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TableReport:
    """What housekeeping did with one table."""

    files: int  # data files of main afterwards
    snapshots: int  # afterwards
    aged_files: int = 0  # deleted with their rows: retention has passed
    packed_files: int = 0  # replaced by fewer
    expired_snapshots: int = 0
    expired_files: int = 0  # of expired snapshots only
    orphan_files: int = 0  # named by nothing


@dataclass(frozen=True, slots=True)
class HousekeepingReport:
    """What one housekeeping did."""

    tables: dict[str, TableReport] = field(default_factory=dict)
    settled_intervals: int = 0
    never_shown: int = 0  # intervals with rows of a run that was killed before it showed them: recompute them
    deleted_intervals: int = 0  # of which every retention has passed
    deleted_cycles: int = 0
    deleted_judgements: int = 0
    deleted_incidents: int = 0  # resolved ones, with their histories and acknowledgements
    deleted_messages: int = 0  # sent ones, with what the notification log says of them
    deleted_silences: int = 0
    deleted_snapshots: int = 0  # landed ones
    deleted_session_folders: int = 0  # of the warm Spark server


@dataclass(frozen=True, slots=True)
class Housekeeper:
    """Everything that a housekeeping needs besides the time."""

    workspace: Workspace
    retention: Retention
    engine: Engine
    say: Callable[[str], None]
    keep_snapshots: timedelta = KEEP_SNAPSHOTS
    keep_unnamed_files: timedelta = KEEP_UNNAMED_FILES

    def clean(self, *, now: datetime) -> HousekeepingReport:
        """Do everything that is due. Raises PublishError as `check_times` does."""
        tables = self._load()
        counts: dict[str, Counter[str]] = {table.name: Counter() for table in tables}
        for table, iceberg_table in tables.items():
            self._delete_and_pack(table, iceberg_table, counts[table.name], now)
        newly_settled, never_shown = self._settle_and_expire(tables, counts, now)
        for table, iceberg_table in tables.items():
            count = expiry.delete_orphans(iceberg_table, now - self.keep_unnamed_files)
            counts[table.name]["orphan_files"] += count
        reports = {
            table.name: _table_report(iceberg_table, counts[table.name]) for table, iceberg_table in tables.items()
        }
        for name, report in reports.items():
            self.say(f"{name}: {report.files} files, {report.snapshots} snapshots" + _what_was_done(report))
        return self._delete_records(reports, newly_settled, never_shown, now)

    def _load(self) -> dict[Table, IcebergTable]:
        """Load the tables that exist, once their times allow a commit; none before the first publication."""
        if not catalog_exists(self.workspace):
            return {}
        catalog = open_catalog(self.workspace)
        with self._lock():
            there = table_names(catalog)  # others are of this release, and nothing was published since
            tables = {table: load_table(catalog, table) for table in PUBLISHED if table.name in there}
            check_times(tables.values(), datetime.now(UTC))  # commits carry the real time
        return tables

    def _delete_and_pack(self, table: Table, iceberg_table: IcebergTable, counts: Counter[str], now: datetime) -> None:
        if (kept := expiry.kept_for(table, self.retention)) is None:
            return
        with self._lock():
            counts["aged_files"] += expiry.delete_older(iceberg_table, expiry.kept_from(kept, now))
        exchanges = pack(iceberg_table, table, now=now)
        if exchanges:
            with self._lock():
                counts["packed_files"] += exchange(iceberg_table, exchanges, "pack")

    def _settle_and_expire(
        self, tables: Mapping[Table, IcebergTable], counts: Mapping[str, Counter[str]], now: datetime
    ) -> tuple[int, int]:
        with self._lock():
            for iceberg_table in tables.values():
                iceberg_table.refresh()
            by_name = {table.name: iceberg_table for table, iceberg_table in tables.items()}
            settlement = expiry.settle(self.engine, by_name, self._kept_from(tables, now), now=now)
        for cluster, start in settlement.never_shown:
            killed = "a run was killed before it showed its rows; trigger recompute_facts for it"
            self.say(f"{cluster}: {start.isoformat()}: {killed}")
        for name, iceberg_table in by_name.items():
            released = settlement.released_ids[name]
            gone, files = expiry.expire(iceberg_table, released, self._lock, now=now, keep=self.keep_snapshots)
            counts[name].update(expired_snapshots=gone, expired_files=files)
        return settlement.newly_settled, len(settlement.never_shown)

    def _kept_from(self, tables: Mapping[Table, IcebergTable], now: datetime) -> dict[str, datetime]:
        """Return from when on a settled interval finds its rows: never in a table that holds only the newest."""
        kept = {table.name: expiry.kept_for(table, self.retention) for table in tables}
        return {name: _FOREVER if span is None else expiry.kept_from(span, now) for name, span in kept.items()}

    def _delete_records(
        self, reports: dict[str, TableReport], newly_settled: int, never_shown: int, now: datetime
    ) -> HousekeepingReport:
        snapshots_from = expiry.kept_from(timedelta(days=self.retention.snapshots_days), now)
        records_from = expiry.kept_from(timedelta(days=self.retention.facts_days), now)
        with writing(self.engine) as session:
            intervals = published_intervals.delete_older(session, min(snapshots_from, records_from))
            deleted_cycles = cycles.delete_older(session, records_from)
            judgements = judged_intervals.delete_older(session, records_from)
            changes.delete_older(session, records_from)
            judge_memory.delete_forecasts(session, snapshots_from, records_from)
            judge_memory.delete_rhythms(session, now)
        aged = ageing.delete_older(self.engine, records_from)
        return HousekeepingReport(
            tables=reports,
            settled_intervals=newly_settled,
            never_shown=never_shown,
            deleted_intervals=intervals,
            deleted_cycles=deleted_cycles,
            deleted_judgements=judgements,
            deleted_incidents=aged.incidents,
            deleted_messages=aged.messages,
            deleted_silences=aged.silences,
            deleted_snapshots=expiry.delete_landed(self.workspace.landing_folder, snapshots_from),
            deleted_session_folders=expiry.delete_session_folders(
                self.workspace.spark_server_folder, now - self.keep_unnamed_files
            ),
        )

    def _lock(self) -> AbstractContextManager[Lock]:
        return only_publisher(self.engine, self.say)


def _table_report(iceberg_table: IcebergTable, counts: Counter[str]) -> TableReport:
    iceberg_table.refresh()
    snapshot = iceberg_table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return TableReport(
        files=int(summary.get("total-data-files", 0)), snapshots=len(iceberg_table.snapshots()), **counts
    )


def _what_was_done(report: TableReport) -> str:
    did = (
        (report.aged_files, "files were too old"),
        (report.packed_files, "files were packed"),
        (report.expired_snapshots, "snapshots expired"),
        (report.expired_files, "files of expired snapshots were deleted"),
        (report.orphan_files, "files of killed runs were deleted"),
    )
    return "".join(f"; {count} {what}" for count, what in did if count)
