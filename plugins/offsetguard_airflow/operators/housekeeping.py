"""Task: delete what is too old, pack what is small, let go of what nobody needs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class HousekeepingOperator(BaseOperator):
    """One housekeeping of the whole workspace; needs no Spark."""

    ui_color = "#eaeded"

    def execute(self, context: Context) -> None:
        """Do everything that is due now."""
        from offsetguard.config.workspace import Workspace
        from offsetguard.lake.cycle_metrics import of_housekeeping
        from offsetguard.lake.upkeep.clean import Housekeeper
        from offsetguard.store.database import open_database
        from offsetguard_airflow.configuration import configuration
        from offsetguard_airflow.metrics import send

        workspace = Workspace.from_environment()
        retention = configuration(workspace, self.log.error).config.retention
        engine = open_database(workspace.database_url)
        report = Housekeeper(workspace, retention, engine, self.log.info).clean(now=datetime.now(UTC))
        send(of_housekeeping(report))
        self.log.info(
            "%d intervals settled; deleted: %d landed snapshots, %d intervals, %d cycles, %d judgements, %d incidents, "
            "%d messages, %d silences",
            report.settled_intervals,
            report.deleted_snapshots,
            report.deleted_intervals,
            report.deleted_cycles,
            report.deleted_judgements,
            report.deleted_incidents,
            report.deleted_messages,
            report.deleted_silences,
        )
