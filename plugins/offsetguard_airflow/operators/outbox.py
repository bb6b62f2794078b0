"""Tasks about the outbox: write the daily reports whose hour has come; send what is due, and say that all is well."""

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException

from offsetguard_airflow.defaults import OUTBOX, OUTBOX_CHANGES
from offsetguard_airflow.hooks import opened_by, tell_heartbeat, transports
from offsetguard_airflow.task_inputs import open_workspace


class DeliverOperator(BaseOperator):
    """Deliver, and turn red when something could not be delivered: what waits stays in the outbox."""

    ui_color = "#e8daef"

    def execute(self, context: Context) -> None:
        """Send everything that is due now, then tell the heartbeat."""
        from concurrent.futures import ThreadPoolExecutor

        from offsetguard.decide.own_health import troubles_of
        from offsetguard.deliver.channels.alertmanager import Alertmanager, post_alerts
        from offsetguard.deliver.deliver import deliver_due
        from offsetguard.store.database import database_time

        ours = open_workspace(self.log.error)
        config, engine = ours.config, ours.engine
        alertmanagers = [opened_by(Alertmanager, one, config.delivery) for one in config.delivery.alertmanagers]
        with ThreadPoolExecutor(1, "alerts") as pool:  # whichever of them hangs holds up no message
            posting = pool.submit(post_alerts, engine, config, alertmanagers)
            report = deliver_due(engine, transports(config.delivery))
            unposted = posting.result()
        for remark in report.remarks:
            self.log.warning("%s", remark)
        self.log.info("%d sent, %d to be tried again, %d refused for good", report.sent, report.retried, report.failed)
        # a database that did not answer is trouble enough, and could not be looked at
        troubles = (
            [] if report.troubles else [one.text for one in troubles_of(engine, config, now=database_time(engine))]
        )
        for trouble in troubles:
            self.log.error("%s", trouble)
        # a message that will be tried again is not yet trouble, one that nobody will get is
        lasting = [*report.lasting_reasons, *(unposted if len(unposted) == len(alertmanagers) else ())]
        tell_heartbeat(ours.workspace, config.delivery, [*troubles, *lasting], self.log.error)
        if report.reasons:
            raise AirflowException("not delivered, kept in the outbox: " + "; ".join(report.reasons))
        if unposted:
            raise AirflowException("; ".join(unposted))


class DailyReportOperator(BaseOperator):
    """Put each team's report about its last day into the outbox, once per team, day and receiver."""

    ui_color = "#d6eaf8"

    def __init__(self, **kwargs: Any) -> None:
        """Announce the outbox only when something was written."""
        kwargs.setdefault("outlets", [OUTBOX_CHANGES])
        super().__init__(**kwargs)

    def execute(self, context: Context) -> None:
        """Write what is due now."""
        from offsetguard.deliver.daily_reports import write_daily_reports
        from offsetguard.store.database import database_time

        ours = open_workspace(self.log.error)
        written = write_daily_reports(ours.engine, ours.config, now=database_time(ours.engine))
        for one in written:
            self.log.info("report of team %s about %s to %s was written", one.team, one.day, one.receiver)
        if written:
            context["outlet_events"][OUTBOX_CHANGES].add(OUTBOX)
        else:
            self.log.info("no report is due that was not written before")
