"""The ends of logs, for commands that look once: what was written lately is read, however large the files are.

Collectors read logs from where they ended the last time. Here nothing was read before, and what a broker wrote last
month says nothing of now: so the newest lines are copied to a folder of their own, which the normal reading takes.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offsetguard.config import LogSource
from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.layout import LOGS, broker_of
from offsetguard.sources.bundle.log_excerpts import LogFolder
from offsetguard.sources.bundle.log_replay import moment_of, zone_of

MAX_TAIL_BYTES = 12 * 1024 * 1024  # of all logs together; below what one round reads
_BROKERS_ZONE = "+08:00"
_LAST_STAMP = re.compile(rb"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)", re.MULTILINE)
_STAMP_BYTES = 64 * 1024
_QUARTER = timedelta(minutes=15)  # no zone is off by anything else
_LARGEST_OFFSET = timedelta(hours=14)


def sources_of_folders(folders: Sequence[LogFolder]) -> tuple[LogSource, ...]:
    """Return the folders with logs as log sources; a client's zone is told by when its log was last written."""
    return tuple(_source(one) for one in folders)


def _source(folder: LogFolder) -> LogSource:
    kind, _, name = folder.place.partition("/")
    broker = broker_of(name) if kind == LOGS else None
    files = f"{glob.escape(str(folder.folder))}/{folder.pattern}"
    return LogSource.model_construct(  # not a user's entry: the folder may have any path and the broker any name
        name=name,
        files=[files],
        broker_name=broker[0] if broker else None,
        broker_id=broker[1] if broker else 0,
        time_zone=_BROKERS_ZONE if broker else _zone_of_client(files),
    )


def _zone_of_client(pattern: str) -> str:
    """Return the offset between the last stamp of the newest file and the time at which it was written."""
    files = sorted(map(Path, glob.glob(pattern)), key=lambda file: file.stat().st_mtime)  # noqa: PTH207 as tailing
    for file in reversed(files):
        stamps = _LAST_STAMP.findall(_end_of(file, _STAMP_BYTES))
        if not stamps:
            continue
        try:
            told = datetime.strptime(b" ".join(stamps[-1]).decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            continue
        ahead = told - datetime.fromtimestamp(file.stat().st_mtime, UTC)
        minutes = round(ahead / _QUARTER) * 15
        if abs(ahead) <= _LARGEST_OFFSET:
            return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return _BROKERS_ZONE


def copy_tails(
    sources: Sequence[LogSource], since: datetime, folder: Path, max_bytes: int = MAX_TAIL_BYTES
) -> tuple[LogSource, ...]:
    """Copy the lines since a moment to `folder`; returns the sources as they lie there. Raises BundleError.

    Each file may give its share of `max_bytes`, the newest lines of it.
    """
    found = [(source, sorted({file for pattern in source.files for file in glob.glob(pattern)})) for source in sources]  # noqa: PTH207 as tailing
    share = max_bytes // max(1, sum(len(files) for _, files in found))
    copied = []
    for number, (source, files) in enumerate(found):
        place = folder / str(number)
        place.mkdir()
        for file in map(Path, files):
            if (lines := _lines_since(file, source, since, share)) and file.suffix == ".log":
                (place / file.name).write_bytes(lines)
        copied.append(source.model_copy(update={"files": [f"{glob.escape(str(place))}/*.log"]}) if files else source)
    return tuple(copied)


def _lines_since(file: Path, source: LogSource, since: datetime, max_bytes: int) -> bytes:
    """Return whole lines from the first one that is not older; records go on over lines without a stamp."""
    try:
        lines = _end_of(file, max_bytes).splitlines(keepends=True)
    except OSError as error:
        raise BundleError(f"--logs: {file}: cannot be read: {error.strerror}") from error
    zone = zone_of(source.time_zone)
    for place, line in enumerate(lines):
        at = moment_of(line, zone)
        if at is not None and at >= since:
            return b"".join(lines[place:])
    return b""


def _end_of(file: Path, max_bytes: int) -> bytes:
    """Return the last bytes of a file, from the start of a line on."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        opened.seek(max(0, size - max_bytes))
        data = opened.read(max_bytes)
    return data if size <= max_bytes else data.partition(b"\n")[2]
