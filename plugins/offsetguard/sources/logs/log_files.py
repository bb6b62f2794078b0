"""Log files on a disk: which ones a source names, their rotated siblings, and what a file begins with.

RocketMQ's logback renames a full log, compresses it into `otherdays/<name>.<n>.log.gz` (clients: `other_days/
<name>-<n>.log.gz`) and moves the older ones up by one; meanwhile the file is called `<name>.log<number>.tmp`.
logrotate makes `<name>.log.1`, `.2.gz`, `-20261121`, or copies and truncates.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offsetguard.sources.logs.layouts import RECORD_START
from offsetguard.sources.logs.log_stream import LogStream

HEAD_BYTES = 4096
_MAX_STEM = 100
_ARCHIVE_FOLDERS = ("otherdays", "other_days")
_ROTATED_NAME = re.compile(r"(?P<stem>.+?)(?:\.log)?(?:[-._]?[0-9][0-9_.T:-]*)?(?:\.log)?(?:\.tmp)?(?:\.gz)?")
_TIME_STAMP = re.compile(RECORD_START.encode())

Family = tuple[str, str]  # (folder without `otherdays`, stem of the name): a log and its rotated siblings


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file as it was when it was looked at."""

    path: str
    inode: int
    size: int  # on the disk
    compressed: bool
    head: bytes  # the first HEAD_BYTES of the uncompressed text

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
        match = _TIME_STAMP.match(self.head)
        return match.group()[:19].decode() if match else None

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
        except OSError:  # most logs have one archive folder at most; a matched file that is gone is told elsewhere
            continue
    return found


def look_at(path: str) -> LogFile:
    """Open a file and read what it begins with; raises OSError."""
    with LogStream(path) as stream:
        return looked_at(stream)


def looked_at(stream: LogStream) -> LogFile:
    """Read what a stream that was just opened begins with; raises OSError."""
    return LogFile(stream.path, stream.inode, stream.size, stream.compressed, stream.head(HEAD_BYTES))
