"""Task: delete what is too old, pack what is small, let go of what nobody needs."""

from datetime import UTC, datetime

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context

from offsetguard_airflow.metrics import send
from offsetguard_airflow.task_inputs import open_workspace


class HousekeepingOperator(BaseOperator):
    """One housekeeping of the whole workspace; needs no Spark."""

    ui_color = "#eaeded"

    def execute(self, context: Context) -> None:
        """Do everything that is due now."""
        from offsetguard.lake.cycle_metrics import of_housekeeping
        from offsetguard.lake.upkeep.clean import Housekeeper

        ours = open_workspace(self.log.error)
        housekeeper = Housekeeper(ours.workspace, ours.config.retention, ours.engine, self.log.info)
        report = housekeeper.clean(now=datetime.now(UTC))
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
