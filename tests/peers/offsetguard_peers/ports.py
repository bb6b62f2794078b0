"""Free TCP ports, kept apart between test runs of one machine by a locked file per port."""

from __future__ import annotations

import fcntl
import random
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

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
            if lock is not None and _all_free(range(port - 2, port + 2)):
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


def _all_free(ports: Iterable[int]) -> bool:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                return False
    return True
