"""One writer per warehouse: a file lock, which the system releases when its process ends, however it ends.

Iceberg would notice two publishers (the second fast-forward fails, as main is no ancestor of its branch any more), but
the second would have worked in vain. The lock holds on one host; on several, give each its own warehouse.
"""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetguard.workspace import Workspace


@contextmanager
def only_publisher(workspace: Workspace, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock; calls `on_wait` once when another process has it."""
    workspace.home.mkdir(parents=True, exist_ok=True)
    with (workspace.home / "publish.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
