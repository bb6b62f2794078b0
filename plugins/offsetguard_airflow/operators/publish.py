"""Task: the Spark job that publishes the facts of one interval."""

from __future__ import annotations

from typing import Any

from offsetguard_airflow.assets import PUBLISHED_FACTS
from offsetguard_airflow.operators.spark_job import SparkJobOperator
from offsetguard_airflow.run_interval import interval_at


class PublishIntervalOperator(SparkJobOperator):
    """spark-submit of `spark/jobs/publish_interval.py` for one cluster and interval."""

    template_fields = (*SparkJobOperator.template_fields, "cluster", "interval_start")
    ui_color = "#d5f5e3"

    def __init__(self, *, cluster: str, interval_start: str, **kwargs: Any) -> None:
        """`cluster`: name in the configuration. `interval_start`: ISO 8601, any moment of the interval."""
        kwargs.setdefault("map_index_template", "{{ task.cluster }}")
        kwargs.setdefault("outlets", [PUBLISHED_FACTS])
        super().__init__(job_file_name="publish_interval.py", **kwargs)
        self.cluster = cluster
        self.interval_start = interval_start

    def job_arguments(self) -> list[str]:
        """Name the cluster and the interval."""
        interval_start = interval_at(self.interval_start).start.isoformat()
        return ["--cluster", self.cluster, "--interval-start", interval_start]
