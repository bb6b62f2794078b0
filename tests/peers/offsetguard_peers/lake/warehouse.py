"""A warehouse whose intervals are published without Spark: the same catalog, tables, files and rows in the database.

For tests and benchmarks of readers and of housekeeping, which need thousands of publications in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import update

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import NO_SNAPSHOT, load_table, open_catalog
from offsetguard.lake.creation import create_missing_tables
from offsetguard.lake.reading import FactReader
from offsetguard.lake.upkeep.packing import TableFile, live_files, write_file
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard.store.published_intervals import (
    CLUSTERS_PROPERTY,
    INTERVALS_PROPERTY,
    RUN_PROPERTY,
    PublishedInterval,
)
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_FACTS, ColumnType, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.databases import fresh_database

Row = dict[str, Any]
START = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
LOOK = timedelta(seconds=7)
_FILL: dict[ColumnType, Any] = {
    ColumnType.STRING: "",
    ColumnType.INT32: 0,
    ColumnType.INT64: 0,
    ColumnType.FLOAT64: 0.0,
    ColumnType.BOOLEAN: False,
    ColumnType.TIMESTAMP: START,
    ColumnType.STRING_LIST: [],
}


def minute(number: int) -> datetime:
    """Return the start of the numbered interval."""
    return START + timedelta(minutes=number)


def rows_of(table: Table, rows: Iterable[Row]) -> pa.Table:
    """Fill in what a required column must have."""
    required = {column.name: _FILL[column.type] for column in table.columns if not column.nullable}
    return pa.Table.from_pylist([required | row for row in rows], schema=arrow_schema(table))


def group_rows(groups: Iterable[str], minutes: Iterable[int], cluster: str = "demo") -> pa.Table:
    """Rows of groups whose lag is the number of the minute; sorted as compacted files are."""
    minutes = list(minutes)
    return rows_of(
        GROUP_FACTS,
        [
            {"cluster": cluster, "interval_start": minute(number), "consumer_group": group, "topic": "orders"}
            | {"lag": number}
            for group in groups
            for number in minutes
        ],
    )


def _with_digest(group: Row, clients: Iterable[Row]) -> Row:
    """Add to a row of group_facts a digest that is another one where it, or a client of its group, is another."""
    members = sorted(repr(sorted(one.items())) for one in clients if one["consumer_group"] == group["consumer_group"])
    return {**group, "seen_digest": repr((sorted(group.items()), members))}


def put_newest_commit_ahead(iceberg_table: IcebergTable, by: timedelta) -> None:
    """Let the newest commit, one of rows, carry a later time in all places where Iceberg keeps it."""
    iceberg_table.refresh()
    file = Path(urlparse(iceberg_table.metadata_location).path)
    said = json.loads(file.read_text("utf-8"))
    (snapshot,) = (one for one in said["snapshots"] if one["snapshot-id"] == said["current-snapshot-id"])
    said["last-updated-ms"] += int(by.total_seconds() * 1000)
    snapshot["timestamp-ms"] = said["snapshot-log"][-1]["timestamp-ms"] = said["last-updated-ms"]
    ahead = file.with_name(file.name.replace(".metadata.json", "-ahead.metadata.json"))
    ahead.write_text(json.dumps(said), "utf-8")
    before, after = iceberg_table.metadata_location, iceberg_table.metadata_location.replace(file.name, ahead.name)
    rows, catalog = IcebergTables, cast(SqlCatalog, iceberg_table.catalog)
    with catalog.engine.begin() as connection:
        connection.execute(update(rows).where(rows.metadata_location == before).values(metadata_location=after))
    iceberg_table.refresh()


@dataclass
class Warehouse:
    """A workspace with some published tables."""

    workspace: Workspace
    tables: Sequence[Table]

    def __post_init__(self) -> None:
        self.workspace.home.mkdir(parents=True, exist_ok=True)
        url = self.workspace.database_url
        there = Path(url.removeprefix("sqlite:///")).exists()  # somebody else's: an API server's
        self.engine = open_database(url) if there else fresh_database(url)
        create_missing_tables(self.workspace, self.tables)
        self.catalog = open_catalog(self.workspace)

    @classmethod
    def in_folder(cls, folder: Path, *tables: Table) -> Warehouse:
        """Make an empty one whose home is `folder/home`."""
        home = folder / "home"
        return cls(Workspace(home, folder / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}"), tables)

    def iceberg_table(self, table: Table) -> IcebergTable:
        """Load a table."""
        return load_table(self.catalog, table)

    def reader(self) -> FactReader:
        """Return a reader that remembers nothing yet."""
        return FactReader(self.workspace, self.engine)

    def append(self, table: Table, files: Iterable[pa.Table]) -> int:
        """Commit data files, one for each Arrow table, whose rows are of one partition; returns the snapshot id."""
        self._commit(table, files)
        return self._head(table)

    def publish(
        self,
        cluster: str,
        interval: Interval,
        rows: Mapping[Table, Sequence[Row]],
        *,
        run_id: str | None = None,
        show: bool = True,
        again: bool = False,
        manifest_json: str | None = None,
    ) -> str:
        """Write an interval's rows and show them; returns the run id.

        `show=False`: a run that was killed before its last step. `again`: the interval may have rows already.
        """
        run_id = run_id or f"{interval.name}_{abs(hash((cluster, interval))):012x}"[:29]
        properties = {
            RUN_PROPERTY: run_id,
            CLUSTERS_PROPERTY: cluster,
            INTERVALS_PROPERTY: interval.start.isoformat(),
        }
        for table, new in rows.items():
            if table is GROUP_FACTS:
                new = [_with_digest(one, rows.get(CLIENT_SNAPSHOTS, ())) for one in new]  # noqa: PLW2901
            is_state = table.partition == ("cluster",)  # replaced as a whole
            old = [
                file
                for file in (live_files(self.iceberg_table(table)) if again or is_state else ())
                if is_state or file.first == file.last == interval.start
            ]
            complete = [{"cluster": cluster, "interval_start": interval.start, **row} for row in new]
            self._commit(table, [rows_of(table, complete)] if new else [], old=old, properties=properties)
        if show:
            ids = {table.name: self._head(table) for table in self.tables}
            self.show(interval, ids, cluster=cluster, run_id=run_id, manifest_json=manifest_json)
        return run_id

    def show(
        self,
        interval: Interval,
        snapshot_ids: dict[str, int],
        *,
        cluster: str = "demo",
        run_id: str = "run",
        at: datetime | None = None,
        manifest_json: str | None = None,
    ) -> PublishedInterval:
        """Make an interval visible to readers; where nothing else is said, its round was read in LOOK."""
        looked = {"started_at": interval.start, "finished_at": interval.start + LOOK}
        manifest_json = manifest_json or manifest_of(interval, cluster=cluster, **looked).to_json()
        published_at = at or interval.end + timedelta(seconds=5)
        row = PublishedInterval(cluster, interval, run_id, published_at, "audited", snapshot_ids, manifest_json)
        published_intervals.record(self.engine, row)
        return row

    def show_minutes(self, minutes: Iterable[int], snapshot_id: int, *, late: int = 0) -> None:
        """Make numbered minutes visible at a snapshot of `group_facts`, each so many minutes late."""
        for number in minutes:
            ids, at = {GROUP_FACTS.name: snapshot_id}, minute(number + 1 + late)
            self.show(Interval(minute(number)), ids, run_id=f"run-{number}", at=at)

    def rows(self, table: Table, cluster: str, interval: Interval) -> list[Row]:
        """Return what a reader of the interval sees, in the order of the key."""
        found: list[Row] = self.reader().interval(table, cluster, interval).to_pylist()
        return found

    def _head(self, table: Table) -> int:
        head = self.iceberg_table(table).current_snapshot()
        return NO_SNAPSHOT if head is None else head.snapshot_id

    def _commit(
        self,
        table: Table,
        files: Iterable[pa.Table],
        *,
        old: Sequence[TableFile] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        iceberg_table = self.iceberg_table(table)
        schema = schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True)
        with iceberg_table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=dict(properties or {}))
            with update.overwrite() if old else update.fast_append() as producer:
                for file in old:
                    producer.delete_data_file(file.data_file)
                for rows in files:
                    producer.append_data_file(write_file(iceberg_table, rows.cast(schema)))
