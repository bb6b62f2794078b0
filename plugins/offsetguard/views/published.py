"""What was published last of each cluster, as views need it; read again only when something newer is there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sqlalchemy import Engine

from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import Workspace
from offsetguard.lake.reading import FactReader
from offsetguard.store import cycles, published_intervals
from offsetguard.tables import CLUSTER_FACTS, GROUP_FACTS
from offsetguard.views.fleet import GROUP_COLUMNS, NewestFacts, group_lines

_CLUSTERS_KEPT = 32  # of 5,000 groups each: 10 MiB a cluster


class PublishedFacts:
    """Reads of one workspace, from any number of threads. Raises PublishError as FactReader does."""

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._engine = engine
        self._reader = FactReader(workspace, engine)
        self._read = lru_cache(_CLUSTERS_KEPT)(self._read_run)

    def newest(self, configured: Iterable[str]) -> dict[str, NewestFacts | None]:
        """Return the newest facts of each cluster that is configured or was ever published; None: nothing yet."""
        clusters = sorted({*configured, *published_intervals.clusters(self._engine)})
        found = {cluster: published_intervals.newest(self._engine, cluster) for cluster in clusters}
        return {cluster: self._read(cluster, one.run_id) if one else None for cluster, one in found.items()}

    def _read_run(self, cluster: str, run_id: str) -> NewestFacts | None:
        published = published_intervals.newest(self._engine, cluster)
        if published is None:
            return None
        manifest = Manifest.from_json(published.manifest_json)
        figures = self._reader.published(CLUSTER_FACTS, published).to_pylist()
        groups = self._reader.published(GROUP_FACTS, published, columns=GROUP_COLUMNS)
        cycle = cycles.newest(self._engine, cluster=cluster, interval=published.interval, limit=1)
        return NewestFacts(
            interval=published.interval,
            unseen_broker_names=manifest.unseen_broker_names,
            cluster_unseen=manifest.cluster_unseen,
            gap_count=manifest.gap_count,
            figures=figures[0] if figures else {},
            groups=group_lines(cluster, groups),
            violated_invariants=tuple(sorted(cycle[0].violations or ())) if cycle else (),
        )
