"""Task: write the daily reports whose hour has come."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from offsetguard_airflow.assets import OUTBOX, OUTBOX_CHANGES

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class DailyReportOperator(BaseOperator):
    """Put each team's report about its last day into the outbox, once per team, day and receiver."""

    ui_color = "#d6eaf8"

    def __init__(self, **kwargs: Any) -> None:
        """Announce the outbox only when something was written."""
        kwargs.setdefault("outlets", [OUTBOX_CHANGES])
        super().__init__(**kwargs)

    def execute(self, context: Context) -> None:
        """Write what is due now."""
        from offsetguard.config.workspace import Workspace
        from offsetguard.deliver.daily_reports import write_daily_reports
        from offsetguard.store.database import open_database
        from offsetguard_airflow.configuration import configuration

        workspace = Workspace.from_environment()
        config = configuration(workspace, self.log.error).config
        written = write_daily_reports(open_database(workspace.database_url), config, now=datetime.now(UTC))
        for one in written:
            self.log.info("report of team %s about %s to %s was written", one.team, one.day, one.receiver)
        if written:
            context["outlet_events"][OUTBOX_CHANGES].add(OUTBOX)
        else:
            self.log.info("no report is due that was not written before")
