"""Task: send what is due in the outbox."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class DeliverOperator(BaseOperator):
    """Deliver, and turn red when something could not be delivered: what waits stays in the outbox."""

    ui_color = "#e8daef"

    def execute(self, context: Context) -> None:
        """Send everything that is due now."""
        from offsetguard.config_file import load_config
        from offsetguard.pipeline.deliver import deliver_due
        from offsetguard.store.database import open_database
        from offsetguard.workspace import Workspace
        from offsetguard_airflow.hooks.channels import open_channels

        workspace = Workspace.from_environment()
        config = load_config(workspace.config_file)
        engine = open_database(workspace.database_url)
        report = deliver_due(engine, open_channels(config.delivery), now=datetime.now(UTC))
        self.log.info("%d sent, %d to be tried again, %d refused for good", report.sent, report.retried, report.failed)
        if report.reasons:
            raise AirflowException("not delivered, kept in the outbox: " + "; ".join(report.reasons))
