"""The process of a warm Spark server by its folder: whether one runs, where it listens, who uses it, and its end.

In the folder, which only its owner may read:

pid      process, port and host as JSON. The server holds a lock on this file for as long as it lives: what one that was
         killed has written counts for nothing, whatever has its number or its port by now
in-use   whoever works on a server that ends by itself holds a shared lock on it, and nobody ends it meanwhile

`python -m offsetguard_spark.server_process FOLDER` watches a server that belongs to nobody else and ends it once it was
idle. That process stays beside the server for its life, so nothing of Spark is imported here.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from offsetguard.model.errors import OffsetGuardError

STOP_PATIENCE_S = 30.0
STARTING_PATIENCE_S = 300.0
_POLL_S = 5.0


class SparkServerFailed(OffsetGuardError):
    """The server could not be started or stopped; the text says why and where its log is."""


class ServerRuns(SparkServerFailed):
    """One runs already in the folder."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that lives; `process_id` is 0 while somebody is about to start it."""

    process_id: int = 0
    port: int = 0
    host: str = ""
    idle_s: float | None = None  # unused for so long it ends by itself; None: whoever started it ends it

    @property
    def is_elsewhere(self) -> bool:
        """Whether it runs on another host, or in another container: the folder is shared."""
        return bool(self.host) and self.host != socket.gethostname()

    def listens(self) -> bool:
        """Whether its port takes connections; it must run here."""
        with socket.socket() as probe:
            return bool(self.port) and probe.connect_ex(("127.0.0.1", self.port)) == 0


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """The folder of one server."""

    path: Path

    def make(self) -> None:
        """Create it, for its owner alone."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def running(self) -> Running | None:
        """Return the server that lives; None when there is none."""
        try:
            with (self.path / "pid").open(encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return Running(**json.loads(file.read() or "{}"))
        except FileNotFoundError:
            pass
        return None

    def lock(self) -> IO[str]:
        """Take the lock that the server will inherit: close the file to give it back. Raises ServerRuns."""
        self.make()
        file = (self.path / "pid").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            running = self.running() or Running()
            raise ServerRuns(f"a server runs already (process {running.process_id}); stop it first") from None
        file.truncate(0)  # else another process would take what a dead one wrote for ours
        return file

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Let no server end by itself during the block."""
        self.make()
        with (self.path / "in-use").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            os.utime(file.fileno())
            yield

    def stop(self, *, patience_s: float = STOP_PATIENCE_S) -> bool:
        """End it, politely first; returns False when none ran. Raises SparkServerFailed."""
        running = self.running()
        if running is None or not running.process_id:
            return False
        if running.is_elsewhere:
            raise SparkServerFailed(f"it runs on the host {running.host} (process {running.process_id}): stop it there")
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.process_id, signal_number)
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                if self.running() is None:
                    return True
                time.sleep(0.1)
        raise SparkServerFailed(f"process {running.process_id} does not end; its log is in {self.path}")

    def stop_if_unused(self) -> bool:
        """End a server that would end by itself, unless somebody works on it; returns whether it did."""
        running = self.running()
        if running is None or running.idle_s is None or running.is_elsewhere:
            return False
        with self._unless_used() as is_free:
            return is_free and self.stop()

    def end_when_idle(self) -> None:
        """Return when the server has ended, which this sees to once nobody has used it for its `idle_s`."""
        used_at, touched = time.monotonic(), 0
        while (running := self.running()) is not None:
            if running.process_id and running.idle_s is None:
                return  # another one by now, which somebody started by hand
            idle_s = running.idle_s or STARTING_PATIENCE_S
            with self._unless_used() as is_free:
                before, touched = touched, (self.path / "in-use").stat().st_mtime_ns
                if not is_free or touched != before:
                    used_at = time.monotonic()
                elif time.monotonic() - used_at >= idle_s:
                    self.stop()
                    return
            time.sleep(min(idle_s / 4, _POLL_S))

    @contextlib.contextmanager
    def _unless_used(self) -> Iterator[bool]:
        """Yield whether nobody uses the server; who wants to, waits for the end of the block then."""
        with (self.path / "in-use").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def write_running(file: IO[str], running: Running) -> None:
    """Say what runs in the file that `lock` gave."""
    file.truncate(0)
    file.write(json.dumps(asdict(running)))
    file.flush()


if __name__ == "__main__":
    ServerFolder(Path(sys.argv[1])).end_when_idle()
