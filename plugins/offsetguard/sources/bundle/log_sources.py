"""The logs of a bundle as log sources: which broker or client wrote them, and in which time zone.

Brokers write GMT+8 wherever they run, and so do 5.x clients; 4.x clients write their host's zone, which nothing in the
log names. A zone that meta.json does not declare is told by the recorded exchanges: the log must overlap them.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from offsetguard.config import LogSource
from offsetguard.sources.bundle.layout import BROKERS_LOG_TIME_ZONE, CLIENTS, LOGS, NAME_SERVER, broker_of, safe_name
from offsetguard.sources.bundle.reader import Bundle

_STAMP = re.compile(rb"^(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)", re.MULTILINE)
_STAMP_FORMAT = "%Y-%m-%d %H:%M:%S"
_HEAD_BYTES, _TAIL_BYTES = 64 * 1024, 64 * 1024
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
        yield _source(folder, "*.log", bundle.meta.log_time_zone, broker)


def _client_sources(bundle: Bundle) -> Iterator[LogSource]:
    for folder in _folders(bundle.folder / CLIENTS):
        file = folder / "rocketmq_client.log"
        if file.is_file():
            zone = bundle.meta.client_log_time_zone or time_zone_of(bundle, file)
            yield _source(folder, file.name, zone, None)


def _source(folder: Path, files: str, time_zone: str, broker: tuple[str, int] | None) -> LogSource:
    """Make a source without checking it as a user's entry: the folder may have any path and the broker any name."""
    return LogSource.model_construct(
        name=folder.name,
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
    stamps = [_seconds(stamp) for stamp in (*_STAMP.findall(head)[:1], *_STAMP.findall(tail)[-1:])]
    known = [stamp for stamp in stamps if stamp is not None]
    return (min(known), max(known)) if known else None


def _seconds(stamp: bytes) -> float | None:
    try:
        text = stamp.decode("ascii").replace("T", " ")
        return datetime.strptime(text, _STAMP_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []
