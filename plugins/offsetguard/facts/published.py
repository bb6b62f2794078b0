"""The facts of a published interval as the judge reads them, without Spark.

Readers see the tables at the snapshot ids of the `published_intervals` row, so a half-published or newer state never
shows; a deleted row is not missed and a rerun is not seen before it is whole.
"""

from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import IntervalFacts, facts_of
from offsetguard.lake.catalog import open_catalog
from offsetguard.lake.reading import read_interval
from offsetguard.store.published_intervals import RETENTION_PASSED, PublishedInterval
from offsetguard.tables import GROUP_SNAPSHOTS, Table

Row = dict[str, Any]


def read_interval_facts(workspace: Workspace, published: PublishedInterval, manifest: Manifest) -> IntervalFacts:
    """Return what the rules read about one published interval.

    Raises PublishError when the catalog, a table, a published snapshot or a data file is not there.
    """
    catalog = open_catalog(workspace)

    def rows(table: Table) -> list[Row]:
        if table == GROUP_SNAPSHOTS and published.snapshot_ids.get(table.name) == RETENTION_PASSED:
            return []  # snapshots are kept for days only
        return read_rows(catalog, table, published)

    return facts_of(manifest, published.interval, published.interval.end, rows)


def read_rows(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> list[Row]:
    """Return a table's rows of one published interval, ordered by key; raises PublishError as the reader does."""
    rows: list[Row] = read_interval(catalog, table, published).to_pylist()
    return rows
