"""A job as a plain Python process: its lines go to the task's log, and it ends with the task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow.sdk.types import Logger

PATIENCE_S = 10.0  # Airflow gives a task that it kills a minute (`core.killed_task_cleanup_time`)
_LAST_LINES = 5

# A daemon that was started in the background of a shell ignores SIGINT, and so would all that it starts.
_RUN_INTERRUPTIBLY = (
    "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


class JobProcess:
    """One job script, in a process group of its own."""

    def __init__(self, script: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it at once; `environment` is added to our own."""
        self._name = script.name
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _RUN_INTERRUPTIBLY, str(script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
            text=True,
            errors="replace",
        )

    def follow(self, log: Logger) -> None:
        """Log every line until the job ends; AirflowException with its last lines when it failed."""
        last: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            for line in self._process.stdout or ():
                log.info("%s", line.rstrip())
                last.append(line.rstrip())
            self._process.wait()
        except BaseException:
            self.kill()
            raise
        if self._process.returncode:
            said = "\n".join(last)
            raise AirflowException(f"{self._name} ended with code {self._process.returncode}; it said last:\n{said}")

    def kill(self) -> None:
        """End it: interrupted, it takes its work on the server back; after ten seconds for sure."""
        for signal_number in (signal.SIGINT, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            try:
                os.killpg(self._process.pid, signal_number)
                self._process.wait(PATIENCE_S)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue
