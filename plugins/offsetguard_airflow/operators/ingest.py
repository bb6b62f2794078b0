"""Task: the Spark job that brings whole log files into the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetguard_airflow.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping


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
