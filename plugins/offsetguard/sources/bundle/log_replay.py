"""Lets the logs of a bundle grow as they did: each replayed round finds the lines that were written up to its minute.

The normal tailing then runs on them as on live files. Lines without a time stamp belong to the record before them.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import BinaryIO

from offsetguard.config import LogSource
from offsetguard.model import intervals
from offsetguard.model.errors import BundleError, ConfigError

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_PIECE_BYTES = 1024 * 1024  # of a line that is longer


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


def zone_of(name: str) -> tzinfo:
    """Return the zone of `+08:00` or of a name; raises BundleError for one that does not exist."""
    try:
        return intervals.zone_of(name)
    except ConfigError as error:
        raise BundleError(f"log_time_zone: there is no time zone {name!r}; write for example +08:00") from error


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
        text = f"{match[1].decode()} {match[2].decode()}"
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
