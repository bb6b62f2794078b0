"""What our tasks need is imported by the scheduler, from which their processes are forked; and Spark ends with it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import offsetguard_airflow
from offsetguard.config.workspace import Workspace
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.processes import session_members
from offsetguard_peers.waiting import wait_until
from offsetguard_spark.session import warm_server

# Of each library that takes long to import, a file that is mapped into every process that has imported it.
MAPPED = {"grpc": "cygrpc", "pyarrow": "libarrow", "pandas": "pandas/_libs", "duckdb": "_duckdb", "scipy (GX)": "scipy"}
AIRFLOW_WIRING = Path(offsetguard_airflow.__file__).parent
TASK_FILES = [*AIRFLOW_WIRING.glob("operators/*.py"), *AIRFLOW_WIRING.glob("hooks/*.py"), *AIRFLOW_WIRING.glob("*.py")]
IMPORTS_GX = "import sys, offsetguard_spark.jobs; print('great_expectations' in sys.modules)"


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[AirflowStandalone]:
    """Run a scheduler alone: it has no DAGs, and so no tasks."""
    standalone = AirflowStandalone(
        tmp_path / "airflow",
        environment={"OFFSETGUARD_HOME": str(tmp_path / "home")},
        components=("api-server", "scheduler"),
    )
    with standalone:
        yield standalone


@pytest.mark.airflow
@pytest.mark.slow
def test_workers_have_what_tasks_need_before_any_task_and_the_warm_spark_ends_with_the_scheduler(
    scheduler: AirflowStandalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = wait_until(lambda: _worker_of(scheduler), "a worker of LocalExecutor")
    mapped = Path(f"/proc/{worker}/maps").read_text()
    assert [name for name, part in MAPPED.items() if not re.search(part, mapped)] == []

    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    with warm_server(Workspace.from_environment({"OFFSETGUARD_HOME": str(tmp_path / "home")})) as server:
        pass
    scheduler.stop_component("scheduler")
    try:
        assert server.files.running() is None, scheduler.log_file("scheduler").read_text()
    finally:
        server.stop()


def _worker_of(scheduler: AirflowStandalone) -> int | None:
    for process in session_members({scheduler.process_id("scheduler")}):
        if b"airflow worker -- LocalExecutor" in Path(f"/proc/{process}/cmdline").read_bytes():
            return process
    return None


def test_a_job_that_validates_nothing_does_not_import_great_expectations() -> None:
    answer = subprocess.run([sys.executable, "-c", IMPORTS_GX], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


def test_what_is_imported_within_our_tasks_is_imported_by_the_scheduler() -> None:
    """Also so that no task mixes what an upgrade has brought with what its scheduler has imported before."""
    wanted = sorted({name for file in TASK_FILES for name in _imported_within(file)})
    program = (
        "import importlib, sys; from offsetguard_airflow.scheduler_listener import FOR_TASKS\n"
        "for name in FOR_TASKS: importlib.import_module(name)\n"
        f"print([name for name in {wanted!r} if name not in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]", "name these in FOR_TASKS"


def _imported_within(file: Path) -> set[str]:
    """Return our modules that a file's functions import."""
    functions = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in nodes if node.module and node.module.startswith("offsetguard")}
