"""Tasks: our Spark jobs with their arguments, each an operator of the name of its file in `spark/jobs`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.model.errors import ConfigError, StoreError
from offsetguard_airflow.defaults import PUBLISHED_FACTS
from offsetguard_airflow.metrics import send_cycle
from offsetguard_airflow.operators.spark_job import SparkJobOperator
from offsetguard_airflow.task_inputs import chosen_clusters, interval_at


class PublishIntervalOperator(SparkJobOperator):
    """spark-submit of `spark/jobs/publish_interval.py` for one cluster and interval."""

    template_fields = (*SparkJobOperator.template_fields, "cluster", "interval_start", "again")
    ui_color = "#d5f5e3"

    def __init__(self, *, cluster: str, interval_start: str, again: bool | str = False, **kwargs: Any) -> None:
        """`cluster`: name in the configuration. `interval_start`: ISO 8601, any moment of the interval.

        `again`: publish also what is published already and has not changed. A template gives it as text.
        """
        kwargs.setdefault("map_index_template", "{{ task.cluster }}")
        kwargs.setdefault("outlets", [PUBLISHED_FACTS])
        super().__init__(job_file_name="publish_interval.py", **kwargs)
        self.cluster = cluster
        self.interval_start = interval_start
        self.again = again

    def execute(self, context: Context) -> None:
        """Run the job, and send the metrics of the cycle, also of one that failed."""
        began = datetime.now(UTC)
        try:
            super().execute(context)
        finally:
            self._send_metrics(began)

    def job_arguments(self) -> list[str]:
        """Name the cluster and the interval."""
        interval_start = interval_at(self.interval_start).start.isoformat()
        named = ["--cluster", self.cluster, "--interval-start", interval_start]
        return [*named, "--again"] if str(self.again) == "True" else named

    def _send_metrics(self, began: datetime) -> None:
        """Send them; that this is not possible changes nothing of what became of the interval."""
        try:
            send_cycle(self.cluster, self.interval_start, since=began)
        except (StoreError, SQLAlchemyError) as error:
            self.log.warning("%s: metrics of the cycle could not be sent: %s", self.cluster, error)


class RecomputeFactsOperator(SparkJobOperator):
    """`spark/jobs/recompute_intervals.py` with the fields of the trigger form."""

    template_fields = (*SparkJobOperator.template_fields, "form", "since")
    ui_color = "#d5f5e3"

    def __init__(self, *, form: Mapping[str, Any] | str, since: str, **kwargs: Any) -> None:
        """`form`: cluster, from, to, rebuild_state, dry_run, as the DAG explains them.

        `since`: ISO 8601, when it was asked for: a second try of the same run goes on where the first one was.
        """
        super().__init__(job_file_name="recompute_intervals.py", **kwargs)
        self.form = form
        self.since = since

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
    """spark-submit of `spark/jobs/ingest_broker_logs.py` with the fields of the trigger form."""

    template_fields = (*SparkJobOperator.template_fields, "form")
    ui_color = "#fdebd0"

    def __init__(self, *, form: Mapping[str, Any] | str, **kwargs: Any) -> None:
        """`form`: cluster, files, broker_name, broker_id, time_zone, routine, dry_run, as the DAG explains them."""
        super().__init__(job_file_name="ingest_broker_logs.py", **kwargs)
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
