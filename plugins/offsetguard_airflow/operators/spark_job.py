"""What our Spark jobs have in common: started as the connection `spark_default` says, in our workspace."""

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

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

LOCAL_MASTER = "local[2]"
JOBS_FOLDER = Path(__file__).resolve().parents[3] / "spark" / "jobs"

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


class SparkJobOperator(SparkSubmitOperator):
    """spark-submit of a file of `spark/jobs`; subclasses say its arguments."""

    def __init__(self, *, job_file_name: str, **kwargs: Any) -> None:
        """`job_file_name`: in `spark/jobs`."""
        kwargs.setdefault("name", f"offsetguard {Path(job_file_name).stem}")
        super().__init__(application=str(JOBS_FOLDER / job_file_name), durable=False, **kwargs)

    def job_arguments(self) -> list[str]:
        """Return the job's command line, made of fields that are rendered by now."""
        raise NotImplementedError

    def execute(self, context: Context) -> None:
        """Fill in what is only known now, and submit."""
        self.application_args = self.job_arguments()
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
