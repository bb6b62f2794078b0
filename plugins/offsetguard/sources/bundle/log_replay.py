"""The logs of a bundle: whose they are, in which time zone, and how they grow as they did.

Each replayed round finds the lines that were written up to its minute; the normal tailing then runs on them as on live
files, which end there. Nothing is copied. Lines without a time stamp belong to the record before them.
Brokers write GMT+8 wherever they run, and so do 5.x clients; 4.x clients write their host's zone, which nothing in the
log names. A zone that meta.json does not declare follows from the recorded exchanges: the log must overlap them.
"""

import glob
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from offsetguard.config import LogSource
from offsetguard.model.errors import BundleError
from offsetguard.model.intervals import zone_of
from offsetguard.sources.bundle import layout
from offsetguard.sources.bundle.reader import Bundle
from offsetguard.sources.logs.log_files import RecordedLogs

_STAMP = re.compile(rb"^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)", re.MULTILINE)
_STAMP_FORMAT = "%Y-%m-%d %H:%M:%S"
_HEAD_BYTES, _TAIL_BYTES = 64 * 1024, 64 * 1024
_PIECE_BYTES = 1024 * 1024  # of a line that is longer
_TOLERANCE_S = 1_800  # a log may begin before the recording, or end early
MAX_LOG_BYTES = 1024 * 1024 * 1024  # of all logs of a bundle: to go through so many takes half a minute
_ZONES = ("+08:00", "+00:00", *(f"{sign}{hours:02}:00" for hours in range(1, 13) for sign in "+-"))


def log_sources(bundle: Bundle) -> tuple[RecordedLogs, ...]:
    """Return one source for every folder of logs, each file with its size; what is no file of a bundle is noted."""
    return (*_broker_sources(bundle), *_client_sources(bundle))


def _broker_sources(bundle: Bundle) -> Iterator[RecordedLogs]:
    names = {layout.safe_name(label): label for label in bundle.labels.values()}
    for folder in _folders(bundle.folder / layout.LOGS):
        if folder.name == layout.NAME_SERVER:
            continue
        broker = layout.broker_of(names.get(folder.name, folder.name))
        if broker is None:
            bundle.notes.append(f"{folder}: is not named <broker name>-<broker id>; its logs are left out")
            continue
        yield _recorded(bundle, folder, "*.log", bundle.meta.log_time_zone, broker)


def _client_sources(bundle: Bundle) -> Iterator[RecordedLogs]:
    for folder in _folders(bundle.folder / layout.CLIENTS):
        source = _recorded(bundle, folder, "rocketmq_client.log", layout.BROKERS_LOG_TIME_ZONE, None)
        for file in source.ends:
            zone = bundle.meta.client_log_time_zone or time_zone_of(bundle, file)
            yield source.model_copy(update={"time_zone": zone})


def _recorded(
    bundle: Bundle, folder: Path, pattern: str, time_zone: str, broker: tuple[str, int] | None
) -> RecordedLogs:
    """Return the logs of a folder with their whole lengths."""
    ends: dict[str, int] = {}
    for file in sorted(folder.glob(pattern)):
        try:
            with _opened(bundle, str(file)) as opened:
                ends[str(file)] = opened.seek(0, os.SEEK_END)
        except BundleError as error:
            bundle.notes.append(f"{error}; it is left out")
    source = log_source(folder.name, folder, pattern, time_zone, broker)
    return RecordedLogs.model_construct(**dict(source) | {"files": [*map(glob.escape, ends)], "ends": ends})


def _opened(bundle: Bundle, file: str) -> AbstractContextManager[BinaryIO]:
    return layout.opened_file(bundle.folder, str(Path(file).relative_to(bundle.folder)))


