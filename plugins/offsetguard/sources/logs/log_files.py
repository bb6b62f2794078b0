"""Log files on a disk: which ones a source names, how far each was read, and which file a cursor means now.

RocketMQ's logback renames a full log, compresses it into `otherdays/<name>.<n>.log.gz` (clients: `other_days/
<name>-<n>.log.gz`) and moves the older ones up by one; meanwhile the file is called `<name>.log<number>.tmp`.
logrotate makes `<name>.log.1`, `.2.gz`, `-20261121`, or copies and truncates.

A log's file keeps its first bytes whatever becomes of it: renamed, moved, compressed, copied. So a cursor's file is
the one that begins like it, wherever it is now; its inode decides only between files that begin alike.
- Files that the globs match are always looked at. Rotated siblings are looked for only when the file of an unfinished
  cursor, or of the newest, is not among them: it was rotated away. Files that were never seen and begun after the
  newest known one are found with it.
- Where two copies of one file exist (just being copied or compressed), the longest uncompressed one counts.
- A file that is found nowhere may be on its way from one name to the next: its cursor is kept for some rounds.
Read here is what files begin with, and nothing else.
"""

import glob
import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import NonNegativeInt

from offsetguard.config import LogSource
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.records import STARTS_RECORD


class RecordedLogs(LogSource):
    """Logs as they were at a moment of a recording: no file has more bytes than it had then."""

    ends: dict[str, int]  # by path; all that `files` match


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """How far one log file was read; a rotated, copied or compressed file keeps its cursor under its new name.

    A file is known by its first bytes; the inode only helps where two files begin alike.
    """

    source: str  # name of the log source
    file: str  # `log_events.file`: identity of the file, the same after its rotation
    path: str  # where it was last seen
    next_position: NonNegativeInt  # first byte not read yet, in the uncompressed file; always the start of a line
    note: str | None = None  # e.g. truncated: read again from its start
    head_bytes: NonNegativeInt = 0  # how many first bytes `head_sha256` covers: what was read, 4 KiB at most
    head_sha256: str = ""
    inode: NonNegativeInt | None = None
    seen_bytes: NonNegativeInt = 0  # length of the file, uncompressed, when it was last read; 0 = not known
    began: str | None = None  # the time stamp that the file begins with, as it stands there
    finished: bool = False  # rotated away, or compressed, and read to its end
    missing_rounds: NonNegativeInt = 0  # rounds in which it was found nowhere


HEAD_BYTES = 4096
_MAX_STEM = 100
_ARCHIVE_FOLDERS = ("otherdays", "other_days")
_ROTATED_NAME = re.compile(r"(?P<stem>.+?)(?:\.log)?(?:[-._]?[0-9][0-9_.T:-]*)?(?:\.log)?(?:\.tmp)?(?:\.gz)?")

Family = tuple[str, str]  # (folder without `otherdays`, stem of the name): a log and its rotated siblings


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file as it was when it was looked at."""

    path: str
    inode: int
    size: int  # on the disk
    compressed: bool
    head: bytes  # the first HEAD_BYTES of the uncompressed text
    end: int | None = None  # what is behind this byte counts as not written yet

    @property
    def family(self) -> Family:
        """The log that it belongs to."""
        return family_of(self.path)

    @property
    def first_line(self) -> bytes | None:
        """The first line (HEAD_BYTES of it at most); None while it is not complete."""
        end = self.head.find(b"\n")
        if end >= 0:
            return self.head[:end]
        return self.head if len(self.head) == HEAD_BYTES else None

    @property
    def began(self) -> str | None:
        """The time stamp that it begins with; None when there is none."""
        match = STARTS_RECORD.match(self.head)
        return (match[1] or match[0])[:19].decode().replace("T", " ") if match else None

    def begins_like(self, length: int, sha256: str) -> bool:
        """Whether its first bytes are those of a cursor."""
        return len(self.head) >= length and sha256_of(self.head[:length]) == sha256


def identity_of(family: Family, first_line: bytes) -> str:
    """Name a file by what never changes, wherever it is rotated to: its log and its first line, with its beginning."""
    return f"{family[1][:_MAX_STEM]}-{sha256_of(first_line)[:16]}"


def sha256_of(data: bytes) -> str:
    """Return the hash in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def family_of(path: str) -> Family:
    """Return the log that a path belongs to, whatever its rotation called it."""
    folder = Path(path).parent
    if folder.name in _ARCHIVE_FOLDERS:
        folder = folder.parent
    name = Path(path).name
    match = _ROTATED_NAME.fullmatch(name)
    return str(folder), match["stem"] if match else name


