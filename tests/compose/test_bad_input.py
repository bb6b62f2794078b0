"""Whatever cannot work ends with one line that names the thing, and never with a stack that looks alive."""

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsetguard_peers.docker.engine import DockerFailed, docker
from offsetguard_peers.docker.stack import Stack

pytestmark = [pytest.mark.compose, pytest.mark.slow, pytest.mark.usefixtures("images")]

REPOSITORY = Path(__file__).parents[2]
CONFIG = """\
clusters:
  main:
    name_servers: ["{name_server}"]
teams:
  operators:
    mail: [operators@example.com]
default_team: operators
"""
TOLD = "OFFSETGUARD_SMTP_HOST=mail.example.com\n"


class Folder:
    """What a user has who took the repository's files and edited them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "config").mkdir()
        shutil.copy(REPOSITORY / "docker-compose.yml", path)
        self.write_config(CONFIG.format(name_server="name-server.invalid:9876"))

    def write_config(self, text: str) -> None:
        (self.path / "config" / "offsetguard.yml").write_text(text, encoding="utf-8")

    def write_env(self, text: str) -> None:
        (self.path / ".env").write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@contextmanager
def started(folder: Folder) -> Iterator[tuple[Stack, str]]:
    """Start it as a user does; gives the stack, and the error that Compose ended with."""
    stack = Stack(folder.path, "offsetguard-bad", {})
    try:
        with pytest.raises(DockerFailed) as error:
            stack.compose("up", "--detach", "--no-build")
        yield stack, str(error.value)
    finally:
        stack.down("--volumes")


def last_line_of_init(stack: Stack) -> str:
    """Return what `docker compose logs airflow-init` ends with; nothing else but the database may run."""
    assert stack.running() == {"postgres"}
    return stack.compose("logs", "--no-log-prefix", "airflow-init").strip().splitlines()[-1]


def test_no_env(folder: Folder) -> None:
    with started(folder) as (stack, error):
        line = last_line_of_init(stack)
    assert "airflow-init" in error
    assert line.startswith("error: .env: missing or not edited: ")
    assert "cp .env.example .env" in line


def test_an_env_that_nobody_has_edited(folder: Folder) -> None:
    shutil.copy(REPOSITORY / ".env.example", folder.path / ".env")
    with started(folder) as (stack, _):
        assert last_line_of_init(stack).startswith("error: .env: missing or not edited: ")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [("    mail:", "\tmail:", "offsetguard.yml:6: not YAML"), ("default_team:", "default_taem:", "default_team")],
    ids=["no YAML", "no such field"],
)
def test_a_configuration_that_cannot_be_used(folder: Folder, right: str, wrong: str, said: str) -> None:
    folder.write_env(TOLD)
    folder.write_config(CONFIG.format(name_server="10.0.0.1:9876").replace(right, wrong))
    with started(folder) as (stack, _):
        line = last_line_of_init(stack)
    assert line.startswith("error: /opt/offsetguard/config/offsetguard.yml:")
    assert said in line


def test_a_name_server_that_there_is_not(folder: Folder) -> None:
    folder.write_env(TOLD)
    with started(folder) as (stack, _):
        line = last_line_of_init(stack)
    assert line.startswith(
        "error: offsetguard.yml: clusters.main.name_servers: name-server.invalid:9876 does not answer"
    )
    assert "host.docker.internal" in line


def test_a_port_in_use(folder: Folder) -> None:
    """Docker says it; the parts that would make the rest look alive wait for the one whose port it is."""
    host = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}").stdout.strip()
    with socket.create_server((host, 0)) as name_server, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        folder.write_env(f"{TOLD}OFFSETGUARD_PORT={port}\n")
        folder.write_config(CONFIG.format(name_server=f"{host}:{name_server.getsockname()[1]}"))
        with started(folder) as (stack, error):
            assert stack.running() <= {"postgres", "spark-connect"}
            init = stack.compose("logs", "--no-log-prefix", "airflow-init")[-2_000:]
    assert f"127.0.0.1:{port}" in error or f":{port}: " in error, f"{error}\nairflow-init: {init}"
    assert "address already in use" in error
