"""Which snapshots have landed, and who may collect: folders, manifests and a lock, without a look into any table.

A round reads this before it asks its first question, so nothing here imports pyarrow.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from offsetguard.collect.manifest import MANIFEST_FILE_NAME, Manifest
from offsetguard.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from offsetguard.intervals import Interval

_LOCK_FILE_NAME = ".collecting"
_LOCK_POLL_S = 0.1
_TEMPORARY_NAME = re.compile(r"\.\d{8}T\d{6}Z\.[0-9a-f]{32}")


def snapshot_folder(landing_folder: Path, cluster: str, interval: Interval) -> Path:
    """Where the snapshot of a cluster and interval lies, or would lie."""
    return landing_folder / cluster / interval.name


@asynccontextmanager
async def collecting_lock(landing_folder: Path, cluster: str, *, wait_s: float) -> AsyncIterator[None]:
    """Hold the right to collect a cluster; the operating system takes it back from a process that dies.

    Temporary folders that killed rounds left are deleted. Raises SnapshotError when another round runs for longer.
    """
    file = landing_folder / cluster / _LOCK_FILE_NAME
    give_up_at = time.monotonic() + wait_s
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        while not _try_lock(lock.fileno()):
            if time.monotonic() >= give_up_at:
                raise SnapshotError(f"{file}: another round of cluster {cluster} is running; wait for it to end")
            await asyncio.sleep(_LOCK_POLL_S)
        _remove_leftovers(file.parent)
        yield


def landed_after(landing_folder: Path, cluster: str, interval: Interval) -> bool:
    """Whether a newer interval than this one has landed."""
    return any(name > interval.name for name in _landed_names(landing_folder, cluster))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a landed snapshot; raises SnapshotError naming the file."""
    file = folder / MANIFEST_FILE_NAME
    try:
        return Manifest.from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SnapshotError(
            f"{file}: missing; the folder is not a landed snapshot, collect the interval first"
        ) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise SnapshotError(f"{file}: not a manifest of OffsetGuard: {error}") from error


def newest_manifest(landing_folder: Path, cluster: str, before: Interval) -> Manifest | None:
    """Return the manifest of the newest landed snapshot older than an interval: it holds the event cursors.

    Raises SnapshotError when it cannot be read: an older one would count events twice.
    """
    older = [name for name in _landed_names(landing_folder, cluster) if name < before.name]
    return read_manifest(landing_folder / cluster / max(older)) if older else None


def _landed_names(landing_folder: Path, cluster: str) -> list[str]:
    return [file.parent.name for file in (landing_folder / cluster).glob(f"[0-9]*T*Z/{MANIFEST_FILE_NAME}")]


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_leftovers(folder: Path) -> None:
    """Delete what killed rounds left half-written; only under the lock, so nobody writes there now."""
    for path in folder.iterdir():
        if _TEMPORARY_NAME.fullmatch(path.name):
            import shutil  # noqa: PLC0415 there are hardly ever any, and it brings all kinds of archives

            shutil.rmtree(path, ignore_errors=True)
