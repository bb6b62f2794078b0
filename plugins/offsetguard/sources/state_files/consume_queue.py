"""Min and max offset of a queue from its consume queue: the broker's index of messages, one unit for each.

`consumequeue/<topic>/<queue id>/<first byte position, 20 digits>`; a unit is int64 position in the commit log | int32
size | int64 tags code. Files are made in full length beforehand and filled from the start, so the end is the first
unit without a size. Units whose messages have been deleted from the commit log are below the min offset.
Source: ConsumeQueue (CQ_STORE_UNIT_SIZE 20, recover, correctMinOffset), 4.9.8 and 5.3.3. Not here: batch consume queues
(5.x `queue.type=BatchCQ`) and consume queues in RocksDB; they stay unknown.
"""

import re
import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

UNIT_BYTES = 20
_UNIT = struct.Struct(">qiq")
_FILE_NAME = re.compile(r"\d{20}")
_QUEUE_ID = re.compile(r"0|[1-9]\d{0,9}")


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """What a queue's files say: offsets, and when the newest of them was written."""

    queue_id: int
    min_offset: int
    max_offset: int
    written_at: datetime


def read_topic(store: Path, topic: str) -> list[QueueEnd]:
    """Return the queues of a topic that have files.

    Raises OSError, and ValueError where files are not what they should be, or the commit log is not in the store.
    """
    if "/" in topic or "\0" in topic or topic in ("", ".", ".."):
        return []
    if (store / "consumequeue" / "CURRENT").exists():
        raise ValueError(f"{store / 'consumequeue'}: is RocksDB; min and max offsets of this broker stay unknown")
    folder = store / "consumequeue" / topic
    commit_log_min = _commit_log_min(store)
    if not folder.is_dir():
        return []
    ends = (
        _read_queue(path, int(path.name), commit_log_min)
        for path in sorted(folder.iterdir())
        if path.is_dir() and _QUEUE_ID.fullmatch(path.name)
    )
    return [end for end in ends if end is not None]


def _read_queue(folder: Path, queue_id: int, commit_log_min: int) -> QueueEnd | None:
    files = sorted(path for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name))
    if not files:
        return None
    for file in files:
        if not file.is_file() or int(file.name) % UNIT_BYTES or file.stat().st_size % UNIT_BYTES:
            raise ValueError(f"{file}: is no file of a consume queue: its position or size is no multiple of 20")
    max_offset = _max_offset(files)
    written = max(file.stat().st_mtime for file in files)
    return QueueEnd(
        queue_id=queue_id,
        min_offset=min(_min_offset(files, commit_log_min, max_offset), max_offset),
        max_offset=max_offset,
        written_at=datetime.fromtimestamp(max(written, 0), UTC),
    )


def _max_offset(files: list[Path]) -> int:
    """Return the number of the first unit that is not filled, looking from the newest file backwards."""
    for file in reversed(files):
        filled = _first_unit(file, lambda position, size: not (position >= 0 and size > 0))
        if filled > 0:
            return int(file.name) // UNIT_BYTES + filled
    return int(files[0].name) // UNIT_BYTES


def _min_offset(files: list[Path], commit_log_min: int, max_offset: int) -> int:
    """Return the number of the first unit whose message the commit log still holds; the end when it holds none."""
    for file in files:
        units = file.stat().st_size // UNIT_BYTES
        kept = _first_unit(file, lambda position, size: position >= commit_log_min or size <= 0)
        if kept < units:
            return int(file.name) // UNIT_BYTES + kept
    return max_offset


def _first_unit(file: Path, is_wanted: Callable[[int, int], bool]) -> int:
    """Return the number of the file's first unit that is wanted, or of all its units; units of one kind come first."""
    with file.open("rb") as opened:

        def is_found(number: int) -> bool:
            opened.seek(number * UNIT_BYTES)
            unit = opened.read(UNIT_BYTES)
            return len(unit) < UNIT_BYTES or is_wanted(*_UNIT.unpack(unit)[:2])

        return bisect_left(range(file.stat().st_size // UNIT_BYTES), True, key=is_found)


def _commit_log_min(store: Path) -> int:
    """Return the first byte that the commit log still holds."""
    folder = store / "commitlog"
    names = [path.name for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name)] if folder.is_dir() else []
    if not names:
        raise ValueError(f"{folder}: holds no file of a commit log, so the oldest message of a queue cannot be told")
    return int(min(names))
