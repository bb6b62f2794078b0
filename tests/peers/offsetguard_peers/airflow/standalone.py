"""A real Airflow in a folder of its own: scheduler, DAG processor and API server, SQLite, LocalExecutor, one login.

    with AirflowStandalone(folder, connections={"offsetguard_smtp": "smtp://..."}) as airflow:
        airflow.api.unpause("collect_and_judge")

Tuned for two cores: one parsing process, one API worker, few task slots; the triggerer, which only deadline alerts
need, where it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.processes import ChildProcess, ReservedPort, SessionGuard, stop_sessions
from offsetguard_spark.jars import cache_folder

REPOSITORY = Path(__file__).resolve().parents[4]
HEALTHY_WITHIN_S = 600.0
PATIENCE_S = 300  # for what a quick machine does in a second or two
COMPONENTS = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],  # the API server reads logs from the same folder
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
USUAL = ("api-server", "scheduler", "dag-processor")


class AirflowFailed(Exception):
    """A component ended or did not become ready; the text has the end of its log."""


class AirflowStandalone:
    """Started by `start()` or `with`; `stop()` leaves no process of it running."""

    username = "admin"

    def __init__(
        self,
        folder: Path,
        *,
        connections: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        password: str | None = None,
        port: int | None = None,
        components: Sequence[str] = USUAL,
        prepared_by: Sequence[Sequence[str]] = (),
    ) -> None:
        """Describe it; nothing runs yet.

        `connections`: id -> URI or JSON. `environment`: e.g. OFFSETGUARD_HOME. `components`: those
        that are started. `prepared_by`: commands of `airflow` that run before, once there is a database.
        """
        self.folder = folder
        self._components = components
        self._prepared_by = prepared_by
        self.password = password or secrets.token_urlsafe(9)
        self._reserved = None if port else ReservedPort()
        self.port = self._reserved.port if self._reserved else port
        self.base_url = f"http://127.0.0.1:{self.port}"
        self._processes: dict[str, ChildProcess] = {}
        self._api: AirflowApi | None = None
        self._launching = threading.Lock()
        self._stopping = threading.RLock()
        self._guard: SessionGuard | None = None
        self._ended = False
        self.environment = {
            **self._settings(),
            **{f"AIRFLOW_CONN_{name.upper()}": value for name, value in (connections or {}).items()},
            **(environment or {}),
            # spark-submit and the Python that it starts are those of this environment
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    @property
    def api(self) -> AirflowApi:
        """The REST API, logged in as the administrator."""
        if self._api is None:
            raise AirflowFailed("Airflow is not running; call start() first")
        return self._api

    def start(self) -> None:
        """Create the metadata database, start the components and wait until the API and the scheduler are healthy."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        (self.folder / "passwords.json").write_text(json.dumps({self.username: self.password}) + "\n")
        try:
            self._make_database()
            for command in self._prepared_by:
                self._run(" ".join(command[:2]), command)
            for name in self._components:
                self._launch(name, COMPONENTS[name])
            self._wait_until_healthy()
            self._api = AirflowApi(self.base_url, self.username, self.password)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all components and every process that they started, tasks and Spark drivers included.

        May be called from another thread while `start` is under way, which then raises AirflowFailed.
        """
        with self._launching:
            self._ended = True
        with self._stopping:
            self._stop()

    def process_id(self, component: str) -> int:
        """Return a component's process, which is the leader of its session."""
        return self._processes[component].pid

    def stop_component(self, component: str) -> None:
        """End one component as its operator would; returns when it has ended."""
        self._processes[component].stop()

    def _stop(self) -> None:
        if self._api is not None:
            self._api.close()
            self._api = None
        stop_sessions({process.pid for process in self._processes.values()}, patience_s=8)
        for process in self._processes.values():
            process.stop(hard=True)
        self._processes.clear()
        if self._guard:
            self._guard.close()
            self._guard = None
        if self._reserved:
            self._reserved.release()

    def __enter__(self) -> AirflowStandalone:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _make_database(self) -> None:
        """Migrate an empty metadata database, once for each lock file: 7 s of CPU that later starts need not pay."""
        database = self.folder / "airflow.db"
        locked = hashlib.sha256((REPOSITORY / "uv.lock").read_bytes()).hexdigest()[:12]
        template = cache_folder() / f"airflow-metadata-{locked}.db"
        if template.exists():
            shutil.copyfile(template, database)
            return
        self._run("migrate", ["db", "migrate"]).wait_for("Database migration done!", timeout_s=HEALTHY_WITHIN_S)
        template.parent.mkdir(parents=True, exist_ok=True)
        copy = template.with_suffix(f".{os.getpid()}")
        shutil.copyfile(database, copy)
        copy.replace(template)  # at once: another start may be looking

    def _run(self, name: str, arguments: Sequence[str]) -> ChildProcess:
        process = self._launch(name, arguments)
        while process.alive:
            time.sleep(0.05)
        return process

    def _settings(self) -> dict[str, str]:
        sections: dict[str, dict[str, object]] = {
            "core": {
                "dags_folder": REPOSITORY / "dags",
                "plugins_folder": REPOSITORY / "plugins",
                "load_examples": False,
                "executor": "LocalExecutor",
                "parallelism": 5,  # Spark, a judge that waits for it, and what must not wait for either
                "execution_api_server_url": f"{self.base_url}/execution/",
                "simple_auth_manager_users": f"{self.username}:admin",
                "simple_auth_manager_passwords_file": self.folder / "passwords.json",
                "fernet_key": "",
                "dagbag_import_timeout": PATIENCE_S,
            },
            "database": {
                "sql_alchemy_conn": f"sqlite:///{self.folder / 'airflow.db'}",
                "load_default_connections": False,
            },
            "api": {
                "host": "127.0.0.1",
                "port": self.port,
                "base_url": self.base_url,
                "workers": 1,
                "secret_key": secrets.token_hex(16),
            },
            "api_auth": {"jwt_secret": secrets.token_hex(32)},
            "scheduler": {"job_heartbeat_sec": 5, "scheduler_heartbeat_sec": 2, "enable_health_check": False},
            "dag_processor": {
                "parsing_processes": 1,
                "min_file_process_interval": 60,
                "print_stats_interval": 300,
                "dag_file_processor_timeout": PATIENCE_S,
            },
            "workers": {"execution_api_timeout": 60},  # of one request; by default 5 s
            "logging": {"base_log_folder": self.folder / "logs" / "tasks", "colored_console_log": False},
        }
        settings = {
            f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
            for section, options in sections.items()
            for option, value in options.items()
        }
        return {"AIRFLOW_HOME": str(self.folder), **settings}

    def _launch(self, name: str, arguments: Sequence[str]) -> ChildProcess:
        foreign = [name for name in os.environ if name.startswith("AIRFLOW") and name not in self.environment]
        command = ["env", f"--chdir={self.folder}", *(f"--unset={name}" for name in foreign), sys.executable]
        with self._launching:
            if self._ended:
                raise AirflowFailed("Airflow was stopped while it started")
            self._processes[name] = ChildProcess(
                f"airflow {name}", [*command, "-m", "airflow", *arguments], self.log_file(name), self.environment
            )
            self._guard = self._guard or SessionGuard()
            self._guard.add(self._processes[name].pid)
            return self._processes[name]

    def log_file(self, component: str) -> Path:
        """Return where a component writes what it says."""
        return self.folder / "logs" / f"{component}.log"

    def _log_end(self, component: str) -> str:
        return "\n".join(self.log_file(component).read_text(errors="replace").splitlines()[-25:])

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + HEALTHY_WITHIN_S
        while not self._healthy():
            for name, process in self._processes.items():
                if name in self._components and not process.alive:
                    raise AirflowFailed(f"airflow {name} ended:\n{self._log_end(name)}")
            if time.monotonic() > deadline:
                ends = "\n".join(f"--- {name}\n{self._log_end(name)}" for name in self._components)
                raise AirflowFailed(f"Airflow did not become healthy within {HEALTHY_WITHIN_S:.0f} s:\n{ends}")
            time.sleep(0.3)

    def _healthy(self) -> bool:
        try:
            health = httpx.get(f"{self.base_url}/api/v2/monitor/health", timeout=30).json()
        except (httpx.HTTPError, ValueError):
            return False
        parts = ["metadatabase", *(name.replace("-", "_") for name in self._components if name != "api-server")]
        return all(health[part]["status"] == "healthy" for part in parts)
