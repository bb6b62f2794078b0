"""A job that is a client of a Spark Connect server lives and ends with its task."""

import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException

from offsetguard_airflow.operators.spark_job import JobProcess

LOG = logging.getLogger("task")
SAYS_AND_FAILS = """
import os, sys
print("begun with", sys.argv[1:], os.environ["SPARK_REMOTE"])
print("error: no such interval", file=sys.stderr)
sys.exit(1)
"""
TIDIES_UP = """
import atexit, pathlib, sys, time
atexit.register(lambda: pathlib.Path(sys.argv[1]).write_text("tidied up"))
print("waiting")
while True:  # a signal just before one long sleep would be noticed only after it
    time.sleep(0.1)
"""


def _script(folder: Path, text: str) -> Path:
    script = folder / "job.py"
    script.write_text(text, encoding="utf-8")
    return script


def test_its_lines_are_logged_and_its_failure_is_the_task_s(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "task")
    job = JobProcess(_script(tmp_path, SAYS_AND_FAILS), ["--cluster", "a b"], {"SPARK_REMOTE": "sc://localhost"})
    with pytest.raises(AirflowException, match=r"(?s)job.py ended with code 1; it said last:.*error: no such interval"):
        job.follow(LOG)
    assert "begun with ['--cluster', 'a b'] sc://localhost" in caplog.messages


def test_a_job_that_succeeds_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its lines end before it does: what it still does at its end is not cut off."""
    caplog.set_level(logging.INFO, "task")
    done = tmp_path / "done"
    slow_end = (
        f"import os, time; print('ok', flush=True); os.close(1); os.close(2); time.sleep(0.5); open({str(done)!r}, 'w')"
    )
    JobProcess(_script(tmp_path, slow_end), [], {}).follow(LOG)
    assert caplog.messages == ["ok"]
    assert done.exists()


@pytest.fixture(params=["as it is", "ignored, as by a daemon that a shell started in its background"])
def _interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    if request.param != "as it is":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_a_killed_task_takes_its_job_along_and_lets_it_tidy_up(tmp_path: Path) -> None:
    """The session on the server is released then, and with it what runs there."""
    marker = tmp_path / "marker"
    job = JobProcess(_script(tmp_path, TIDIES_UP), [str(marker)], {})
    waiting = _Waiting()
    killer = threading.Thread(target=lambda: (waiting.seen.wait(), job.kill()))
    killer.start()
    with pytest.raises(AirflowException, match="ended with code"):
        job.follow(waiting)
    killer.join()
    assert marker.read_text(encoding="utf-8") == "tidied up"
    job.kill()  # once more: there is nothing left to end


class _Waiting(logging.Logger):
    """A log that says when the job's first line is there."""

    def __init__(self) -> None:
        super().__init__("waiting")
        self.seen = threading.Event()

    def info(self, msg: object, *args: object, **kwargs: object) -> None:  # type: ignore[override]
        self.seen.set()
