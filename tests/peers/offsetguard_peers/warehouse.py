"""A small warehouse without Spark: rows of `group_facts`, written in the layout that housekeeping leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.lake.reading.fact_reader import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import GROUP_FACTS, ColumnType, Table
from offsetguard.tables.arrow import arrow_schema
from offsetguard_peers.databases import fresh_database
from offsetguard_peers.iceberg_writer import append, create_table, new_catalog

START = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
_FILL: dict[ColumnType, Any] = {
    ColumnType.STRING: "",
    ColumnType.INT32: 0,
    ColumnType.INT64: 0,
    ColumnType.FLOAT64: 0.0,
    ColumnType.BOOLEAN: False,
    ColumnType.TIMESTAMP: START,
}


def minute(number: int) -> datetime:
    """Return the start of the numbered interval."""
    return START + timedelta(minutes=number)


def rows_of(table: Table, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Fill in what a required column must have."""
    filled = [
        {c.name: row.get(c.name, None if c.nullable else _FILL.get(c.type, [])) for c in table.columns} for row in rows
    ]
    return pa.Table.from_pylist(filled, schema=arrow_schema(table))


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


@dataclass
class Warehouse:
    """A workspace with one table, and what was published of it."""

    workspace: Workspace
    engine: Engine
    catalog: SqlCatalog
    group_facts: IcebergTable
    published: dict[int, PublishedInterval] = field(default_factory=dict)

    @classmethod
    def in_folder(cls, folder: Path) -> Warehouse:
        """Make an empty one."""
        home = folder / "home"
        workspace = Workspace(home, folder / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        catalog = new_catalog(workspace)
        table = create_table(catalog, GROUP_FACTS, row_group_rows=16)
        return cls(workspace, fresh_database(workspace.database_url), catalog, table)

    def append(self, *files: pa.Table) -> int:
        """Commit data files; returns the snapshot id."""
        return append(self.group_facts, files)

    def publish(self, minutes: Iterable[int], snapshot_id: int, *, at: int = 0, cluster: str = "demo") -> None:
        """Make intervals visible at a snapshot; `at`: so many minutes late."""
        for number in minutes:
            self.published[number] = PublishedInterval(
                cluster,
                Interval(minute(number)),
                f"run-{number}",
                minute(number + 1 + at),
                "published",
                {GROUP_FACTS.name: snapshot_id},
                json.dumps({}),
            )
            published_intervals.record(self.engine, self.published[number])

    def reader(self) -> FactReader:
        """Return a reader that remembers nothing yet."""
        return FactReader(self.workspace, self.engine)

    def data_files(self) -> list[Path]:
        """Return the data files of the table."""
        return sorted((self.workspace.warehouse_folder / "facts" / "group_facts" / "data").rglob("*.parquet"))
