"""Task: the Spark job that publishes the facts of one interval, started as the connection `spark_default` says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from offsetguard_airflow.assets import PUBLISHED_FACTS
from offsetguard_airflow.run_interval import interval_at

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

LOCAL_MASTER = "local[2]"
JOB_FILE = Path(__file__).resolve().parents[3] / "spark" / "jobs" / "publish_interval.py"

# Asked of another process: this package may not import Spark code, and the paths are needed before a session exists.
_PRINT_LOCAL_SETTINGS = (
    "import json; from offsetguard_spark.session import LOCAL_ENVIRONMENT, local_config; "
    "print(json.dumps([local_config(), LOCAL_ENVIRONMENT]))"
)


class LocalByDefaultSparkSubmitHook(SparkSubmitHook):
    """The provider's hook, but without a connection (or without a host in it) Spark runs here and not on YARN."""

    def _resolve_connection(self) -> dict[str, Any]:
        try:
            connection = self.get_connection(self._conn_id)
            undecided = connection.conn_type == "spark" and not connection.host
        except AirflowNotFoundException:
            undecided = True
        resolved: dict[str, Any] = super()._resolve_connection()
        if not undecided:
            return resolved
        self.log.info("Airflow connection %r names no Spark master: Spark runs here, %s", self._conn_id, LOCAL_MASTER)
        return {**resolved, "master": LOCAL_MASTER}

    @property
    def runs_here(self) -> bool:
        """The driver is this machine's only Spark process."""
        return str(self._connection["master"]).startswith("local")


class PublishIntervalOperator(SparkSubmitOperator):
    """spark-submit of `spark/jobs/publish_interval.py` for one cluster and interval."""

    template_fields = (*SparkSubmitOperator.template_fields, "cluster", "interval_start")
    ui_color = "#d5f5e3"

    def __init__(self, *, cluster: str, interval_start: str, **kwargs: Any) -> None:
        """`cluster`: name in the configuration. `interval_start`: ISO 8601, any moment of the interval."""
        kwargs.setdefault("map_index_template", "{{ task.cluster }}")
        kwargs.setdefault("outlets", [PUBLISHED_FACTS])
        kwargs.setdefault("name", "offsetguard publish_interval")
        super().__init__(application=str(JOB_FILE), durable=False, **kwargs)
        self.cluster = cluster
        self.interval_start = interval_start

    def execute(self, context: Context) -> None:
        """Fill in what is only known now, and submit."""
        interval_start = interval_at(self.interval_start).start.isoformat()
        self.application_args = ["--cluster", self.cluster, "--interval-start", interval_start]
        self.env_vars = {**workspace_variables(), **(self.env_vars or {})}
        super().execute(context)

    def _get_hook(self) -> SparkSubmitHook:
        hook = LocalByDefaultSparkSubmitHook(
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            env_vars=self.env_vars,
        )
        local_config, local_environment = _local_settings()
        if hook.runs_here:
            hook._conf = {**local_config, **hook._conf}
            hook._env_vars = {**local_environment, **(self.env_vars or {})}
        else:
            hook._jars = local_config["spark.driver.extraClassPath"].replace(":", ",")
        return hook


def workspace_variables() -> dict[str, str]:
    """Return the environment that makes the job use our folders and database, whose password is masked in logs."""
    from sqlalchemy import make_url

    from offsetguard.workspace import Workspace

    workspace = Workspace.from_environment()
    password = make_url(workspace.database_url).password
    if password:
        mask_secret(str(password))
    return {
        "OFFSETGUARD_HOME": str(workspace.home),
        "OFFSETGUARD_CONFIG": str(workspace.config_file),
        "OFFSETGUARD_DATABASE_URL": workspace.database_url,
    }


def _local_settings() -> tuple[dict[str, str], dict[str, str]]:
    """Return configuration and environment of a Spark that runs here."""
    command = [sys.executable, "-c", _PRINT_LOCAL_SETTINGS]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    config, environment = json.loads(answer.stdout)
    return config, environment
