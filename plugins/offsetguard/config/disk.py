"""Files that are replaced whole or not at all, and what is said of a disk that takes nothing more."""

import errno
import os
import tempfile
from pathlib import Path

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_NEARLY_NOTHING = 1024 * 1024  # bytes: a database may ask for more at once than is left


def replace_text(file: Path, text: str, *, durable: bool = False) -> None:
    """Put a text in a file's place: a reader sees the old or the new one, whole, and an error leaves nothing else.

    `durable`: also after a power cut.
    """
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as written:
            written.write(text)
            if durable:
                written.flush()
                os.fsync(descriptor)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_disk_error(error: OSError) -> bool:
    """Whether the disk takes nothing more, whatever is written: it is full, over a limit, or read-only."""
    return error.errno in _DISK_ERRORS


def why_unwritten(path: Path, error: OSError) -> str:
    """Say that a path cannot be written, why, and what to do; also for an error of Arrow, whose own text is long."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    do_next = disk_advice(path) if is_disk_error(error) else "name another place, or let this user write there"
    return f"{path}: cannot be written: {reason}; {do_next}"


def disk_advice(path: Path) -> str:
    """Say what to do about the disk that a path is on, or would be on."""
    disk = _disk_of(path)
    if disk.f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only: mount it for writing"
    free = _free_bytes(disk)
    return f"{free:,} bytes are free there: make room on the disk (or raise the quota, or the limit of file sizes)"


def takes_nothing(path: Path) -> bool:
    """Whether the disk of a path is read-only or as good as full: databases say neither in a way that can be read."""
    disk = _disk_of(path)
    return bool(disk.f_flag & os.ST_RDONLY) or _free_bytes(disk) < _NEARLY_NOTHING


def _disk_of(path: Path) -> os.statvfs_result:
    return os.statvfs(next(one for one in (path, *path.absolute().parents) if one.exists()))


def _free_bytes(disk: os.statvfs_result) -> int:
    return disk.f_bavail * disk.f_frsize
