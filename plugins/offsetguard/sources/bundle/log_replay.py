"""The logs of a bundle: whose they are, in which time zone, and how they grow as they did.

Each replayed round finds the lines that were written up to its minute; the normal tailing then runs on them as on live
files. Lines without a time stamp belong to the record before them.
Brokers write GMT+8 wherever they run, and so do 5.x clients; 4.x clients write their host's zone, which nothing in the
log names. A zone that meta.json does not declare follows from the recorded exchanges: the log must overlap them.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import BinaryIO

from offsetguard.config import LogSource
from offsetguard.model.errors import BundleError
from offsetguard.model.intervals import zone_of
from offsetguard.sources.bundle.layout import BROKERS_LOG_TIME_ZONE, CLIENTS, LOGS, NAME_SERVER, broker_of, safe_name
from offsetguard.sources.bundle.reader import Bundle

_STAMP = re.compile(rb"^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)", re.MULTILINE)
_STAMP_FORMAT = "%Y-%m-%d %H:%M:%S"
_HEAD_BYTES, _TAIL_BYTES = 64 * 1024, 64 * 1024
_PIECE_BYTES = 1024 * 1024  # of a line that is longer
_TOLERANCE_S = 1_800  # a log may begin before the recording, or end early
_ZONES = ("+08:00", "+00:00", *(f"{sign}{hours:02}:00" for hours in range(1, 13) for sign in "+-"))


def log_sources(bundle: Bundle) -> tuple[LogSource, ...]:
    """Return one source for every folder of logs."""
    return (*_broker_sources(bundle), *_client_sources(bundle))


def _broker_sources(bundle: Bundle) -> Iterator[LogSource]:
    names = {safe_name(label): label for label in bundle.labels.values()}
    for folder in _folders(bundle.folder / LOGS):
        if folder.name == NAME_SERVER:
            continue
        broker = broker_of(names.get(folder.name, folder.name))
        if broker is None:
            bundle.notes.append(f"{folder}: is not named <broker name>-<broker id>; its logs are left out")
            continue
        yield log_source(folder.name, folder, "*.log", bundle.meta.log_time_zone, broker)


def _client_sources(bundle: Bundle) -> Iterator[LogSource]:
    for folder in _folders(bundle.folder / CLIENTS):
        file = folder / "rocketmq_client.log"
        if file.is_file():
            zone = bundle.meta.client_log_time_zone or time_zone_of(bundle, file)
            yield log_source(folder.name, folder, file.name, zone, None)


def log_source(name: str, folder: Path, files: str, time_zone: str, broker: tuple[str, int] | None) -> LogSource:
    """Make a source without checking it as a user's entry: the folder may have any path and the broker any name."""
    return LogSource.model_construct(
        name=name,
        files=[f"{glob.escape(str(folder))}/{files}"],
        broker_name=broker[0] if broker else None,
        broker_id=broker[1] if broker else 0,
        time_zone=time_zone,
    )


def time_zone_of(bundle: Bundle, file: Path) -> str:
    """Return the zone in which the stamps of a log overlap the recorded exchanges; brokers' zone if none does."""
    ends = _first_and_last_stamp(file)
    if ends is None or not bundle.exchanges:
        return BROKERS_LOG_TIME_ZONE
    begun_s, ended_s = bundle.exchanges[0].t_ms / 1000, bundle.exchanges[-1].t_ms / 1000
    for zone in _ZONES:
        shift_s = int(zone[:3]) * 3600
        if ends[0] - shift_s <= ended_s + _TOLERANCE_S and ends[1] - shift_s >= begun_s - _TOLERANCE_S:
            return zone
    return BROKERS_LOG_TIME_ZONE


def _first_and_last_stamp(file: Path) -> tuple[float, float] | None:
    """Return seconds since 1970 as if the stamps were UTC; None when the log carries none."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
        opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        tail = opened.read(_TAIL_BYTES)
    moments = [moment_of(stamp, UTC) for stamp in (*_STAMP.findall(head)[:1], *_STAMP.findall(tail)[-1:])]
    known = [moment.timestamp() for moment in moments if moment is not None]
    return (min(known), max(known)) if known else None


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


@dataclass(slots=True)
class _Growing:
    source: BinaryIO
    target: Path
    zone: tzinfo
    waiting: bytes = b""  # the first line of a later round


class LogReplay:
    """The logs of a bundle, copied to a folder of their own up to a moment that moves on."""

    def __init__(self, sources: Sequence[LogSource], folder: Path) -> None:
        """Open the logs; raises BundleError naming the one that cannot be read."""
        self._growing: list[_Growing] = []
        self.sources: tuple[LogSource, ...] = ()
        for number, source in enumerate(sources):
            place = folder / str(number)
            place.mkdir()
            for file in sorted(path for pattern in source.files for path in glob.glob(pattern)):  # noqa: PTH207 as tailing
                self._growing.append(_Growing(_opened(Path(file)), place / Path(file).name, zone_of(source.time_zone)))
            grown = source.model_copy(update={"files": [f"{glob.escape(str(place))}/*.log"]})
            self.sources = (*self.sources, grown)

    def advance(self, until: datetime | None) -> None:
        """Add the lines that were written before `until`; None = all that are left."""
        for growing in self._growing:
            with growing.target.open("ab") as target:
                for line in iter(lambda: _next_line(growing), b""):  # noqa: B023 used up before the next one
                    at = moment_of(line, growing.zone)
                    if until is not None and at is not None and at >= until:
                        growing.waiting = line
                        break
                    target.write(line)

    def close(self) -> None:
        """Close the logs."""
        for growing in self._growing:
            growing.source.close()


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise BundleError(f"{file}: cannot be read: {error.strerror or error}") from error


def _next_line(growing: _Growing) -> bytes:
    line, growing.waiting = growing.waiting, b""
    return line or growing.source.readline(_PIECE_BYTES)


def moment_of(line: bytes, zone: tzinfo) -> datetime | None:
    """Return when a line was written, UTC; None for a line without a time stamp."""
    match = _STAMP.match(line)
    if match is None:
        return None
    try:
        text = match[1].decode().replace("T", " ")
        return datetime.strptime(text, _STAMP_FORMAT).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
