"""Task: send what is due in the outbox, and say outside that all is well."""

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
        """Send everything that is due now, then tell the heartbeat."""
        from offsetguard.config.workspace import Workspace
        from offsetguard.decide.own_health import troubles_of
        from offsetguard.deliver.deliver import deliver_due
        from offsetguard.store.database import open_database
        from offsetguard_airflow.configuration import configuration
        from offsetguard_airflow.hooks.channels import open_channels
        from offsetguard_airflow.hooks.heartbeat import tell_heartbeat

        workspace = Workspace.from_environment()
        config = configuration(workspace, self.log.error).config
        engine = open_database(workspace.database_url)
        report = deliver_due(engine, open_channels(config.delivery))
        for remark in report.remarks:
            self.log.warning("%s", remark)
        self.log.info("%d sent, %d to be tried again, %d refused for good", report.sent, report.retried, report.failed)
        # a database that did not answer is trouble enough, and could not be looked at
        troubles = [] if report.troubles else [one.text for one in troubles_of(engine, config, now=datetime.now(UTC))]
        for trouble in troubles:
            self.log.error("%s", trouble)
        # a message that will be tried again is not yet trouble, one that nobody will get is
        tell_heartbeat(config.delivery, [*troubles, *report.lasting_reasons], self.log)
        if report.reasons:
            raise AirflowException("not delivered, kept in the outbox: " + "; ".join(report.reasons))
