"""OffsetGuard with everything around it that is real: an SMTP server, Slack, and Airflow with our DAGs.

Brokers come from outside: their addresses stand in the configuration. Used by the demo and by the end-to-end test.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import yaml

from offsetguard.config.workspace import Workspace
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.airflow.standalone import COMPONENTS, USUAL, AirflowStandalone
from offsetguard_peers.robots.server import ROBOTS, SECRET, RobotServer
from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.smtp.inbox import InboxPage
from offsetguard_peers.smtp.server import SmtpServer
from offsetguard_spark.connect_server import ConnectServer

DAGS = ("collect_and_judge", "deliver_warnings")


class World:
    """Entering opens the receivers; `start` starts Airflow, which takes a while; leaving stops all of it."""

    def __init__(
        self,
        folder: Path,
        *,
        airflow_port: int | None = None,
        password: str | None = None,
        spark: ConnectServer | None = None,
        whole_airflow: bool = False,
    ) -> None:
        """`folder`: an empty one; mails, configuration, Airflow's home and OffsetGuard's own folder go there.

        `spark`: a server that runs; without one each task starts a Spark of its own. `whole_airflow`: with the
        triggerer, without which Airflow's home is red.
        """
        self.folder = folder
        self.mail_folder = folder / "mail"
        self.config_file = folder / "offsetguard.yml"
        self.smtp = SmtpServer(mail_folder=self.mail_folder)
        self.slack = SlackServer()
        self.robots = RobotServer()
        self.inbox = InboxPage(self.smtp)
        self._airflow_port = airflow_port
        self._password = password
        self._spark = spark
        self._components = tuple(COMPONENTS) if whole_airflow else USUAL
        self._airflow: AirflowStandalone | None = None
        self._stack = ExitStack()

    @property
    def airflow(self) -> AirflowStandalone:
        """Airflow; it runs after `start`."""
        assert self._airflow is not None, "the world is not entered"
        return self._airflow

    @property
    def api(self) -> AirflowApi:
        """Airflow's REST API, logged in."""
        return self.airflow.api

    @property
    def workspace(self) -> Workspace:
        """OffsetGuard's folders and database, as the tasks see them."""
        return Workspace.from_environment(self._environment)

    def write_config(self, config: dict[str, Any]) -> None:
        """Write config/offsetguard.yml of this world; delivery is filled in. It is read anew by every task."""
        delivery = {"mail_from": "offsetguard@example.com", "page_url": self.airflow.base_url}
        whole = {**config, "delivery": {**delivery, **config.get("delivery", {})}}
        self.config_file.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")

    def start(self) -> None:
        """Start Airflow; returns when it is healthy. Raises AirflowFailed, also when the world is left meanwhile."""
        self.airflow.start()

    def run_dags(self) -> None:
        """Let Airflow's scheduler run our DAGs from now on."""
        self.api.wait_for_dags(*DAGS, timeout_s=600)
        for dag_id in DAGS:
            self.api.unpause(dag_id)

    def __enter__(self) -> Self:
        """Open SMTP, Slack and the inbox; on a failure close what was opened."""
        try:
            for server in (self.smtp, self.slack, self.robots, self.inbox):
                self._stack.enter_context(server)
            self._airflow = AirflowStandalone(
                self.folder / "airflow",
                connections=self._connections,
                environment=self._environment,
                port=self._airflow_port,
                password=self._password,
                components=self._components,
            )
            self._stack.callback(self._airflow.stop)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything; also a start that is under way in another thread."""
        self._stack.close()

    @property
    def _connections(self) -> dict[str, str]:
        connections = {
            "offsetguard_smtp": f"smtp://{self.smtp.host}:{self.smtp.port}/?disable_ssl=true&disable_tls=true",
            "offsetguard_slack": f"slack://:{self.slack.token}@/?base_url={quote(self.slack.api_url, safe='')}",
        }
        for robot in ROBOTS:
            connection = {"conn_type": "generic", "password": self.robots.address(robot), "extra": {"secret": SECRET}}
            connections[f"offsetguard_{robot}"] = json.dumps(connection)
        if self._spark is not None:
            connections["spark_default"] = f"sc://:{self._spark.token}@localhost:{self._spark.port}"
        return connections

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "OFFSETGUARD_HOME": str(self.folder / "offsetguard"),
            "OFFSETGUARD_CONFIG": str(self.config_file),
            "OFFSETGUARD_DATABASE_URL": f"sqlite:///{self.folder / 'offsetguard' / 'offsetguard.db'}",
        }
