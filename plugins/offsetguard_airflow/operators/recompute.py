"""Task: the Spark job that publishes many landed intervals once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetguard_airflow.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        """Return the form as a command line: `--name=value`, so that no value is taken for an option."""
        form: Any = self.form
        return [
            *(f"--{name}={form[name]}" for name in ("cluster", "from", "to")),
            f"--since={self.since}",
            *(f"--{flag.replace('_', '-')}" for flag in ("rebuild_state", "dry_run") if form[flag]),
        ]
