"""Stopping everything that descends from a process that we started in a session of its own.

Airflow's tasks move into process groups of their own and rename themselves; the session (`setsid`) they keep.
`SessionGuard` is a process beside ours that does so when we cannot any more: after `kill -9`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path


def members(session_ids: Collection[int]) -> list[int]:
    """Return the ids of all live processes of these sessions. Source: proc(5), /proc/pid/stat fields 3 and 6."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _live_session(entry) in session_ids]


def stop(session_ids: Collection[int], *, patience_s: float) -> None:
    """End them politely, and what is left after `patience_s` for sure; returns when none is left."""
    for signal_number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        for process_id in members(session_ids):
            _send(process_id, signal_number)
        deadline = time.monotonic() + wait_s
        while members(session_ids) and time.monotonic() < deadline:
            time.sleep(0.1)


class SessionGuard:
    """Ends sessions when this process has ended, however; idle until then."""

    def __init__(self) -> None:
        """Start it: it waits for the end of its standard input, which the kernel closes with us."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "offsetguard_peers.sessions"],
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


if __name__ == "__main__":
    stop({int(line) for line in sys.stdin}, patience_s=0)
