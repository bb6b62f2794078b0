"""Which file each cursor means now, and which files are new. Reads what files begin with, and nothing else.

A log's file keeps its first bytes whatever becomes of it: renamed, moved, compressed, copied. So a cursor's file is
the one that begins like it, wherever it is now; its inode decides only between files that begin alike.
- Files that the globs match are always looked at. Rotated siblings are looked for only when the file of an unfinished
  cursor, or of the newest, is not among them: it was rotated away. Files that were never seen and begun after the
  newest known one are found with it.
- Where two copies of one file exist (just being copied or compressed), the longest uncompressed one counts.
- A file that is found nowhere may be on its way from one name to the next: its cursor is kept for some rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from offsetguard.config import LogSource
from offsetguard.sources.logs.cursor import LogCursor
from offsetguard.sources.logs.log_files import Family, LogFile, family_of, look_at, matching_paths, sha256_of, siblings

_ATTEMPTS = 5  # to list a folder in which nothing is renamed meanwhile


@dataclass(slots=True)
class Placement:
    """What stands where; a cursor in `found` may be None: a file that is read for the first time."""

    found: list[tuple[LogFile, LogCursor | None]] = field(default_factory=list)
    missing: list[LogCursor] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path -> why
    matched: set[str] = field(default_factory=set)  # the paths that the globs match

    def looked_at(self, paths: Iterable[str]) -> list[LogFile]:
        """Look at files; those that cannot be opened are noted."""
        files = []
        for path in paths:
            try:
                files.append(look_at(path))
            except FileNotFoundError:
                continue  # renamed between two steps: it is found under its new name, now or in the next round
            except OSError as error:
                self.unreadable[path] = error.strerror or str(error)
        return files


def place(source: LogSource, cursors: Sequence[LogCursor]) -> Placement:
    """Find the file of every cursor of a source, and the files that have none yet."""
    placement = Placement()
    paths = matching_paths(source.files)
    placement.matched.update(paths)
    files: dict[Family, list[LogFile]] = defaultdict(list)
    for file in placement.looked_at(paths):
        files[file.family].append(file)
    known: dict[Family, list[LogCursor]] = defaultdict(list)
    for cursor in cursors:
        known[family_of(cursor.path)].append(cursor)
    for family in sorted({*files, *known}):
        _place_family(placement, files[family], known[family], family)
    return placement


def _place_family(placement: Placement, files: list[LogFile], cursors: list[LogCursor], family: Family) -> None:
    """Place the cursors of one log and its siblings, oldest file first."""
    owners, missing = _match(files, cursors)
    newest = max((cursor.began or "" for cursor in cursors), default="")
    if any(not cursor.finished or (cursor.began or "") >= newest for cursor in missing):
        others, at_rest = _look_at_siblings(placement, family)
        owners, missing = _match([*files, *others], cursors)
        if at_rest:
            files = [*files, *(file for file in others if file not in owners and _began_after(file, newest))]
        else:  # a new file that is missed now would never be read: those behind it wait for the next round, too
            files = []
        files = [*(file for file in files if file not in owners), *owners]
    taken: list[LogFile] = []
    for file in sorted(files, key=_reading_order):
        cursor = owners.get(file)
        is_a_copy = cursor is None and any(_same_text(file, other) for other in (*owners, *taken))
        if not is_a_copy:
            taken.append(file)
            placement.found.append((file, cursor))
    placement.missing.extend(missing)


def _look_at_siblings(placement: Placement, family: Family) -> tuple[list[LogFile], bool]:
    """Look at all siblings; False when they were being renamed all the time, so that some may have been missed."""
    for _ in range(_ATTEMPTS):
        before = siblings(family)
        files = placement.looked_at(path for path in sorted(before) if path not in placement.matched)
        if siblings(family) == before:
            return files, True
    return files, False


def _match(files: Sequence[LogFile], cursors: Sequence[LogCursor]) -> tuple[dict[LogFile, LogCursor], list[LogCursor]]:
    """Return (file -> its cursor, cursors without a file). Of a file's copies the best one is its file."""
    owners: dict[LogFile, LogCursor] = {}
    missing = []
    # A longer beginning says more: it chooses first.
    for cursor in sorted(cursors, key=lambda cursor: -cursor.head_bytes):
        alike = [
            file for file in files if file not in owners and file.begins_like(cursor.head_bytes, cursor.head_sha256)
        ]
        if alike:
            owners[max(alike, key=lambda file: _likelihood(file, cursor))] = cursor
        else:
            missing.append(cursor)
    return owners, missing


def _likelihood(file: LogFile, cursor: LogCursor) -> tuple[bool, bool, bool, int]:
    """Order files that begin like a cursor: long enough, uncompressed, the same inode, the longest."""
    long_enough = file.compressed or file.size >= cursor.next_position
    return long_enough, not file.compressed, file.inode == cursor.inode, file.size


def _began_after(file: LogFile, newest: str) -> bool:
    return bool(newest) and file.began is not None and file.began >= newest


def _same_text(file: LogFile, other: LogFile) -> bool:
    """One begins with the other: a copy that is just being written, or compressed."""
    length = min(len(file.head), len(other.head))
    return length > 0 and sha256_of(file.head[:length]) == sha256_of(other.head[:length])


def _reading_order(file: LogFile) -> tuple[str, bool, int, str]:
    """Oldest first; of two copies the longest uncompressed one."""
    return file.began or "", file.compressed, -file.size, file.path
