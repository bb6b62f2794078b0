"""Landed snapshots in an object store: `<cluster>/<interval>/<attempt>/<file>`, and which attempt of each has landed.

Nothing can be renamed there, so each attempt writes objects of its own, and the last thing that it does is to name
itself in `<cluster>/landed.json`: that is when the snapshot appears. Whoever looks for the newest one asks for this
object, and lists nothing. It is changed only as it was read: of two who write at once one tries again.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from offsetguard.config import object_store
from offsetguard.model.errors import SnapshotError

INDEX_FILE_NAME = "landed.json"
_AT_ONCE = 8
_ATTEMPTS = 5


def landed(cluster_folder: Path) -> dict[str, str]:
    """Return what has landed of a cluster: by the interval's name the attempt's; raises SnapshotError, OSError."""
    return _index(cluster_folder)[0]


def land_objects(folder: Path, files: Mapping[str, Callable[[], bytes]]) -> Path:
    """Write the files of a snapshot and let it appear; returns the folder of the attempt that has landed.

    `folder`: of cluster and interval. One that has landed meanwhile stays. Raises OSError, SnapshotError.
    """
    attempt = uuid.uuid4().hex
    with ThreadPoolExecutor(_AT_ONCE, "land") as pool:
        writing = [pool.submit(_write, folder / attempt / name, content) for name, content in files.items()]
        for one in writing:
            one.result()
    return folder / _change(folder.parent, lambda index: {folder.name: attempt} | index)[folder.name]


def _write(file: Path, content: Callable[[], bytes]) -> None:
    object_store.write_bytes(file, content())


def forget_landed(cluster_folder: Path, older_than: str, kept: int) -> int:
    """Delete the snapshots of intervals whose names sort before a moment's, but for the newest; returns how many went.

    What killed attempts left behind goes with the snapshots of their time.
    """
    names = sorted(landed(cluster_folder))
    gone = {name for name in names[:-kept] if name < older_than}
    if gone:
        _change(cluster_folder, lambda index: {name: one for name, one in index.items() if name not in gone})
    stays = set(names) - gone
    written = {one.name for one in cluster_folder.iterdir()} - {INDEX_FILE_NAME}
    for name in sorted(one for one in written if one < older_than and one not in stays):
        object_store.delete(cluster_folder / name)
    return len(gone)


def _index(cluster_folder: Path) -> tuple[dict[str, str], str | None]:
    """Return it with its tag; empty and None: nothing has ever landed."""
    file = cluster_folder / INDEX_FILE_NAME
    try:
        content, tag = object_store.read_tagged(file)
    except FileNotFoundError:
        return {}, None
    try:
        return {str(name): str(attempt) for name, attempt in json.loads(content).items()}, tag
    except (ValueError, AttributeError) as error:
        raise SnapshotError(
            f"{file}: is not what OffsetGuard writes: {error}; delete it, and what has landed so far is not published"
        ) from error


def _change(cluster_folder: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
    """Change the index as it was read; returns what it is now."""
    file = cluster_folder / INDEX_FILE_NAME
    for _ in range(_ATTEMPTS):
        before, tag = _index(cluster_folder)
        after = change(before)
        if after == before or object_store.replace_tagged(file, json.dumps(after, sort_keys=True).encode(), tag):
            return after
    raise SnapshotError(f"{file}: others change it all the time; run it again")
