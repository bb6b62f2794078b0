"""A job on Spark Connect runs in the process of its task: what it says, when it ends, and that it ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowTaskTerminated
from airflow.sdk.execution_time.timeout import timeout

from offsetguard.config.workspace import ENDS_AT_VARIABLE, TASK_PROCESS_VARIABLE
from offsetguard_airflow.operators.spark_job import SparkJobOperator
from offsetguard_spark import jobs

EXECUTION_TIMEOUT, LEFT = timedelta(minutes=5), timedelta(seconds=200)
Say = Callable[[str], None]
TIMES_OUT = """\
import sys, threading
from airflow.sdk.execution_time.timeout import timeout
from offsetguard_airflow.operators import spark_job
from offsetguard_spark import jobs

def waits(arguments, say):
    threading.Event().wait()

def waits_whatever_comes(arguments, say):
    while True:
        try:
            waits(arguments, say)
        except BaseException as error:
            print(type(error).__name__, flush=True)

class Operator(spark_job.SparkJobOperator):
    def job_arguments(self):
        return []

jobs.JOBS["waits"] = locals()[sys.argv[1]]
spark_job.PATIENCE_S = 0.5
operator = Operator(task_id="a_task", job_name="waits")
try:
    with timeout(1):
        operator.execute({})
except BaseException as error:
    operator.on_kill()  # as Airflow does
    print("ended by", type(error).__name__, flush=True)
    if sys.argv[2] == "hangs":
        threading.Event().wait()
"""


class Operator(SparkJobOperator):
    """Runs a job of a test."""

    def job_arguments(self) -> list[str]:
        return ["--cluster", "a b"]


@pytest.fixture
def operator_of(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Sequence[str], Say], int]], Operator]:
    """Give the operator of a job; Spark Connect is where nobody listens."""
    del config_file
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "sc://:secret@127.0.0.1:9")

    def made(job: Callable[[Sequence[str], Say], int]) -> Operator:
        monkeypatch.setitem(jobs.JOBS, "a_job", job)
        return Operator(task_id="a_task", job_name="a_job", execution_timeout=EXECUTION_TIMEOUT)

    return made


def test_its_lines_are_logged_and_its_failure_is_the_task_s(
    operator_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)

    def job(arguments: Sequence[str], say: Say) -> int:
        say(f"begun with {arguments} {os.environ['SPARK_REMOTE']}")
        say("error: no such interval")
        return 1

    with pytest.raises(AirflowException, match=r"(?s)a_job ended with code 1; it said last:.*error: no such interval"):
        operator_of(job).execute({})
    assert "begun with ['--cluster', 'a b'] sc://127.0.0.1:9/" in capsys.readouterr().out
    assert dict(os.environ) == before, "the token among them"


def test_it_knows_when_airflow_ends_it_however_late_it_began(operator_of: Any) -> None:
    """Airflow counts from before the operator waited for anything: here 100 s have passed of its five minutes."""
    seen: dict[str, str] = {}

    def job(_arguments: Sequence[str], _say: Say) -> int:
        seen.update(os.environ)
        return 0

    earliest = datetime.now(UTC) + LEFT
    with timeout(int(LEFT.total_seconds())):
        latest = datetime.now(UTC) + LEFT
        operator_of(job).execute({})
    assert earliest <= datetime.fromisoformat(seen.pop(ENDS_AT_VARIABLE)) <= latest
    assert TASK_PROCESS_VARIABLE not in seen, "it is in that process"
    operator_of(job).execute({})
    assert ENDS_AT_VARIABLE not in seen, "a task without a time-out"


def test_a_task_that_is_killed_takes_its_job_along_and_lets_it_tidy_up(operator_of: Any) -> None:
    """Airflow calls `on_kill` in the handler of SIGTERM; the session on the server is released then."""
    begun, tidied_up = threading.Event(), []

    def job(_arguments: Sequence[str], _say: Say) -> int:
        try:
            begun.set()
            while True:  # a lock that is waited for without an end does not see a signal that came just before
                time.sleep(0.05)
        finally:
            tidied_up.append(True)
        return 0

    operator = operator_of(job)
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    killer = threading.Thread(target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGTERM)))
    killer.start()
    try:
        with pytest.raises(AirflowTaskTerminated, match="its task was killed"):
            operator.execute({})
    finally:
        killer.join()
        signal.signal(signal.SIGTERM, before)
    assert tidied_up
    operator.on_kill()  # once more: there is nothing left to end


@pytest.mark.parametrize(
    ("job", "at_exit", "code"),
    [("waits", "", 0), ("waits", "hangs", -signal.SIGKILL), ("waits_whatever_comes", "", -signal.SIGKILL)],
)
def test_the_time_out_of_a_task_ends_its_job_and_kills_it_where_that_does_not_help(
    config_file: Path, job: str, at_exit: str, code: int
) -> None:
    """Threads of the gate wait for a Spark that hangs, as PySpark does at the end: nothing interrupts them."""
    del config_file
    environment = os.environ | {"AIRFLOW_CONN_SPARK_DEFAULT": "sc://127.0.0.1:9"}
    command = [sys.executable, "-c", TIMES_OUT, job, at_exit]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert "AirflowTaskTimeout" in ended.stdout
    assert ("did not end within" in ended.stdout + ended.stderr) == (code != 0)