def matching_paths(patterns: Sequence[str]) -> list[str]:
    """Return the regular files that globs match, each once, in order."""
    # Path.glob takes no absolute patterns.
    found = {path for pattern in patterns for path in glob.iglob(pattern, recursive=True)}  # noqa: PTH207
    return sorted(path for path in found if _may_be_a_file(path))


def _may_be_a_file(path: str) -> bool:
    """Leave out folders and pipes; what may not be looked at stays in, so that opening it tells why."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except PermissionError:
        return True
    except OSError:  # a link to nothing; renamed just now
        return False


def siblings(family: Family) -> dict[str, int]:
    """Return path -> inode of the files that a log's rotation may have made of it, the log itself included."""
    found: dict[str, int] = {}
    home = Path(family[0])
    for folder in (home, *(home / name for name in _ARCHIVE_FOLDERS)):  # in the direction in which files are moved
        try:
            with os.scandir(folder) as entries:
                found |= {
                    entry.path: entry.inode()
                    for entry in entries
                    if family_of(entry.path) == family and entry.is_file()
                }
        except OSError:  # most logs have one archive folder at most; a matched file that is gone is reported elsewhere
            continue
    return found


def log_file_at(path: str, end: int | None = None) -> LogFile:
    """Open a file and read what it begins with; raises OSError."""
    with LogStream(path, end=end) as stream:
        return log_file_of(stream)


def log_file_of(stream: LogStream) -> LogFile:
    """Read what a stream that was just opened begins with; raises OSError."""
    return LogFile(stream.path, stream.inode, stream.size, stream.compressed, stream.head(HEAD_BYTES), stream.end)


_ATTEMPTS = 5  # to list a folder in which nothing is renamed meanwhile


@dataclass(slots=True)
class Placement:
    """What stands where; a cursor in `found` may be None: a file that is read for the first time."""

    found: list[tuple[LogFile, LogCursor | None]] = field(default_factory=list)
    missing: list[LogCursor] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path -> why
    matched: set[str] = field(default_factory=set)  # the paths that the globs match
    ends: Mapping[str, int] = field(default_factory=dict)  # by path, where files count as ended

    def opened(self, paths: Iterable[str]) -> list[LogFile]:
        """Open files; those that cannot be opened are noted."""
        files = []
        for path in paths:
            try:
                files.append(log_file_at(path, self.ends.get(path)))
            except FileNotFoundError:
                continue  # renamed between two steps: it is found under its new name, now or in the next round
            except OSError as error:
                self.unreadable[path] = error.strerror or str(error)
        return files


def place(source: LogSource, cursors: Sequence[LogCursor]) -> Placement:
    """Find the file of every cursor of a source, and the files that have none yet."""
    placement = Placement(ends=source.ends if isinstance(source, RecordedLogs) else {})
    paths = matching_paths(source.files)
    placement.matched.update(paths)
    files: dict[Family, list[LogFile]] = defaultdict(list)
    for file in placement.opened(paths):
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
        others, at_rest = _open_siblings(placement, family)
        owners, missing = _match([*files, *others], cursors)
        if at_rest:
            new = (file for file in others if file not in owners)
            files = [*files, *(file for file in new if newest and (file.began or "") >= newest)]
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


def _open_siblings(placement: Placement, family: Family) -> tuple[list[LogFile], bool]:
    """Open all siblings; False when they were being renamed all the time, so that some may have been missed."""
    for _ in range(_ATTEMPTS):
        before = siblings(family)
        files = placement.opened(path for path in sorted(before) if path not in placement.matched)
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


def _same_text(file: LogFile, other: LogFile) -> bool:
    """One begins with the other: a copy that is just being written, or compressed."""
    length = min(len(file.head), len(other.head))
    return length > 0 and sha256_of(file.head[:length]) == sha256_of(other.head[:length])


def _reading_order(file: LogFile) -> tuple[str, bool, int, str]:
    """Oldest first; of two copies the longest uncompressed one."""
    return file.began or "", file.compressed, -file.size, file.path
