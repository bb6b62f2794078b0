"""Child processes that cannot outlive their parent, and that say what went wrong when they do not start.

Three nets, each for one kind of end: `stop()` for the planned one, `atexit` for an exception nobody caught, and the
kernel's parent-death signal (`setpriv --pdeathsig KILL`) for a parent that was killed. That signal follows the
*thread* that forked, so all children are forked by one thread that lives as long as the interpreter.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_forking_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offsetguard-fork")
_running: set[ChildProcess] = set()
PATIENCE_S = 120.0  # brokers take up to 10 s to end on an idle machine


class PeerNotStarted(Exception):
    """A peer did not become ready; the text ends with the tail of its output."""


class ChildProcess:
    """One process in a session of its own, with its output in a file."""

    def __init__(self, name: str, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        """Start at once. `environment` is added to our own; `output` receives stdout and stderr."""
        self.name = name
        self.output = output
        guard = [setpriv, "--pdeathsig", "KILL"] if (setpriv := shutil.which("setpriv")) else []
        output.parent.mkdir(parents=True, exist_ok=True)
        self._file = output.open("ab")
        self._seen_from = output.stat().st_size
        self._process = _forking_thread.submit(
            subprocess.Popen[bytes],
            [*guard, *command],
            stdin=subprocess.PIPE,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        ).result()
        _running.add(self)

    @property
    def pid(self) -> int:
        """Process id, also the id of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def write_line(self, line: str) -> None:
        """Send one line to the process's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def wait_for(self, text: str, *, timeout_s: float) -> None:
        """Return once `text` is in the output of this start; PeerNotStarted when it ends or is too slow."""
        deadline = time.monotonic() + timeout_s
        while text not in self.printed():
            if not self.alive:
                msg = f"{self.name} ended with code {self._process.returncode} before it printed {text!r}"
                raise PeerNotStarted(self._with_tail(msg))
            if time.monotonic() > deadline:
                msg = f"{self.name} did not print {text!r} within {timeout_s:.0f} s"
                raise PeerNotStarted(self._with_tail(msg))
            time.sleep(0.02)

    def printed(self) -> str:
        """Everything that this process has printed so far."""
        with self.output.open("rb") as file:
            file.seek(self._seen_from)
            return file.read().decode(errors="replace")

    def stop(self, *, hard: bool = False, timeout_s: float = PATIENCE_S) -> None:
        """End the process group: SIGTERM and, when it takes longer than `timeout_s`, SIGKILL; `hard` kills at once."""
        if self.alive and not hard:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                hard = True
        if hard or self.alive:
            self._signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._file.close()
        _running.discard(self)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return  # it ended in the meantime, which is what we want

    def _with_tail(self, message: str, line_count: int = 25) -> str:
        tail = "\n".join(f"  {line}" for line in self.printed().splitlines()[-line_count:])
        return f"{message}. The end of {self.output}:\n{tail}"


def stop_all(processes: Sequence[ChildProcess], *, hard: bool = False, timeout_s: float = PATIENCE_S) -> None:
    """Stop several processes at once: the soft signals go out first, so that their shutdowns run side by side."""
    for each in processes:
        if each.alive and not hard:
            each._signal(signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while not hard and time.monotonic() < deadline and any(each.alive for each in processes):
        time.sleep(0.05)
    for each in processes:
        each.stop(hard=True)


@atexit.register
def _kill_what_is_left() -> None:
    for each in list(_running):
        each.stop(hard=True)
