"""A job ends with the Airflow task that began it, also where that was killed (`kill -9`, no memory) and could not say.

A task that is ended ends its job itself. One that is killed leaves it running, with spark-submit behind a JVM that no
signal reaches: it would publish on beside the next task's job.
"""

import os
import signal
import threading
import time

from offsetguard.config.workspace import TASK_PROCESS_VARIABLE
from offsetguard.store.locks import has_ended

_EVERY_S = 1.0


def end_with_task() -> None:
    """Have this process killed once the task's process is gone; without one (a command line) nothing happens."""
    if task := os.environ.get(TASK_PROCESS_VARIABLE):
        threading.Thread(target=_end_after, args=(task,), name="end with task", daemon=True).start()


def _end_after(task: str) -> None:
    while not has_ended(task):
        time.sleep(_EVERY_S)
    # Killed as its task was: readers, tables and `cycles` bear that at any step (docs/publishing.md).
    os.kill(os.getpid(), signal.SIGKILL)
