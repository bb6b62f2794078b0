"""Airflow reads its settings when it is first imported: they are set here, before any test file imports it."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetguard_peers.airflow.standalone import AirflowStandalone

ROOT = Path(__file__).parents[2]
_HOME = tempfile.TemporaryDirectory(prefix="offsetguard-airflow-")
os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
    }
)


CONFIG = """
clusters:
  main: {name_servers: ["127.0.0.1:9876"]}
  backup: {name_servers: ["127.0.0.1:9877"]}
teams:
  operators: {mail: [operators@example.com]}
default_team: operators
"""


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a configuration of two clusters, and a workspace beside it, to what runs in this process."""
    file = tmp_path / "offsetguard.yml"
    file.write_text(CONFIG)
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(file))
    monkeypatch.setenv("OFFSETGUARD_HOME", str(tmp_path / "home"))
    return file


@pytest.fixture(scope="session")
def workspace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OFFSETGUARD_HOME with Data Docs of one cluster, and things beside them that nobody may see."""
    home = tmp_path_factory.mktemp("offsetguard")
    docs = home / "data_docs" / "demo"
    docs.mkdir(parents=True)
    (docs / "index.html").write_text(
        "<!doctype html><title>docs</title><h1>Data Docs of demo</h1><a href=run.html>run</a>"
    )
    (docs / "run.html").write_text("<!doctype html><h1>one run</h1>")
    (docs / "notes.exe").write_text("not a kind of file that Data Docs have")
    (home / "secret.html").write_text(SECRET)
    (home / "data_docs" / "link.html").symlink_to(home / "secret.html")
    return home


SECRET = "nobody may see this"
VISITOR = "visitor"  # may look at everything and start nothing
ROLES = {AirflowStandalone.username: "admin", VISITOR: "viewer", "user": "user", "op": "op"}


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, workspace_folder: Path) -> Iterator[AirflowStandalone]:
    """Run Airflow's API server with our pages, for people of ROLES; the login is the administrator's."""
    standalone = AirflowStandalone(
        tmp_path_factory.mktemp("airflow"),
        components=("api-server",),
        prepared_by=[["dags", "reserialize"]],  # what a DAG processor would do: runs can be made, and none is started
        environment={
            "OFFSETGUARD_HOME": str(workspace_folder),
            "OFFSETGUARD_DATABASE_URL": f"sqlite:///{workspace_folder / 'offsetguard.db'}",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in ROLES.items()),
        },
    )
    with standalone:
        yield standalone


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[None]:
    """Remove Airflow's folder afterwards."""
    yield
    _HOME.cleanup()
