"""The warm Spark that belongs to a workspace: it starts with the first publication, serves all others, and ends."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard_peers.lake.readers import Readers
from offsetguard_peers.processes import SessionGuard, run_command
from offsetguard_peers.spark.publish_driver import running_job
from offsetguard_peers.waiting import at_once, wait_until
from offsetguard_spark.connect_server import ConnectServer
from offsetguard_spark.engines import QUICK_COMPILER_OPTIONS
from offsetguard_spark.server_process import Running, ServerFolder, SparkServerFailed, write_running
from offsetguard_spark.session import warm_server

pytestmark = pytest.mark.slow

USE_IT = """\
from offsetguard.config.workspace import Workspace
from offsetguard_spark.session import warm_server
with warm_server(Workspace.from_environment()) as server:
    server.query()
    print(server.process_id(), server.port)
"""
IDLE_S = 1.0
START_IT = f"""\
from offsetguard.config.workspace import Workspace
from offsetguard_spark.session import warm_server
with warm_server(Workspace.from_environment(), idle_s={IDLE_S}):
    pass
"""


@pytest.fixture
def server(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerFolder]:
    """Look at the warm server of the workspace, which no test leaves behind."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", QUICK_COMPILER_OPTIONS)
    folder = ServerFolder(workspace.spark_server_folder)
    yield folder
    folder.stop()


def _publish(workspace: Workspace, interval: Interval, *, killed_at: tuple[str, int] | None = None) -> list[str]:
    """Run the job without any word of where Spark is; kill a process at a step. Returns its lines."""
    environment = {**workspace.variables, "JDK_JAVA_OPTIONS": QUICK_COMPILER_OPTIONS}
    arguments = ["--cluster", "demo", "--interval-start", interval.start.isoformat()]
    lines = []
    with running_job(environment, arguments) as job:
        for line in job.lines():
            lines.append(line)
            if killed_at is not None and line.startswith(f"{killed_at[0]}:"):
                os.kill(killed_at[1], signal.SIGKILL)
        job.process.join()
    return lines


def _is_published(lines: list[str]) -> bool:
    return lines[-1].startswith("{") and json.loads(lines[-1])["verdict"] == "published"


def test_publications_of_a_workspace_share_one_server_and_one_that_is_killed_is_replaced(
    workspace: Workspace, server: ServerFolder, snapshot: Any
) -> None:
    """Killed in the middle: readers see nothing of that minute, and the same one published again is whole."""
    snapshot.topic_queue("orders", 0, 0, 9)
    snapshot.queue("g", "orders", 0, (0, 5, 9))
    readers = Readers(workspace)
    first, second = snapshot.interval, Interval(snapshot.interval.end)
    snapshot.land(workspace)
    assert _is_published(lines := _publish(workspace, first)), lines
    running = server.running()
    assert running is not None
    assert stat.S_IMODE((workspace.spark_server_folder / "pid").stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(workspace.spark_server_folder.stat().st_mode) == 0o700

    snapshot.move_on()
    snapshot.land(workspace)
    lines = _publish(workspace, second, killed_at=("facts", running.process_id))
    assert lines[-1].startswith("error: "), lines
    assert readers.facts(first) is not None
    assert readers.facts(second) is None
    assert server.running() is None, "what it has written in its file counts for nothing"

    assert _is_published(lines := _publish(workspace, second)), lines
    again = server.running()
    assert again is not None
    assert again.process_id != running.process_id
    third = snapshot.move_on()
    snapshot.land(workspace)
    assert _is_published(lines := _publish(workspace, third)), lines
    assert server.running() == again
    assert readers.branch_names() == {"main"}

    ended = run_command("spark-server", "stop", **workspace.variables)
    assert (ended.returncode, ended.stdout) == (0, "stopped\n")
    assert server.running() is None


def test_two_that_need_it_at_once_start_one_and_what_a_dead_one_left_deceives_nobody(
    workspace: Workspace, server: ServerFolder
) -> None:
    """The file names a process that lives and a port on which somebody listens: neither is the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with server.lock() as file:
            write_running(file, Running(os.getpid(), port, socket.gethostname(), IDLE_S))
        assert server.running() is None
        environment = os.environ | workspace.variables
        command = [sys.executable, "-c", USE_IT]
        used = at_once(2, lambda: subprocess.run(command, env=environment, capture_output=True, text=True, check=True))
    running = server.running()
    assert running is not None
    assert {one.stdout for one in used} == {f"{running.process_id} {running.port}\n"}
    assert running.port != port


def test_it_ends_when_nobody_has_used_it_for_a_while_and_not_before(workspace: Workspace, server: ServerFolder) -> None:
    with warm_server(workspace, idle_s=IDLE_S) as used:
        running = server.running()
        for _ in range(3):  # each takes longer than a server that nobody uses would live
            subprocess.run([sys.executable, "-c", USE_IT], env=os.environ | workspace.variables, check=True)
        used.query()
        assert server.running() == running
        assert not server.stop_if_unused(), "the end of Airflow leaves it to who works on it"
    wait_until(lambda: server.running() is None, lambda: f"the end of {server.running()}")


def test_it_ends_as_well_when_who_started_it_was_killed_before_it_came_up(
    workspace: Workspace, server: ServerFolder
) -> None:
    with subprocess.Popen([sys.executable, "-c", START_IT], env=os.environ | workspace.variables) as starter:
        wait_until(lambda: (server.running() or Running()).process_id, "a server that is about to come up")
        starter.kill()
    wait_until(lambda: server.running() is None, lambda: f"the end of {server.running()}")


def test_one_that_hangs_is_replaced(workspace: Workspace, server: ServerFolder) -> None:
    """It takes connections all the same: the kernel does."""
    with warm_server(workspace):
        pass
    running = server.running()
    assert running is not None
    os.kill(running.process_id, signal.SIGSTOP)
    with warm_server(workspace, patience_s=2.0) as used:
        assert used.process_id() != running.process_id


def test_it_ends_with_airflow_unless_somebody_else_started_it(workspace: Workspace, server: ServerFolder) -> None:
    """`before_stopping` of the scheduler asks for it."""
    by_hand = ConnectServer(workspace.spark_server_folder, port=0, memory="1g", master="local[2]")
    guard = SessionGuard()
    guard.add(by_hand.start())
    assert not server.stop_if_unused()
    with warm_server(workspace) as used:
        assert used.process_id() == by_hand.process_id(), "what runs in the folder already is used"
    assert by_hand.stop()
    guard.close()
    with warm_server(workspace):
        pass
    assert server.stop_if_unused()
    assert server.running() is None


def test_a_server_on_another_host_is_neither_used_nor_stopped(workspace: Workspace, server: ServerFolder) -> None:
    """The folder is shared, and its process number means another process here."""
    with server.lock() as file:
        write_running(file, Running(os.getpid(), 20_000, "elsewhere.example.com", IDLE_S))
        refused = pytest.raises(SparkServerFailed, match=r"runs on the host elsewhere.example.com: stop it there, or")
        with refused, warm_server(workspace):
            pass
        with pytest.raises(SparkServerFailed, match=r"it runs on the host elsewhere.example.com .*: stop it there"):
            server.stop()
        assert not server.stop_if_unused()
