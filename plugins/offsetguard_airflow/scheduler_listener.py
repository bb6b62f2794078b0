"""What Airflow's scheduler does for our tasks when it starts, and when it ends.

LocalExecutor forks its workers from the scheduler, and they their tasks: what the scheduler has imported, nobody else
has to, and its memory is shared. Nothing is opened before the fork (a channel of gRPC would not survive it), only
imported. Where tasks are executed anew (Celery, Kubernetes, macOS) each imports what it needs by itself.
"""

import importlib
import multiprocessing
import sys

from airflow.configuration import conf
from airflow.listeners import hookimpl

FOR_TASKS = (
    "offsetguard.collect.collector",
    "offsetguard.decide.judge",
    "offsetguard.decide.own_health",
    "offsetguard.deliver.daily_reports",
    "offsetguard.deliver.deliver",
    "offsetguard.facts.changes",
    "offsetguard.facts.published",
    "offsetguard.lake.cycle_metrics",
    "offsetguard.lake.upkeep.clean",
    "offsetguard_airflow.operators.collect",
    "offsetguard_airflow.operators.housekeeping",
    "offsetguard_airflow.operators.judge",
    "offsetguard_airflow.operators.outbox",
    "offsetguard_airflow.operators.spark_jobs",
    "offsetguard_expectations.checkpoint",
    "offsetguard_spark.jobs",
    "pyspark.sql.connect.session",
)


@hookimpl
def on_starting(component: object) -> None:
    """Import what our tasks need, in a scheduler whose executor is about to fork its workers."""
    del component  # it has no kind yet
    forks = multiprocessing.get_start_method() == "fork" and sys.platform != "darwin"
    if sys.argv[1:2] == ["scheduler"] and forks and "LocalExecutor" in conf.get("core", "executor"):
        for name in FOR_TASKS:
            importlib.import_module(name)


@hookimpl
def before_stopping(component: object) -> None:
    """End the warm Spark of our tasks, unless one of another scheduler works on it."""
    if getattr(component, "job_type", None) == "SchedulerJob":
        from offsetguard.config.workspace import Workspace
        from offsetguard_spark.server_process import ServerFolder

        ServerFolder(Workspace.from_environment().spark_server_folder).stop_if_unused()