def log_source(name: str, folder: Path, files: str, time_zone: str, broker: tuple[str, int] | None) -> LogSource:
    """Make a source without checking it as a user's entry: the folder may have any path and the broker any name."""
    return LogSource.model_construct(
        name=name,
        files=[f"{glob.escape(str(folder))}/{files}"],
        broker_name=broker[0] if broker else None,
        broker_id=broker[1] if broker else 0,
        time_zone=time_zone,
    )


def time_zone_of(bundle: Bundle, file: str) -> str:
    """Return the zone in which the stamps of a log overlap the recorded exchanges; brokers' zone if none does."""
    ends = _first_and_last_stamp(bundle, file)
    if ends is None or not bundle.exchanges:
        return layout.BROKERS_LOG_TIME_ZONE
    begun_s, ended_s = bundle.exchanges[0].t_ms / 1000, bundle.exchanges[-1].t_ms / 1000
    for zone in _ZONES:
        shift_s = int(zone[:3]) * 3600
        if ends[0] - shift_s <= ended_s + _TOLERANCE_S and ends[1] - shift_s >= begun_s - _TOLERANCE_S:
            return zone
    return layout.BROKERS_LOG_TIME_ZONE


def _first_and_last_stamp(bundle: Bundle, file: str) -> tuple[float, float] | None:
    """Return seconds since 1970 as if the stamps were UTC; None when the log carries none."""
    with _opened(bundle, file) as opened:
        head = opened.read(_HEAD_BYTES)
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL_BYTES))
        tail = opened.read(_TAIL_BYTES)
    moments = [moment_of(stamp, UTC) for stamp in (*_STAMP.findall(head)[:1], *_STAMP.findall(tail)[-1:])]
    known = [moment.timestamp() for moment in moments if moment is not None]
    return (min(known), max(known)) if known else None


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
    except OSError as error:
        raise BundleError(f"{parent}: cannot be read: {error.strerror or error}") from error


class LogReplay:
    """The logs of a bundle, up to a moment that moves on."""

    def __init__(self, bundle: Bundle) -> None:
        """Find the logs; what of them is left out is noted in the bundle."""
        self._bundle = bundle
        self._sources = log_sources(bundle)
        self._ends = {file: 0 for source in self._sources for file in source.ends}
        if (size := sum(sum(source.ends.values()) for source in self._sources)) > MAX_LOG_BYTES:
            bundle.notes.append(
                f"{bundle.folder}: holds {size:,} bytes of logs, of which {MAX_LOG_BYTES:,} are read; cut the logs to"
                " the time of the recording"
            )

    def until(self, moment: datetime | None) -> tuple[RecordedLogs, ...]:
        """Return the logs with the lines that were written before a moment, no earlier than the last one; None = all.

        Raises BundleError naming the log that cannot be read any more.
        """
        for source in self._sources:
            zone = zone_of(source.time_zone)
            for file in source.ends:
                self._advance(file, zone, moment)
        return tuple(
            source.model_copy(update={"ends": {file: self._ends[file] for file in source.ends}})
            for source in self._sources
        )

    def _advance(self, file: str, zone: tzinfo, moment: datetime | None) -> None:
        left = MAX_LOG_BYTES - sum(self._ends.values())
        with _opened(self._bundle, file) as opened:
            opened.seek(self._ends[file])
            while line := opened.readline(min(_PIECE_BYTES, left)):
                at = moment_of(line, zone)
                if moment is not None and at is not None and at >= moment:
                    return
                self._ends[file] += len(line)
                left -= len(line)


def moment_of(line: bytes, zone: tzinfo) -> datetime | None:
    """Return when a line was written, UTC; None for a line without a time stamp."""
    match = _STAMP.match(line)
    return None if match is None else _moment_of_stamp(match[1].decode(), zone)


@lru_cache(maxsize=64)  # busy brokers write hundreds of lines in a second
def _moment_of_stamp(stamp: str, zone: tzinfo) -> datetime | None:
    try:
        return datetime.strptime(stamp.replace("T", " "), _STAMP_FORMAT).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
