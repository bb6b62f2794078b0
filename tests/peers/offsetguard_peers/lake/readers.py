"""What readers see of the published intervals of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.published import read_interval_facts, read_rows
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import PUBLISHED, Table


@dataclass(frozen=True)
class Readers:
    """Reads a workspace anew each time."""

    workspace: Workspace
    cluster: str = field(default="demo", kw_only=True)

    def published(self, interval: Interval) -> PublishedInterval | None:
        """Return the row of an interval; None when it is not visible."""
        return published_intervals.get(open_database(self.workspace.database_url), self.cluster, interval)

    def facts(self, interval: Interval) -> IntervalFacts | None:
        """Return what rules see of an interval; None when it is not visible."""
        published = self.published(interval)
        if published is None:
            return None
        return read_interval_facts(self.workspace, published, Manifest.from_json(published.manifest_json))

    def of(self, cluster: str) -> Readers:
        """Return the readers of another cluster of the workspace."""
        return Readers(self.workspace, cluster=cluster)

    def rows(self, table: Table, interval: Interval) -> list[dict[str, Any]]:
        """Return a table's rows of a visible interval."""
        published = self.published(interval)
        assert published is not None
        return read_rows(open_catalog(self.workspace), table, published)

    def branch_names(self) -> set[str]:
        """Return the branches of all tables: `main` alone, unless a run is under way or was killed."""
        catalog = open_catalog(self.workspace)
        return {name for table in PUBLISHED for name in load_table(catalog, table).metadata.refs}
