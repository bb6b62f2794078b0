"""Task: one collection round of one cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowSkipException

from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import IntervalHasPassed, StoreError
from offsetguard_airflow.hooks.connections import rocketmq_credentials
from offsetguard_airflow.task_inputs import configuration, interval_at


class CollectOffsetsOperator(BaseOperator):
    """Land one snapshot of a cluster; brokers that do not answer make it incomplete, not failed."""

    template_fields: Sequence[str] = ("cluster", "interval_start")
    ui_color = "#d6eaf8"

    def __init__(self, *, cluster: str, interval_start: str, **kwargs: Any) -> None:
        """`cluster`: name in the configuration. `interval_start`: ISO 8601, any moment of the interval."""
        kwargs.setdefault("map_index_template", "{{ task.cluster }}")
        super().__init__(**kwargs)
        self.cluster = cluster
        self.interval_start = interval_start

    def execute(self, context: Context) -> None:
        """Ask the cluster, unless the interval has landed already."""
        from offsetguard.collect.collector import collect_cluster

        workspace = Workspace.from_environment()
        config = configuration(workspace, self.log.error).config
        round_of_one = collect_cluster(
            self.cluster,
            config,
            interval_at(self.interval_start),
            workspace.landing_folder,
            credentials=rocketmq_credentials(config.clusters[self.cluster].connection),
            started_at=datetime.now(UTC),
            shared_now=self._shared_now(workspace),
        )
        try:
            self._log_outcome(asyncio.run(round_of_one))
        except IntervalHasPassed as reason:
            raise AirflowSkipException(str(reason)) from None

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
        requests = manifest.requests
        self.log.info("%s: %d of %d requests answered", self.cluster, requests.answered, requests.asked)
        for gap in manifest.gaps[:20]:
            self.log.warning("%s: %s at %s: %s", self.cluster, gap.what, gap.address, gap.reason)
        if not manifest.complete:
            self.log.warning(
                "%s: the snapshot is incomplete (%d gaps, brokers not seen: %s); the groups behind them are UNKNOWN",
                self.cluster,
                manifest.gap_count,
                ", ".join(manifest.unseen_broker_names) or "none",
            )
