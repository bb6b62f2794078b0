"""Task: one collection round of each cluster."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import IntervalHasPassed, OffsetGuardError, StoreError
from offsetguard_airflow.hooks import rocketmq_credentials
from offsetguard_airflow.task_inputs import chosen_clusters, configuration, interval_at, workspace_of_task


class CollectOffsetsOperator(BaseOperator):
    """Land one snapshot of each cluster; brokers that do not answer make it incomplete, not failed.

    All clusters are asked side by side, each within a deadline of its own, and each lands when it is done. One that
    cannot be collected turns the task red at its end, by name: what has landed of the others stays.
    """

    template_fields: Sequence[str] = ("cluster", "interval_start")
    ui_color = "#d6eaf8"

    def __init__(self, *, cluster: str, interval_start: str, share: int = 0, shares: int = 1, **kwargs: Any) -> None:
        """`cluster`: name in the configuration, or "all". `interval_start`: ISO 8601, any moment of the interval.

        Of the clusters every one is asked whose place, by name, leaves `share` when it is divided by `shares`.
        """
        super().__init__(**kwargs)
        self.cluster = cluster
        self.interval_start = interval_start
        self.share = share
        self.shares = shares

    def execute(self, context: Context) -> None:
        """Ask the clusters whose interval has not landed already."""
        workspace = workspace_of_task()
        config = configuration(workspace, self.log.error).config
        clusters = chosen_clusters(self.cluster)[self.share :: self.shares]
        if not clusters:
            raise AirflowSkipException("other tasks collect the clusters: there are more tasks than clusters")
        shared_now = self._shared_now(workspace)

        async def collect_all() -> list[BaseException | None]:
            rounds = (self._collect(cluster, config, workspace, shared_now) for cluster in clusters)
            return await asyncio.gather(*rounds, return_exceptions=True)

        outcomes = dict(zip(clusters, asyncio.run(collect_all()), strict=True))
        passed = {cluster: one for cluster, one in outcomes.items() if isinstance(one, IntervalHasPassed)}
        failed = {cluster: one for cluster, one in outcomes.items() if one is not None and cluster not in passed}
        for cluster, error in failed.items():
            known = isinstance(error, OffsetGuardError)
            self.log.error("%s: not collected: %s", cluster, error, exc_info=None if known else error)
        if failed:
            raise AirflowException("; ".join(f"{cluster}: {error}" for cluster, error in failed.items()))
        for reason in passed.values():
            self.log.info("%s", reason)
        if len(passed) == len(clusters):
            raise AirflowSkipException(str(next(iter(passed.values()))))

    async def _collect(self, cluster: str, config: Config, workspace: Workspace, shared_now: datetime | None) -> None:
        from offsetguard.collect.collector import collect_cluster

        manifest = await collect_cluster(
            cluster,
            config,
            interval_at(self.interval_start),
            workspace.landing_folder,
            credentials=rocketmq_credentials(config.clusters[cluster].connection),
            started_at=datetime.now(UTC),
            shared_now=shared_now,
        )
        self._log_outcome(manifest)

    def _shared_now(self, workspace: Workspace) -> datetime | None:
        """Return the database's time; None where that is away, without which a round can do."""
        from sqlalchemy.exc import SQLAlchemyError

        from offsetguard.store.database import database_time, open_database

        try:
            return database_time(open_database(workspace.database_url))
        except (StoreError, SQLAlchemyError) as error:
            self.log.warning("this host's clock alone says which minute it is: %s", error)
            return None

    def _log_outcome(self, manifest: Manifest) -> None:
        cluster, requests = manifest.cluster, manifest.requests
        self.log.info("%s: %d of %d requests answered", cluster, requests.answered, requests.asked)
        for gap in manifest.gaps[:20]:
            self.log.warning("%s: %s at %s: %s", cluster, gap.what, gap.address, gap.reason)
        if not manifest.complete:
            self.log.warning(
                "%s: the snapshot is incomplete (%d gaps, brokers not seen: %s); the groups behind them are UNKNOWN",
                cluster,
                manifest.gap_count,
                ", ".join(manifest.unseen_broker_names) or "none",
            )
