"""Processes that cannot outlive their parent, and free ports for them.

`ChildProcess` says what went wrong when it does not start. Three nets, each for one kind of end: `stop()` for the
planned one, `atexit` for an exception nobody caught, and the kernel's parent-death signal (`setpriv --pdeathsig KILL`)
for a parent that was killed. That signal follows the *thread* that forked, so all children are forked by one thread
that lives as long as the interpreter.

Airflow's tasks move into process groups of their own and rename themselves; the session (`setsid`) they keep:
`stop_sessions` ends all of it, and `SessionGuard`, a process beside ours, does so after a `kill -9`.

`ReservedPort` keeps ports apart between test runs of one machine by a locked file per port.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

_forking_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offsetguard-fork")
_running: set[ChildProcess] = set()
PATIENCE_S = 120.0  # brokers take up to 10 s to end on an idle machine


COMMAND = (sys.executable, "-m", "offsetguard.cli.main")


def run_command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `offsetguard ...` to its end, whatever its exit code. `environment` is added to our own."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


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

    def _with_tail(self, message: str) -> str:
        tail = "\n".join(f"  {line}" for line in self.printed().splitlines()[-25:])
        return f"{message}. The end of {self.output}:\n{tail}"


@atexit.register
def _kill_what_is_left() -> None:
    for each in list(_running):
        each.stop(hard=True)


def session_members(session_ids: Collection[int]) -> list[int]:
    """Return the ids of all live processes of these sessions. Source: proc(5), /proc/pid/stat fields 3 and 6."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _live_session(entry) in session_ids]


def stop_sessions(session_ids: Collection[int], *, patience_s: float) -> None:
    """End them politely, and what is left after `patience_s` for sure; returns when none is left."""
    for signal_number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        for process_id in session_members(session_ids):
            _send(process_id, signal_number)
        deadline = time.monotonic() + wait_s
        while session_members(session_ids) and time.monotonic() < deadline:
            time.sleep(0.1)


class SessionGuard:
    """Ends sessions when this process has ended, however; idle until then."""

    def __init__(self) -> None:
        """Start it: it waits for the end of its standard input, which the kernel closes with us."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "offsetguard_peers.processes"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def add(self, session_id: int) -> None:
        """Have it watch one more session."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{session_id}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it, and what is left of its sessions."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _live_session(process: Path) -> int | None:
    try:
        state, _parent, _group, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):  # it ended meanwhile
        return None
    return None if state == "Z" else int(session)  # a zombie has ended; its parent has not looked yet


def _send(process_id: int, signal_number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(process_id, signal_number)


# Below Linux's range of ephemeral ports (32768 and up): nobody's outgoing connection sits there.
LOWEST, HIGHEST = 20_000, 32_000
SPACING = 10


class ReservedPort:
    """A port whose neighbours -2 to +1 are free as well: a broker listens on three ports (VIP, own, HA)."""

    def __init__(self, fixed: int | None = None) -> None:
        """Find one, or take the `fixed` one; RuntimeError when it, or the whole range, is taken."""
        candidates = [fixed] if fixed is not None else list(range(LOWEST, HIGHEST, SPACING))
        random.shuffle(candidates)
        folder = Path(tempfile.gettempdir()) / "offsetguard-ports"
        folder.mkdir(exist_ok=True)
        for port in candidates:
            lock = _lock(folder / str(port))
            if lock is not None and all_free(range(port - 2, port + 2)):
                self.port = port
                self._lock = lock
                return
        msg = f"port {fixed} is taken" if fixed is not None else f"no free port between {LOWEST} and {HIGHEST}"
        raise RuntimeError(msg)

    def release(self) -> None:
        """Let others have it."""
        self._lock.close()


def _lock(path: Path) -> IO[str] | None:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def all_free(ports: Iterable[int]) -> bool:
    """Whether nothing listens on any of these ports of this machine."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                return False
    return True


if __name__ == "__main__":
    stop_sessions({int(line) for line in sys.stdin}, patience_s=0)
