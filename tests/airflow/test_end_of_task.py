"""What a Spark job is told of its task: the process with which it ends, and the moment of the time-out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.timeout import timeout

from offsetguard.config.workspace import ENDS_AT_VARIABLE, TASK_PROCESS_VARIABLE
from offsetguard.store.locks import own_process
from offsetguard_airflow.operators.spark_job import SparkJobOperator

WRITES_ITS_ENVIRONMENT = """
import json, os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps(dict(os.environ)))
"""
EXECUTION_TIMEOUT, LEFT = timedelta(minutes=5), timedelta(seconds=200)


class WritingOperator(SparkJobOperator):
    """Starts a job that writes its environment into a file."""

    def __init__(self, *, folder: Path, **kwargs: Any) -> None:
        """`folder`: of the job, and of what it writes."""
        script = folder / "job.py"
        script.write_text(WRITES_ITS_ENVIRONMENT, encoding="utf-8")
        super().__init__(job_file_name=str(script), **kwargs)
        self.written = folder / "environment.json"

    def job_arguments(self) -> list[str]:
        return [str(self.written)]

    def environment_of_job(self) -> dict[str, str]:
        """Run it, and return what it wrote."""
        self.execute({})
        environment: dict[str, str] = json.loads(self.written.read_text(encoding="utf-8"))
        return environment


@pytest.fixture
def operator(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> WritingOperator:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "sc://127.0.0.1:9")  # nobody is asked there
    return WritingOperator(task_id="writes", folder=config_file.parent, execution_timeout=EXECUTION_TIMEOUT)


def test_a_job_knows_when_airflow_ends_it_however_late_it_began(operator: WritingOperator) -> None:
    """Airflow counts from before the operator waited for anything: here 100 s have passed of its five minutes."""
    earliest = datetime.now(UTC) + LEFT
    with timeout(LEFT.total_seconds()):
        latest = datetime.now(UTC) + LEFT
        environment = operator.environment_of_job()
    assert earliest <= datetime.fromisoformat(environment[ENDS_AT_VARIABLE]) <= latest
    assert environment[TASK_PROCESS_VARIABLE] == own_process()


def test_a_job_of_a_task_without_a_time_out_knows_of_none(operator: WritingOperator) -> None:
    assert ENDS_AT_VARIABLE not in operator.environment_of_job()
