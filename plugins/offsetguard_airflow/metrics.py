"""Our metrics, sent the way Airflow sends its own: StatsD, DogStatsD or OpenTelemetry, as `[metrics]` says.

`offsetguard.lake.cycle_metrics` names them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf
from airflow.sdk.observability.stats import gauge, incr, timing
from sqlalchemy import Engine

from offsetguard.model.intervals import Interval
from offsetguard.store import cycles

if TYPE_CHECKING:
    from offsetguard.lake.cycle_metrics import Measurement


def send(measurements: Iterable[Measurement]) -> None:
    """Send values; nothing happens when Airflow's metrics are off."""
    from offsetguard.lake.cycle_metrics import MetricKind

    tagged = receiver_knows_tags()
    for one in measurements:
        name = one.metric.name if tagged else one.dotted_name
        tags = dict(one.tags) if tagged else None
        match one.metric.kind:
            case MetricKind.COUNTER if not one.value:
                pass
            case MetricKind.COUNTER:
                incr(name, int(one.value), tags=tags)
            case MetricKind.GAUGE:
                gauge(name, one.value, tags=tags)
            case MetricKind.TIMING:
                timing(name, one.value, tags=tags)


def send_cycles(
    engine: Engine, *, since: datetime, clusters: Collection[str] | None = None, interval: Interval | None = None
) -> None:
    """Send what the cycles did that have begun since a moment, also those that failed; of some clusters' interval."""
    from offsetguard.lake.cycle_metrics import of_cycle

    for cycle in cycles.newest(engine, interval=interval, since=since):
        if cycle.running_under is None and (clusters is None or cycle.cluster in clusters):
            send(of_cycle(cycle))


def receiver_knows_tags() -> bool:
    """Whether values of one metric can be told apart by tags: plain StatsD drops them, and would mix tables up."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return True
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return bool(conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False))
    return True
