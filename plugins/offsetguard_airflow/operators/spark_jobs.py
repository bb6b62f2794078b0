"""Tasks: our Spark jobs with their arguments, each an operator of the name of its file in `spark/jobs`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.model.errors import ConfigError, StoreError
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.locks import hold, hold_if_free
from offsetguard_airflow.defaults import PUBLISHED_FACTS
from offsetguard_airflow.metrics import send_cycles
from offsetguard_airflow.operators.spark_job import SparkJobOperator
from offsetguard_airflow.task_inputs import Opened, chosen_clusters, has_landed, interval_at, open_workspace


class PublishIntervalOperator(SparkJobOperator):
    """`spark/jobs/publish_interval.py`: publish an interval of each cluster, and with it all that waits.

    One session is at work at a time: a task that finds one leaves its interval to it and ends as skipped, before it
    has started Spark. So no task queues, and none is ended because it has waited. What nobody would take along (a
    backfill, an interval that failed again and again and is cleared by hand) needs no turn, and lets what is live go
    first.
    """

    template_fields = (*SparkJobOperator.template_fields, "cluster", "interval_start", "again")
    ui_color = "#d5f5e3"

    def __init__(self, *, cluster: str, interval_start: str, again: bool | str = False, **kwargs: Any) -> None:
        """`cluster`: name in the configuration, or "all". `interval_start`: ISO 8601, any moment of the interval.

        `again`: publish also what is published already and has not changed. A template gives it as text.
        """
        kwargs.setdefault("outlets", [PUBLISHED_FACTS])
        super().__init__(job_name="publish_interval", **kwargs)
        self.cluster = cluster
        self.interval_start = interval_start
        self.again = again
        self._named: list[str] = []  # clusters whose interval the job publishes, whatever else waits

    def execute(self, context: Context) -> None:
        """Run the job, and send the metrics of its cycles, also of those that failed."""
        from offsetguard.collect.backlog import SESSION, given_up, next_waiting

        ours, interval = open_workspace(self.log.error), interval_at(self.interval_start)
        landing, clusters = ours.workspace.landing_folder, ours.config.clusters
        landed = [one for one in chosen_clusters(self.cluster) if has_landed(ours.workspace, one, interval)]
        if not landed:
            raise AirflowSkipException(f"nothing has landed of {interval.name}")
        if str(self.again) == "True":
            self._run(context, ours, landed, interval=interval)
            return
        waiting = []
        for cluster in landed:
            published = published_intervals.get(ours.engine, cluster, interval)
            if published is None:
                waiting.append(cluster)
            else:
                self.log.info("%s: %s is published, by run %s", cluster, interval.name, published.run_id)
        if not waiting:
            return
        with hold_if_free(ours.engine, SESSION) as holder:
            by_hand = [one for one in waiting if interval in given_up(ours.engine, landing, one)]
            if holder is None:
                self._run(context, ours, waiting)
            elif by_hand:
                self._run(context, ours, by_hand, interval=interval)
            else:
                raise AirflowSkipException(
                    f"{', '.join(waiting)}: {interval.name} is left to the session that publishes all that waits "
                    f"({holder}); offsetguard cycles shows what it does"
                )
        # What landed after the job had looked for the last time found this session still at work.
        if next_waiting(ours.engine, landing, clusters, live_only=True) is not None:
            with hold_if_free(ours.engine, SESSION) as holder:
                if holder is None:
                    self._run(context, ours, [])

    def _run(self, context: Context, ours: Opened, named: list[str], *, interval: Interval | None = None) -> None:
        """Run the job for what waits, and for these clusters; `interval`: only its cycles are this task's.

        That metrics cannot be sent changes nothing of what became of the intervals.
        """
        self._named = named
        began = datetime.now(UTC)  # the job's clock, which is this host's
        try:
            super().execute(context)
        finally:
            try:
                send_cycles(ours.engine, since=began, clusters=None if interval is None else named, interval=interval)
            except (StoreError, SQLAlchemyError) as error:
                self.log.warning("metrics of the cycles could not be sent: %s", error)

    def job_arguments(self) -> list[str]:
        """Name the interval, and the clusters."""
        interval_start = interval_at(self.interval_start).start.isoformat()
        again = ["--again"] if str(self.again) == "True" else []
        return [f"--interval-start={interval_start}", *(f"--cluster={one}" for one in self._named), *again]


class RecomputeFactsOperator(SparkJobOperator):
    """`spark/jobs/recompute_intervals.py` with the fields of the trigger form."""

    template_fields = (*SparkJobOperator.template_fields, "form", "since")
    ui_color = "#d5f5e3"

    def __init__(self, *, form: Mapping[str, Any] | str, since: str, **kwargs: Any) -> None:
        """`form`: cluster, from, to, rebuild_state, dry_run, as the DAG explains them.

        `since`: ISO 8601, when it was asked for: a second try of the same run goes on where the first one was.
        """
        super().__init__(job_name="recompute_intervals", **kwargs)
        self.form = form
        self.since = since

    def execute(self, context: Context) -> None:
        """Run the job as the session that publishes all that waits, live minutes first: nobody else does meanwhile."""
        from offsetguard.collect.backlog import SESSION

        form: Any = self.form
        if form["dry_run"]:
            super().execute(context)
            return
        ours = open_workspace(self.log.error)
        with hold(ours.engine, SESSION, lambda holder: self.log.info("waiting for the session at work (%s)", holder)):
            super().execute(context)

    def job_arguments(self) -> list[str]:
        """Return the form as a command line: `--name=value`, so that no value is taken for an option.

        Raises AirflowFailException for what the form does not check: trying again cannot help.
        """
        form: Any = self.form
        try:
            chosen_clusters(form["cluster"], or_all=False)
            first, last = interval_at(form["from"]), interval_at(form["to"])
        except (ConfigError, ValueError) as error:
            raise AirflowFailException(str(error)) from None
        if last < first:
            raise AirflowFailException(f"the span ends ({form['to']}) before it begins ({form['from']}): swap the two")
        return [
            *(f"--{name}={form[name]}" for name in ("cluster", "from", "to")),
            f"--since={self.since}",
            *(f"--{flag.replace('_', '-')}" for flag in ("rebuild_state", "dry_run") if form[flag]),
        ]


class IngestBrokerLogsOperator(SparkJobOperator):
    """`spark/jobs/ingest_broker_logs.py` with the fields of the trigger form."""

    template_fields = (*SparkJobOperator.template_fields, "form")
    ui_color = "#fdebd0"

    def __init__(self, *, form: Mapping[str, Any] | str, **kwargs: Any) -> None:
        """`form`: cluster, files, broker_name, broker_id, time_zone, routine, dry_run, as the DAG explains them."""
        super().__init__(job_name="ingest_broker_logs", **kwargs)
        self.form = form

    def job_arguments(self) -> list[str]:
        """Return the form as a command line: `--name=value`, so that no value is taken for an option."""
        form: Any = self.form
        named = {
            "cluster": form["cluster"],
            "broker-name": form["broker_name"] or "",
            "broker-id": form["broker_id"],
            "time-zone": form["time_zone"],
        }
        return [
            *(f"--{name}={value}" for name, value in named.items()),
            *(f"--files={pattern}" for pattern in form["files"]),
            *(f"--{flag.replace('_', '-')}" for flag in ("routine", "dry_run") if form[flag]),
        ]
