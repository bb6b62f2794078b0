"""What a broker counts of itself: its runtime figures (28), rates of topics and groups (315), its replication (907)."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import (
    float_field,
    int_field,
    number_in,
    object_field,
    optional_int_field,
    texts_field,
    time_in,
    timestamp_of,
)

_CAPACITY = re.compile(r"Total : (?P<number>[0-9]{1,6}(?:\.[0-9]{1,3})?) (?P<unit>B|[KMGTPE]iB)", re.ASCII)
_RAN = re.compile(r"([0-9]{1,6}) days, ([0-9]{1,2}) hours, ([0-9]{1,2}) minutes, ([0-9]{1,2}) seconds", re.ASCII)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True, slots=True)
class BrokerRuntimeInfo:
    """Answer of 28: the broker's own figures, all of them texts; the properties give some of them their types."""

    table: Mapping[str, str]

    @property
    def broker_version_desc(self) -> str | None:
        """For example `V4_9_8`."""
        return self.table.get("brokerVersionDesc")

    @property
    def boot_at(self) -> datetime | None:
        """When the broker was started; UTC."""
        return self.time("bootTimestamp")

    @property
    def clock_at(self) -> datetime | None:
        """What its own clock showed at the answer, cut to whole seconds: started at, plus the time it has run."""
        ran, started_at = _RAN.search(self.table.get("runtime", "")), self.boot_at
        if ran is None or started_at is None:
            return None
        days, hours, minutes, seconds = (int(number) for number in ran.groups())
        try:
            return started_at + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            return None

    @property
    def is_active(self) -> bool | None:
        """False for a 5.x replica that serves no writes; None before 5.x."""
        return {"true": True, "false": False}.get(self.table.get("brokerActive", ""))

    @property
    def commit_log_disk_ratio(self) -> float | None:
        """Used share of the commit log's disk, 0..1; None = unknown (the broker says -1)."""
        ratio = self.number("commitLogDiskRatio")
        return ratio if ratio is not None and ratio >= 0 else None

    @property
    def commit_log_disk_bytes(self) -> int | None:
        """Size of the commit log's disk, of `Total : 252.0 GiB, Free : 67.2 GiB.`; None = it does not say so."""
        found = _CAPACITY.search(self.table.get("commitLogDirCapacity", ""))
        return None if found is None else int(float(found["number"]) * 1024 ** _UNITS.index(found["unit"]))

    @property
    def commit_log_min_offset(self) -> int | None:
        """Oldest byte position that the commit log still holds."""
        return self.integer("commitLogMinOffset")

    @property
    def commit_log_max_offset(self) -> int | None:
        """Next byte position to be written."""
        return self.integer("commitLogMaxOffset")

    def number(self, key: str) -> float | None:
        """Return a figure; None where it is absent or no number (brokers write "null", "" and "NaN")."""
        return _finite(self.table.get(key, ""))

    def integer(self, key: str) -> int | None:
        """Return a 64-bit number; None where it is absent or no such number."""
        return number_in(self.table.get(key, ""))

    def time(self, key: str) -> datetime | None:
        """Return a time given in ms, UTC; None where it is absent, 0, negative (unknown) or beyond the year 9999."""
        return time_in(self.table.get(key, ""))

    def tps(self, key: str) -> tuple[float, ...]:
        """Return the rates of `putTps` and the like over 10 s, 60 s and 600 s; windows not yet filled are missing."""
        rates = [_finite(rate) for rate in self.table.get(key, "").split()[:3]]
        return tuple(rate for rate in rates if rate is not None) if None not in rates else ()

    def minute_tps(self, key: str) -> float | None:
        """Return the rate over 60 s; None in the replica's first minute."""
        rates = self.tps(key)
        return rates[1] if len(rates) > 1 else None


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """One window of a rate. Latencies count milliseconds: `sum` and `tps` are ms, `average` is ms per request."""

    sum: int
    tps: float
    average: float  # amount per time that something was counted


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Answer of 315: one rate as one replica counted it. `tps` of the minute is the figure to use."""

    minute: StatsSnapshot
    hour: StatsSnapshot
    day: StatsSnapshot


def broker_runtime_info(body: bytes) -> BrokerRuntimeInfo:
    """28 GET_BROKER_RUNTIME_INFO."""
    return BrokerRuntimeInfo(texts_field(fastjson.decode_object(body), "table"))


def broker_stats(body: bytes) -> BrokerStats:
    """315 VIEW_BROKER_STATS_DATA."""
    document = fastjson.decode_object(body)
    return BrokerStats(
        minute=_stats_snapshot(document, "statsMinute"),
        hour=_stats_snapshot(document, "statsHour"),
        day=_stats_snapshot(document, "statsDay"),
    )


def _stats_snapshot(document: Mapping[str, Any], name: str) -> StatsSnapshot:
    window = object_field(document, name)
    return StatsSnapshot(
        sum=int_field(window, "sum"), tps=float_field(window, "tps"), average=float_field(window, "avgpt")
    )


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def last_replicated_at(body: bytes) -> datetime | None:
    """907 GET_BROKER_HA_STATUS of a slave: when it read from its master last; None: a master, or it never did.

    A master that lives sends something every 5 s (DefaultHAConnection, AutoSwitchHAConnection 5.5.0).
    """
    document = fastjson.decode_object(body)
    read_ms = optional_int_field(object_field(document, "haClientRuntimeInfo"), "lastReadTimestamp")
    return None if document.get("master") is True or not read_ms else timestamp_of(read_ms, "lastReadTimestamp")
